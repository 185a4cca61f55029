//! The source of the pages.

use crate::layout::Layout;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::ReadError;
use eraseblock_mtd::{Mtd, ReadAt};
use eraseblock_yaffs_format::small::is_programmed;
use std::sync::Arc;

/// The source of an image.
#[derive(Clone, Debug)]
pub enum Source {
    /// A raw dump: pages with their spare bytes.
    Image(Arc<dyn ReadAt>),
    /// A flash device with spare bytes.
    Device(Arc<dyn Mtd>),
}

impl Source {
    /// Returns the number of bytes of data and spare together.
    pub(crate) fn size(&self) -> Result<u64, ReadError> {
        match self {
            Self::Image(image) => image.size().map_err(ReadError::Image),
            Self::Device(device) => {
                let geometry = device.geometry();
                let pages = geometry.size() / u64::from(geometry.min_io());
                Ok(pages * u64::from(geometry.min_io() + geometry.oob_size()))
            }
        }
    }

    /// Reads consecutive pages; what an image that ends early lacks is erased.
    pub(crate) fn pages(
        &self,
        page: u32,
        spare: u32,
        first: u32,
        count: u32,
    ) -> Result<Pages, ReadError> {
        let raw = (page + spare) as usize;
        let len = raw * count as usize;
        // Few different sizes: an allocator keeps freed memory of each.
        let mut bytes = Vec::with_capacity(len.next_power_of_two());
        bytes.resize(len, 0xFF);
        let mut pages = Pages { bytes, page: page as usize, raw, uncorrectable: Vec::new() };
        match self {
            Self::Image(image) => {
                let start = u64::from(first) * raw as u64;
                if image.read_exact_at(&mut pages.bytes, start).is_err() {
                    // The image may end before, which is no reason to ask for its size every time.
                    pages.bytes.fill(0xFF);
                    let rest = image.size().map_err(ReadError::Image)?.saturating_sub(start);
                    let len = usize::try_from(rest).unwrap_or(usize::MAX).min(pages.bytes.len());
                    let bytes = &mut pages.bytes[..len - len % raw];
                    image.read_exact_at(bytes, start).map_err(ReadError::Image)?;
                }
            }
            Self::Device(device) => {
                for (index, bytes) in (0..).zip(pages.bytes.chunks_exact_mut(raw)) {
                    let (data, oob) = bytes.split_at_mut(page as usize);
                    let addr = (u64::from(first) + index) * u64::from(page);
                    let outcome = device.read_with_oob(addr, data, oob);
                    let outcome = outcome.map_err(ReadError::Device)?;
                    pages.uncorrectable.push(outcome.uncorrectable);
                }
            }
        }
        Ok(pages)
    }
}

/// Consecutive raw pages.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    bytes: Vec<u8>,
    page: usize,
    raw: usize,
    /// Whether the device could not correct a page; empty for images.
    uncorrectable: Vec<bool>,
}

/// A raw page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawPage<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) spare: &'a [u8],
    /// The device could not correct it.
    pub(crate) is_uncorrectable: bool,
}

impl Pages {
    /// Returns the pages that `bytes` of an image are.
    pub(crate) fn of(bytes: Vec<u8>, page: u32, spare: u32) -> Self {
        let (page, raw) = (page as usize, (page + spare) as usize);
        Self { bytes, page, raw, uncorrectable: Vec::new() }
    }

    /// Returns a copy of one page.
    pub(crate) fn only(&self, index: u32) -> Self {
        let at = index as usize;
        Self {
            bytes: self.bytes[at * self.raw..][..self.raw].to_vec(),
            uncorrectable: self.uncorrectable.get(at).copied().into_iter().collect(),
            ..*self
        }
    }

    /// Replaces one page by a page that was read before.
    fn put(&mut self, index: u32, other: &Self) {
        let at = index as usize;
        self.bytes[at * self.raw..][..self.raw].copy_from_slice(&other.bytes);
        if let (Some(ours), Some(theirs)) =
            (self.uncorrectable.get_mut(at), other.uncorrectable.first())
        {
            *ours = *theirs;
        }
    }

    pub(crate) fn get(&self, index: u32) -> RawPage<'_> {
        let index = index as usize;
        let (data, spare) = self.bytes[index * self.raw..][..self.raw].split_at(self.page);
        let is_uncorrectable = self.uncorrectable.get(index).copied().unwrap_or(false);
        RawPage { data, spare, is_uncorrectable }
    }
}

/// A source with its layout: pages by number.
#[derive(Clone, Debug)]
pub(crate) struct Flash {
    pub(crate) source: Source,
    pub(crate) layout: Layout,
    pub(crate) blocks: u32,
    /// The page that was written last, and its number: after a power cut it may be readable for the
    /// last time.
    pub(crate) held: Option<(u32, Pages)>,
}

impl Flash {
    /// Reads all pages of a block.
    pub(crate) fn block(&self, block: u32) -> Result<Pages, ReadError> {
        let count = self.layout.pages_per_block;
        self.pages(block * count, count)
    }

    /// Reads one page.
    pub(crate) fn page(&self, page: u32) -> Result<Pages, ReadError> {
        match &self.held {
            Some((number, held)) if *number == page => Ok(held.clone()),
            _ => self.pages(page, 1),
        }
    }

    /// Reads consecutive pages.
    pub(crate) fn pages(&self, first: u32, count: u32) -> Result<Pages, ReadError> {
        let mut pages = self.source.pages(self.layout.page, self.layout.spare, first, count)?;
        if let Some((number, held)) = &self.held
            && (first..first + count).contains(number)
        {
            pages.put(number - first, held);
        }
        Ok(pages)
    }

    /// Returns whether the first two pages of a block carry a bad-block marker, of which one wrong
    /// bit is tolerated (spec: yaffs2 6, 11).
    pub(crate) fn is_bad(&self, block: u32, pages: &Pages) -> Result<bool, ReadError> {
        if let Source::Device(device) = &self.source {
            return device.is_bad(Peb::new(block)).map_err(ReadError::Device);
        }
        let Some(byte) = self.layout.marker() else { return Ok(false) };
        let last = self.layout.pages_per_block - 1;
        let marker = pages.get(0).spare[byte] & pages.get(last.min(1)).spare[byte];
        Ok(is_programmed(marker))
    }

    /// Returns where a page is.
    pub(crate) fn location(&self, page: u32) -> Location {
        let Layout { pages_per_block, page: bytes, .. } = self.layout;
        Location::Peb(Peb::new(page / pages_per_block), page % pages_per_block * bytes)
    }
}
