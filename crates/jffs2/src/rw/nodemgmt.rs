//! Space: the place of the next node, reserves, and dead nodes (spec: jffs2 13, 15).
//!
//! # Invariants
//! 1. Collection always finds space: other writers stop while it has erased blocks left. On a
//!    medium with a write buffer, one of them replaces the open block after a power cut, which
//!    makes the rest of that block useless.
//! 2. A block is erased only after everything that replaces its nodes is on flash.

use super::nodelist::{List, NodeRef, RefKind};
use super::state::{State, no_space};
use eraseblock_jffs2_format::constants::{DIRTY_LIMIT, pad};
use eraseblock_vfs::{FsError, FsErrorKind};

/// The purpose of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alloc {
    /// Any write.
    Normal,
    /// A deletion, which will free space.
    Deletion,
    /// Garbage collection and recovery.
    Collection,
    /// A further node of a writer that reserved space for several.
    Reserved,
}

/// One in this many blocks without live nodes is parked, not erased.
const PARKED: u64 = 128;

impl State {
    /// Reserves space for a node of at least `min` bytes whose record in a summary takes `record`
    /// bytes. Returns the maximum length of the node.
    pub(crate) fn reserve(&mut self, min: u32, alloc: Alloc, record: u32) -> Result<u32, FsError> {
        if matches!(alloc, Alloc::Normal | Alloc::Deletion) {
            self.make_space(alloc)?;
        }
        let min = pad(min).unwrap_or(u32::MAX);
        let most = self.flash.block - self.flash.cleanmarker();
        for _ in 0..=self.blocks.count() {
            if let Some(block) = self.blocks.next() {
                let free = self.blocks.get(block).sizes.free;
                // A node as large as a block, which another system may have written, gets an empty
                // one.
                let kept = Some(self.kept(record)).filter(|kept| min.saturating_add(*kept) <= most);
                let kept = kept.unwrap_or(0);
                if free >= min.saturating_add(kept) {
                    return Ok(free - kept);
                }
                self.close_block(block)?;
            }
            if self.blocks.next().is_none() {
                self.open_block()?;
            }
        }
        Err(no_space("a node"))
    }

    /// Collects garbage until enough blocks are free (spec: jffs2 13, step 2). Only erased blocks
    /// count: nodes in blocks that wait for their erase may be live again after a power cut.
    fn make_space(&mut self, alloc: Alloc) -> Result<(), FsError> {
        let mut passes = None;
        while self.blocks.len(List::Free) < self.reserves.write {
            match self.erase_dead() {
                Ok(true) => continue,
                Ok(false) => {}
                // The next attempt may succeed; until then there are enough blocks.
                Err(_) if self.has_enough() => return Ok(()),
                Err(error) => return Err(error),
            }
            let left = passes.get_or_insert_with(|| self.most_passes());
            if *left == 0 || self.is_hopeless(alloc) || !self.collects()? {
                return match alloc {
                    Alloc::Deletion => Ok(()),
                    _ => Err(no_space("a node, and too little dead space to collect")),
                };
            }
            *left -= 1;
        }
        Ok(())
    }

    /// Every node can be moved a few times; more passes would make no progress.
    fn most_passes(&self) -> u64 {
        let nodes: usize = self.blocks.iter().map(|(_, entry)| entry.refs.len()).sum();
        4 * (nodes as u64 + u64::from(self.blocks.count())) + 64
    }

    /// Erases a block without live nodes; returns `false` if there is none.
    fn erase_dead(&mut self) -> Result<bool, FsError> {
        if self.blocks.len(List::PendingWbuf) > 0 {
            self.flush()?;
        }
        self.erase_one()
    }

    /// Returns whether writing continues although a block cannot be erased now.
    fn has_enough(&self) -> bool {
        let left = self.blocks.len(List::Free) + self.blocks.len(List::ErasePending);
        self.closed.is_none() && left >= self.reserves.write
    }

    /// Returns whether too few bytes are dead to gain space, with no block waiting for its erase.
    /// When few blocks are left, a deletion may collect for a single block; collection decides
    /// whether there is one.
    fn is_hopeless(&self, alloc: Alloc) -> bool {
        let totals = self.blocks.totals();
        if alloc == Alloc::Deletion && self.is_tight() && totals.unchecked == 0 {
            return false;
        }
        let reclaimable = totals.dirty + totals.unchecked;
        let blocks = (reclaimable + totals.free) / u64::from(self.flash.block);
        reclaimable < self.reserves.dirty || blocks <= u64::from(self.reserves.write)
    }

