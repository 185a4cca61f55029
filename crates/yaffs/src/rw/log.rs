//! Pages are appended to erased blocks, one block at a time (spec: yaffs2 9). The last pages of a
//! block hold its summary (spec: yaffs2 8): it follows the last chunk at once.
//!
//! Layer: above the device, below everything that knows objects.

use crate::layout::Layout;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::{Mtd, MtdError};
use eraseblock_yaffs_format::constants::{SEQUENCES, object};
use eraseblock_yaffs_format::{PackedTags, summary};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks that are tried after failures of one program operation.
const TRIES: u32 = 16;

/// What a block is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Erased by this mount.
    Erased,
    /// Looks erased, but an erase may have been cut short.
    Empty,
    /// Pages of objects; it is appended to only if it is the current block.
    Full,
    /// A part of a checkpoint.
    Checkpoint,
    /// Bad, or with tags of something else.
    Unusable,
}

/// A block.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they do not depend on each other")]
pub(crate) struct Block {
    pub(crate) state: Use,
    pub(crate) sequence: u32,
    /// Pages that are needed.
    pub(crate) live: u32,
    /// Whether a header in it voids older data: see [`Log::victim`].
    pub(crate) has_shrink: bool,
    /// Whether its last pages describe the others.
    pub(crate) has_summary: bool,
    /// A page that is needed cannot be read: moving it would make its damage look like data.
    pub(crate) is_pinned: bool,
    /// A program operation failed: it is marked bad instead of erased.
    pub(crate) is_failing: bool,
}

impl Block {
    pub(crate) fn new(state: Use) -> Self {
        let (has_shrink, has_summary) = (false, false);
        let (is_pinned, is_failing) = (false, false);
        Self { state, sequence: 0, live: 0, has_shrink, has_summary, is_pinned, is_failing }
    }
}

/// The blocks and the pages that are needed.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) device: Arc<dyn Mtd>,
    pub(crate) layout: Layout,
    pub(crate) blocks: Vec<Block>,
    /// Object and chunk number of each page that is needed.
    pub(crate) pages: BTreeMap<u32, (u32, u32)>,
    /// The block that is appended to, and its next page.
    pub(crate) current: Option<(u32, u32)>,
    /// The tags of the pages before it in that block, for its summary.
    pub(crate) tags: Vec<PackedTags>,
    /// Whether full blocks get a summary.
    pub(crate) summaries: bool,
    /// The highest sequence number.
    pub(crate) sequence: u32,
    /// The block that was opened last: the next one is searched after it.
    pub(crate) last: u32,
}

impl Log {
    fn per_block(&self) -> u32 {
        self.layout.pages_per_block
    }

    fn shape(&self) -> summary::Shape {
        summary::Shape { chunks: self.per_block(), data: self.layout.data() }
    }

    /// Returns the number of pages of a block for chunks; the others are for its summary.
    pub(crate) fn capacity(&self) -> u32 {
        match self.shape().described() {
            described if self.summaries && described > 0 => described,
            _ => self.per_block(),
        }
    }

    /// Returns the number of blocks that a checkpoint or chunks could be written to.
    pub(crate) fn free_blocks(&self) -> u32 {
        let is_free = |block: &&Block| matches!(block.state, Use::Erased | Use::Empty);
        self.blocks.iter().filter(is_free).count() as u32
    }

    /// Returns the number of pages that can be appended without an erase of needed blocks.
    pub(crate) fn free_pages(&self) -> u32 {
        let rest = self.current.map_or(0, |(_, next)| self.capacity().saturating_sub(next));
        self.free_blocks() * self.capacity() + rest
    }

    /// Returns the number of pages of all blocks that can be used, and of those that cannot become
    /// free.
    pub(crate) fn usage(&self) -> (u32, u32) {
        let usable = self.blocks.iter().filter(|block| block.state != Use::Unusable);
        let capacity = self.capacity();
        usable.fold((0, 0), |(all, taken), block| {
            // Without a summary, a block has room for more.
            let room = capacity.max(block.live);
            let kept = if block.is_pinned { room } else { block.live };
            (all + room, taken + kept)
        })
    }

    /// Appends a page and returns its number. The tags get the sequence number of the block.
    pub(crate) fn append(&mut self, tags: PackedTags, data: &[u8]) -> Result<u32, MtdError> {
        for _ in 0..TRIES {
            let (block, index) = match self.current {
                Some(at) if at.1 < self.capacity() => at,
                _ => (self.next_block()?, 0),
            };
            self.current = Some((block, index + 1));
            let page = block * self.per_block() + index;
            let tags = PackedTags { sequence: self.blocks[block as usize].sequence, ..tags };
            // The rest of a block that failed is not trusted either; what is in it moves when it is
            // collected.
            if !self.program(page, tags, data)? {
                self.current = None;
                continue;
            }
            self.tags.push(tags);
            if self.summaries && index + 1 == self.capacity() {
                self.summarise(block)?;
            }
            return Ok(page);
        }
        Err(MtdError::NoSpace { at: Location::Whole, operation: "program" })
    }

