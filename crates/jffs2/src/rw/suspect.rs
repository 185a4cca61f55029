//! The page that was programmed last: a power cut may leave it so that it reads well for a while and
//! then not at all. Nothing on flash says whether it did, but a page that another one follows was
//! complete.
//!
//! # Invariants
//! 1. The last programmed page of a block that is not full is read from memory, as the scan saw it.
//! 2. Nothing is written or erased, and nothing is called durable, before what lives in such pages
//!    has been written again in another block: a block is continued only when no node touches its
//!    last page.
//! 3. It is written twice: first as it is, so that a part of it is what was there at some moment,
//!    and then with new versions, so that it counts even when the power went while the block of the
//!    page was being erased and the page reads well for the last time.
//! 4. A page that could not be programmed when writing came to an end is read from memory as well,
//!    and nothing is called durable any more.
//! 5. No node lies in the last page of a block: the page before it is proven by it.

use super::nodelist::{NodeRef, RefKind};
use super::nodemgmt::Alloc;
use super::state::State;
use super::write::NewNode;
use eraseblock_jffs2_format::constants::DIRENT_LEN;
use eraseblock_jffs2_format::summary::Record;
use eraseblock_jffs2_format::{decode, encode};
use eraseblock_vfs::{FsError, FsErrorKind};

/// The most bytes of the record of a node in a summary.
const LONGEST_RECORD: u32 = 24 + 255;

/// A page as the scan saw it.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) place: u32,
    pub(crate) bytes: Box<[u8]>,
}

/// Pages that may be unstable.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    pages: Vec<Page>,
    /// What lives in them is being written again.
    is_settling: bool,
    /// Some could not be programmed, nor what lives in them be written elsewhere.
    pub(crate) has_lost: bool,
}

impl Suspects {
    pub(crate) fn new(pages: Vec<Page>) -> Self {
        Self { pages, ..Self::default() }
    }

    /// Keeps a page that could not be programmed, if writing has ended permanently.
    pub(crate) fn keep(&mut self, place: u32, bytes: Vec<u8>) {
        self.pages.push(Page { place, bytes: bytes.into() });
        self.has_lost = true;
    }

    /// Replaces what was read from `place` by what the scan saw.
    pub(crate) fn overlay(&self, place: u32, buf: &mut [u8]) {
        for page in &self.pages {
            let first = page.place.max(place);
            let last = (page.place + page.bytes.len() as u32).min(place + buf.len() as u32);
            if first < last {
                buf[(first - place) as usize..(last - place) as usize].copy_from_slice(
                    &page.bytes[(first - page.place) as usize..(last - page.place) as usize],
                );
            }
        }
    }

    /// The bytes in [start, end) are about to be erased.
    pub(crate) fn forget(&mut self, start: u32, end: u32) {
        self.pages.retain(|page| !(start..end).contains(&page.place));
    }
}

