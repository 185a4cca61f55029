//! The blocks of a chip as a persistent (structure-sharing) vector.
//!
//! # Invariants
//! 1. Cloning a [`Store`] copies one pointer; a later change of a slot copies the list of chunks,
//!    one chunk of slots and, if its cells change, one block.
//! 2. A block without programmed pages has no [`Block`]; pages after the last programmed one are
//!    not stored. Everything that is not stored reads as 0xFF.

use crate::overlay::BlockFaults;
use eraseblock_base::Peb;
use std::sync::Arc;

const CHUNK: usize = 32;

/// The metadata of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageMeta {
    /// Programs with data since the last erase.
    pub(crate) programs: u8,
    /// Programs of only out-of-band bytes since the last erase.
    pub(crate) oob_programs: u8,
    /// One bit per sub-page that has been programmed.
    pub(crate) mask: u64,
    /// The time of the last program; only stored if bits leak.
    pub(crate) born: u64,
}

impl PageMeta {
    pub(crate) fn is_touched(self) -> bool {
        self.programs > 0 || self.oob_programs > 0
    }
}

/// The programmed part of an eraseblock.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Block {
    pub(crate) pages: Vec<PageMeta>,
    /// All pages, each with its out-of-band bytes; empty if the cells are in a file.
    pub(crate) cells: Vec<u8>,
}

/// The state of one eraseblock.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) erases: u32,
    /// Page reads since the last erase; only counted if reads disturb.
    pub(crate) reads: u32,
    pub(crate) bad: bool,
    /// Whether the bad-block mark is torn: `bad` is then drawn again at every power-on.
    pub(crate) torn_mark: bool,
    /// Whether an erase was interrupted and not repeated.
    pub(crate) interrupted: bool,
    pub(crate) block: Option<Arc<Block>>,
    pub(crate) faults: Option<Arc<BlockFaults>>,
}

impl Slot {
    pub(crate) fn page(&self, page: u32) -> PageMeta {
        let meta = self.block.as_ref().and_then(|block| block.pages.get(page as usize));
        meta.copied().unwrap_or_default()
    }

    /// Returns the number of pages stored: one more than the highest programmed one.
    pub(crate) fn page_count(&self) -> u32 {
        let pages = self.block.as_ref().map_or(0, |block| block.pages.len());
        u32::try_from(pages).unwrap_or(u32::MAX)
    }

    pub(crate) fn faults_mut(&mut self) -> &mut BlockFaults {
        Arc::make_mut(self.faults.get_or_insert_default())
    }

    /// Returns the block for modification, grown to hold `page`; `stride` is 0 if the cells are in
    /// a file.
    pub(crate) fn block_mut(&mut self, page: u32, stride: usize) -> &mut Block {
        let arc = self.block.get_or_insert_default();
        let pages = (page as usize + 1).max(arc.pages.len());
        if Arc::get_mut(arc).is_none() {
            // Allocate space for the page while copying, to avoid a second copy.
            let mut copy = Block {
                pages: Vec::with_capacity(pages),
                cells: Vec::with_capacity(pages * stride),
            };
            copy.pages.extend_from_slice(&arc.pages);
            copy.cells.extend_from_slice(&arc.cells);
            *arc = Arc::new(copy);
        }
        let block = Arc::make_mut(arc);
        block.pages.resize(pages, PageMeta::default());
        block.cells.resize(pages * stride, 0xFF);
        block
    }

    /// Removes all faults of a page.
    pub(crate) fn forget_page_fault(&mut self, page: u32) {
        if let Some(faults) = &mut self.faults {
            let faults = Arc::make_mut(faults);
            faults.pages.remove(&page);
            if *faults == BlockFaults::default() {
                self.faults = None;
            }
        }
    }
}

/// All eraseblocks of a chip.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    chunks: Arc<Vec<Arc<Vec<Slot>>>>,
}

impl Store {
    pub(crate) fn new(count: u32) -> Self {
        let full = Arc::new(vec![Slot::default(); CHUNK]);
        let mut chunks = vec![full; count as usize / CHUNK];
        let rest = count as usize % CHUNK;
        if rest > 0 {
            chunks.push(Arc::new(vec![Slot::default(); rest]));
        }
        Self { chunks: Arc::new(chunks) }
    }

    /// Returns a slot. The caller must have checked the number against the geometry.
    pub(crate) fn get(&self, peb: Peb) -> &Slot {
        &self.chunks[peb.index() / CHUNK][peb.index() % CHUNK]
    }

    /// Returns a slot for modification. The caller must have checked the number against the
    /// geometry.
    pub(crate) fn get_mut(&mut self, peb: Peb) -> &mut Slot {
        let chunk = &mut Arc::make_mut(&mut self.chunks)[peb.index() / CHUNK];
        &mut Arc::make_mut(chunk)[peb.index() % CHUNK]
    }

    /// Returns whether both share the chunk of a block, so that the block is the same.
    pub(crate) fn same_chunk(&self, other: &Self, peb: Peb) -> bool {
        let index = peb.index() / CHUNK;
        Arc::ptr_eq(&self.chunks[index], &other.chunks[index])
    }
}