    /// Returns whether so few blocks are left that only deletions are allowed.
    pub(crate) fn is_tight(&self) -> bool {
        self.blocks.len(List::Free) < self.reserves.deletion
    }

    /// Returns the approximate bytes of nodes that still fit; nodes leave gaps at the ends of
    /// blocks.
    pub(crate) fn room(&self) -> u32 {
        let open = self.blocks.next().map_or(0, |block| self.blocks.get(block).sizes.free);
        let padding = if self.flash.has_buffer() { self.flash.page } else { 0 };
        let fresh = self.blocks.len(List::Free) * (self.flash.block / 8 * 7);
        open.saturating_sub(self.kept(0) + padding) + fresh
    }

    /// Performs one pass of garbage collection; returns `false` if there is nothing to do, or no
    /// space for it.
    fn collects(&mut self) -> Result<bool, FsError> {
        match self.gc_pass() {
            Err(error) if error.kind() == FsErrorKind::NoSpace => Ok(false),
            done => done,
        }
    }

    /// Ends the open block: summary, write buffer, list (spec: jffs2 13, step 3).
    pub(crate) fn close_block(&mut self, block: u32) -> Result<(), FsError> {
        self.write_summary(block)?;
        self.flush()?;
        self.blocks.shrink_block(block);
        let free = self.blocks.get(block).sizes.free;
        if self.flash.has_buffer() && self.blocks.next() == Some(block) && free >= self.flash.page {
            self.pad_page(block)?;
        }
        if self.blocks.next() != Some(block) {
            // A failed program has already closed it.
            return Ok(());
        }
        self.blocks.resize(block, |sizes| {
            let dead = std::mem::take(&mut sizes.free) + std::mem::take(&mut sizes.wasted);
            if sizes.dirty + dead > DIRTY_LIMIT {
                sizes.dirty += dead;
            } else {
                sizes.wasted = dead;
            }
        });
        if self.blocks.get(block).live() == 0 {
            self.bury(block);
        } else {
            self.blocks.file_by_dirt(block);
        }
        Ok(())
    }

    /// Takes a free block; erases one if necessary.
    fn open_block(&mut self) -> Result<(), FsError> {
        loop {
            if let Some(block) = self.blocks.first(List::Free) {
                self.blocks.file(block, List::Next);
                self.summary.start(self.options.summary);
                return Ok(());
            }
            if self.erase_one()? {
                continue;
            }
            let Some(block) = self.blocks.first(List::Erasable) else {
                return Err(no_space("a node: no block is free"));
            };
            self.blocks.file(block, List::ErasePending);
        }
    }

    /// Marks the node at `place` as dead and updates the list of its block (spec: jffs2 15).
    pub(crate) fn obsolete(&mut self, place: u32) {
        if self.blocks.obsolete(place).is_none() {
            return;
        }
        let block = place / self.flash.block;
        let is_dead = self.blocks.get(block).live() == 0;
        match self.blocks.get(block).list {
            List::Clean | List::Dirty | List::VeryDirty | List::BadUsed if is_dead => {
                self.bury(block);
            }
            List::Clean | List::Dirty | List::VeryDirty => self.blocks.file_by_dirt(block),
            _ => {}
        }
    }

    /// Handles a block whose last live node died.
    pub(crate) fn bury(&mut self, block: u32) {
        let list = if !self.wbuf.is_empty() {
            List::PendingWbuf
        } else if self.rng.below(PARKED) == 0 {
            List::Erasable
        } else {
            List::ErasePending
        };
        self.blocks.file_dead(block, list);
    }

    /// Records that a node was copied unchanged to `place`; `name` is that of a DIRENT node, if
    /// known.
    pub(crate) fn relocate(&mut self, old: NodeRef, place: u32, name: Option<&[u8]>) {
        match old.kind() {
            RefKind::Inode | RefKind::Dirent | RefKind::Broken => {
                if let Some(loaded) = self.loaded.get_mut(old.owner) {
                    loaded.relocate(old.place(), place, name);
                }
            }
            RefKind::Xattr | RefKind::Xref => self.xattrs.relocate(old, place),
            RefKind::Copy | RefKind::Filler => {}
        }
        self.obsolete(old.place());
    }
}