impl State {
    /// Writes what lives in pages that may be unstable again. A full medium is left as it is.
    pub(crate) fn settle_suspects(&mut self) -> Result<(), FsError> {
        if self.suspects.is_settling {
            return Ok(());
        }
        while let Some(page) = self.suspects.pages.first() {
            let (start, end) = (page.place, page.place + page.bytes.len() as u32);
            self.suspects.is_settling = true;
            let moved = self.move_nodes(start, end).and_then(|copies| {
                self.suspects.forget(start, end);
                self.renew(&copies)
            });
            self.suspects.is_settling = false;
            match moved {
                Ok(()) => {}
                Err(error) if error.kind() == FsErrorKind::NoSpace => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns whether anything must be written again.
    pub(crate) fn has_suspects(&self) -> bool {
        self.suspects.pages.iter().any(|page| {
            let end = page.place + page.bytes.len() as u32;
            self.live_in(page.place, end, page.place / self.flash.block * self.flash.block)
                .is_some()
        })
    }

    /// The nodes, alive or dead, that touch [start, end), which lies in one block.
    fn touching(&self, start: u32, end: u32) -> impl Iterator<Item = NodeRef> {
        let nodes = self.blocks.get(start / self.flash.block).refs.iter().copied();
        nodes.filter(move |node| {
            let (place, len) = (node.place(), node.len());
            node.kind() != RefKind::Filler && place < end && place + len > start
        })
    }

    /// Returns the first live node that touches [start, end) and begins at or after `from`.
    fn live_in(&self, start: u32, end: u32, from: u32) -> Option<u32> {
        let nodes = self.touching(start, end).filter(|node| node.is_live());
        nodes.map(NodeRef::place).find(|place| *place >= from)
    }

    /// Whether a node, alive or dead, touches [start, end).
    fn is_touched(&self, start: u32, end: u32) -> bool {
        self.touching(start, end).next().is_some()
    }

    /// Whether a block may be continued: its last page, if it is not full, holds no node.
    pub(crate) fn is_proven(&self, block: u32) -> bool {
        let size = self.flash.block;
        let mut pages = self.suspects.pages.iter().filter(|page| page.place / size == block);
        !pages.any(|page| self.is_touched(page.place, page.place + page.bytes.len() as u32))
    }

    /// Moves what lives in a page as it is: a node that began in an earlier page first, then the
    /// others with one program. Returns the places of the copies.
    fn move_nodes(&mut self, start: u32, end: u32) -> Result<Vec<u32>, FsError> {
        let mut copies = Vec::new();
        let first = start / self.flash.block * self.flash.block;
        if let Some(place) = self.live_in(start, end, first).filter(|place| *place < start) {
            copies.push(self.move_node(place)?);
            self.flush()?;
        }
        let mine = self.touching(start, end).filter(|node| node.is_live() && node.place() >= start);
        let (len, count) = mine.fold((0, 0), |(len, count), node| (len + node.len(), count + 1));
        // No record is longer than its node.
        self.reserve(len, Alloc::Collection, len.min(count * LONGEST_RECORD))?;
        let mut from = start;
        while let Some(place) = self.live_in(start, end, from) {
            copies.push(self.move_node(place)?);
            from = place + 4;
        }
        self.flush()?;
        Ok(copies)
    }

    /// Writes the nodes at `places` again with new versions. One that a failed program has moved on
    /// is dead here.
    fn renew(&mut self, places: &[u32]) -> Result<(), FsError> {
        for place in places {
            if let Some(node) = self.blocks.node(*place).filter(|node| node.is_live()) {
                self.collect_node(node)?;
            }
        }
        self.flush()
    }

    /// Writes a node again as it is, listed in a summary if it can be. Returns its place.
    pub(crate) fn move_node(&mut self, place: u32) -> Result<u32, FsError> {
        let node = self.node(place);
        let (bytes, order) = (self.read_node(node)?, self.flash.order);
        let header = decode::header(order, &bytes, self.flash.location(place));
        let listed = header.ok().and_then(|header| {
            let exact = bytes.get(..header.totlen as usize)?;
            Some((Record::of(order, header.kind(), exact, 0).ok()??, header.totlen))
        });
        let Some((record, totlen)) = listed else { return self.carry(node, &bytes) };
        self.reserve(node.len(), Alloc::Collection, record.len())?;
        let new = self.put(&NewNode {
            kind: node.kind(),
            owner: node.owner,
            state: node.state(),
            record: Some((record.node, totlen)),
            bytes: &bytes,
        })?;
        let name = bytes.get(DIRENT_LEN as usize..totlen as usize);
        self.relocate(node, new, name.filter(|_| node.kind() == RefKind::Dirent));
        Ok(new)
    }

    /// Before an unmount, confirms the last page by a page of padding, so that the next mount need
    /// not suspect it. Has no effect if writing is not possible.
    pub(crate) fn seal(&mut self) -> Result<(), FsError> {
        if self.read_only || self.closed.is_some() {
            return Ok(());
        }
        let page = self.flash.page;
        let Some(block) = self.blocks.next().filter(|_| self.flash.has_buffer()) else {
            return Ok(());
        };
        let free = self.blocks.get(block).sizes.free;
        let end = self.flash.start(block) + self.flash.block - free;
        let start = end.saturating_sub(page).max(self.flash.start(block));
        if start == end || !self.is_touched(start, end) {
            return Ok(());
        }
        if free < page + self.kept(0) {
            return self.close_block(block);
        }
        self.pad_page(block)
    }

    /// Bytes at the end of the open block that no node goes into, when one more record of `record`
    /// bytes is in its summary.
    pub(crate) fn kept(&self, record: u32) -> u32 {
        let last = if self.flash.has_buffer() { self.flash.page } else { 0 };
        self.summary.needed(record).max(last)
    }

    /// Programs one page of padding at the end of what has been written.
    pub(crate) fn pad_page(&mut self, block: u32) -> Result<(), FsError> {
        let page = self.flash.page;
        let place = self.flash.start(block) + self.flash.block - self.blocks.get(block).sizes.free;
        let mut bytes = Vec::with_capacity(page as usize);
        encode::padding(self.flash.order, page, &mut bytes);
        bytes.resize(page as usize, 0);
        if let Err(error) = self.write_flash(place, &bytes) {
            return self.write_failed(block, error);
        }
        self.blocks.resize(block, |sizes| {
            sizes.free -= page;
            sizes.wasted += page;
        });
        Ok(())
    }
}
