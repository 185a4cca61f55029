//! The pages that were programmed last. After a power cut, one may read correctly for a while and
//! then not at all. Nothing on flash shows whether that is so, but a page that is followed by
//! another one was complete.
//!
//! Layer: data. `settle` writes the nodes of these pages again.
//!
//! # Invariants
//! 1. The last programmed page of a block that is not full is read from memory, as the scan saw it.
//! 2. A page that could not be programmed when writing ended is read from memory, too, and nothing
//!    is reported as durable any more.

use super::nodelist::Span;

/// A page as the scan saw it.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) place: u32,
    pub(crate) bytes: Box<[u8]>,
}

impl Page {
    fn span(&self) -> Span {
        Span { start: self.place, end: self.place + self.bytes.len() as u32 }
    }
}

/// Pages that may be unstable.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    pages: Vec<Page>,
    /// Some could not be programmed, and their live nodes could not be written elsewhere.
    pub(crate) has_lost: bool,
}

impl Suspects {
    pub(crate) fn new(pages: Vec<Page>) -> Self {
        Self { pages, ..Self::default() }
    }

    /// Keeps a page that could not be programmed, if writing has ended permanently.
    pub(crate) fn keep(&mut self, page: Page) {
        self.pages.push(page);
        self.has_lost = true;
    }

    /// Returns the range of the first page.
    pub(crate) fn first(&self) -> Option<Span> {
        self.pages.first().map(Page::span)
    }

    /// Returns the range of each page.
    pub(crate) fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.pages.iter().map(Page::span)
    }

    /// Replaces bytes read from `place` by those that the scan saw.
    pub(crate) fn overlay(&self, place: u32, buf: &mut [u8]) {
        for page in &self.pages {
            overlay(page.place, &page.bytes, place, buf);
        }
    }

    /// Forgets the pages in a span, which is about to be erased or whose nodes are elsewhere.
    pub(crate) fn forget(&mut self, span: Span) {
        self.pages.retain(|page| !(span.start..span.end).contains(&page.place));
    }
}

/// Replaces the part of `buf`, read from `place`, that overlaps `bytes`, which belong at `start`.
pub(crate) fn overlay(start: u32, bytes: &[u8], place: u32, buf: &mut [u8]) {
    let first = start.max(place);
    let last = (start + bytes.len() as u32).min(place + buf.len() as u32);
    if first < last {
        buf[(first - place) as usize..(last - place) as usize]
            .copy_from_slice(&bytes[(first - start) as usize..(last - start) as usize]);
    }
}