    /// Writes a page. Returns whether it succeeded; a block that fails is marked bad instead of
    /// erased.
    pub(crate) fn program(
        &mut self,
        page: u32,
        tags: PackedTags,
        data: &[u8],
    ) -> Result<bool, MtdError> {
        let raw = self.layout.raw_page(tags, data);
        let (data, oob) = raw.split_at(self.layout.page as usize);
        let addr = u64::from(page) * u64::from(self.layout.page);
        match self.device.program_with_oob(addr, data, oob) {
            Ok(()) => Ok(true),
            Err(MtdError::Failed { .. }) => {
                let block = page / self.per_block();
                self.blocks[block as usize].is_failing = true;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the summary of a block that is full. Nothing depends on it: without it, a scan reads the
    /// tags of each page.
    fn summarise(&mut self, block: u32) -> Result<(), MtdError> {
        let (shape, sequence) = (self.shape(), self.blocks[block as usize].sequence);
        let order = self.layout.order;
        // Blocks are counted from 1.
        let parts = summary::encode(order, shape, block + 1, sequence, &self.tags);
        let first = block * self.per_block() + self.capacity();
        let mut is_whole = true;
        for (index, part) in (0..).zip(parts) {
            let (object, bytes) = (object::SUMMARY, part.len() as u32);
            let tags = PackedTags { sequence, object, chunk: index + 1, bytes };
            is_whole = is_whole && self.program(first + index, tags, &part)?;
        }
        self.blocks[block as usize].has_summary = is_whole;
        self.current = None;
        Ok(())
    }

    /// Opens an erased block for appending.
    fn next_block(&mut self) -> Result<u32, MtdError> {
        let count = self.blocks.len() as u32;
        let full = MtdError::NoSpace { at: Location::Whole, operation: "a new block" };
        if self.sequence >= *SEQUENCES.end() {
            return Err(full);
        }
        for step in 1..=count {
            let block = (self.last + step) % count;
            let state = self.blocks[block as usize].state;
            let is_ready = match state {
                Use::Erased => true,
                // Only its first page may be blank (spec: yaffs2 6).
                Use::Empty => self.erase(block)?,
                Use::Full | Use::Checkpoint | Use::Unusable => false,
            };
            if is_ready {
                self.sequence += 1;
                let sequence = self.sequence;
                self.blocks[block as usize] = Block { sequence, ..Block::new(Use::Full) };
                self.last = block;
                self.tags.clear();
                return Ok(block);
            }
        }
        Err(full)
    }

    /// Erases a block; one that fails is marked bad. Returns whether it can be used.
    pub(crate) fn erase(&mut self, block: u32) -> Result<bool, MtdError> {
        let erased = if self.blocks[block as usize].is_failing {
            Err(MtdError::Failed { at: Location::peb(Peb::new(block)), operation: "program" })
        } else {
            self.device.erase(Peb::new(block))
        };
        let is_usable = match erased {
            Ok(()) => true,
            Err(MtdError::Failed { .. }) => {
                self.device.mark_bad(Peb::new(block))?;
                false
            }
            Err(error) => return Err(error),
        };
        let state = if is_usable { Use::Erased } else { Use::Unusable };
        self.blocks[block as usize] = Block::new(state);
        Ok(is_usable)
    }

    /// Records that a page is needed.
    pub(crate) fn take(&mut self, page: u32, owner: (u32, u32)) {
        let block = page / self.per_block();
        if self.pages.insert(page, owner).is_none() {
            self.blocks[block as usize].live += 1;
        }
    }

    /// Records that a page is not needed any more.
    pub(crate) fn free(&mut self, page: u32) {
        let block = page / self.per_block();
        if self.pages.remove(&page).is_some() {
            self.blocks[block as usize].live -= 1;
        }
    }

    /// Returns the block to collect: the one with the fewest pages that are needed.
    ///
    /// A header with a size, or a deletion, voids older chunks only while it is on flash. So a block
    /// with one is not collected as long as an older block has chunks that are not needed (spec:
    /// yaffs2 9).
    pub(crate) fn victim(&self) -> Option<u32> {
        let current = self.current.map(|(block, _)| block);
        let age = |number: u32| (self.blocks[number as usize].sequence, number);
        let is_dirty = |number: &u32| {
            let block = &self.blocks[*number as usize];
            block.state == Use::Full && Some(*number) != current && block.live < self.capacity()
        };
        let dirty: Vec<u32> = (0..self.blocks.len() as u32).filter(is_dirty).collect();
        let oldest = dirty.iter().copied().map(age).min()?;
        let may_go = |number: &&u32| {
            let block = &self.blocks[**number as usize];
            !block.is_pinned && (!block.has_shrink || age(**number) == oldest)
        };
        let live = |number: &&u32| (self.blocks[**number as usize].live, age(**number));
        dirty.iter().filter(may_go).min_by_key(live).copied()
    }
}
