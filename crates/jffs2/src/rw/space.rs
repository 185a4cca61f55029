//! How much space is kept for what, and what must happen before more is used (spec: jffs2 13).
//!
//! Layer: data. Decides from the accounts of the blocks; the driver (`state`) acts.
//!
//! # Invariants
//! 1. Collection always finds space: other writers stop while it has erased blocks left. On a
//!    medium with a write buffer, one of them replaces the open block after a power cut, which
//!    makes the rest of that block useless.

use super::blocks::{Blocks, List};
use super::flash::Flash;

/// The purpose of a write outside of garbage collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Any write.
    Write,
    /// A deletion, which will free space.
    Deletion,
}

/// What must happen before a node may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Write the buffer to flash: blocks wait for it before they may be erased.
    Flush,
    /// Erase a block without live nodes.
    Erase,
    /// Move live nodes out of a block.
    Collect,
}

/// Thresholds of space, in blocks but for `dirty`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserves {
    pub(crate) deletion: u32,
    pub(crate) write: u32,
    pub(crate) trigger: u32,
    pub(crate) merge: u32,
    pub(crate) dirty: u64,
}

impl Reserves {
    /// Reserves one block more than Linux on media where a power cut makes the rest of the open
    /// block useless: the live nodes of its last page need another block.
    pub(crate) fn new(flash: &Flash) -> Self {
        let (block, count) = (u64::from(flash.block), u64::from(flash.count));
        let size = block * count;
        let overhead = (size / 50 + 100 * count).div_ceil(block) as u32;
        let deletion = 2 + u32::from(flash.has_buffer());
        let write = deletion + overhead;
        Self { deletion, write, trigger: write + 1, merge: 3, dirty: block + size / 100 }
    }

    /// Returns what must happen before a node is written outside of garbage collection; `None` if
    /// enough blocks are free. Only erased blocks count: nodes in blocks that wait for their erase
    /// may be live again after a power cut.
    pub(crate) fn need(&self, blocks: &Blocks) -> Option<Need> {
        if blocks.len(List::Free) >= self.write {
            None
        } else if blocks.len(List::PendingWbuf) > 0 {
            Some(Need::Flush)
        } else if blocks.len(List::ErasePending) > 0 {
            Some(Need::Erase)
        } else {
            Some(Need::Collect)
        }
    }

    /// Returns whether enough blocks are left although one of them cannot be erased now.
    pub(crate) fn has_enough(&self, blocks: &Blocks) -> bool {
        blocks.len(List::Free) + blocks.len(List::ErasePending) >= self.write
    }

    /// Returns whether so few blocks are left that only deletions are allowed.
    pub(crate) fn is_tight(&self, blocks: &Blocks) -> bool {
        blocks.len(List::Free) < self.deletion
    }

    /// Returns whether too few bytes are dead to gain space, with no block waiting for its erase.
    /// When few blocks are left, a deletion may collect for a single block; collection decides
    /// whether there is one.
    pub(crate) fn is_hopeless(&self, blocks: &Blocks, purpose: Purpose) -> bool {
        let totals = blocks.totals();
        if purpose == Purpose::Deletion && self.is_tight(blocks) && totals.unchecked == 0 {
            return false;
        }
        let reclaimable = totals.dirty + totals.unchecked;
        let gained = (reclaimable + totals.free) / u64::from(blocks.size());
        reclaimable < self.dirty || gained <= u64::from(self.write)
    }

    /// Returns whether garbage should be collected although no writer waits for space.
    pub(crate) fn wants_collection(&self, blocks: &Blocks) -> bool {
        let totals = blocks.totals();
        let pending = blocks.len(List::ErasePending);
        let waiting = u64::from(pending) * u64::from(blocks.size());
        let reclaimable = totals.dirty.saturating_sub(waiting);
        let free = blocks.len(List::Free) + pending;
        pending > 0
            || totals.unchecked > 0
            || (free < self.trigger && reclaimable > self.dirty)
            || blocks.len(List::VeryDirty) >= self.trigger
    }

    /// Returns the number of bytes that files may still take.
    pub(crate) fn available(&self, blocks: &Blocks) -> u64 {
        let totals = blocks.totals();
        let kept = u64::from(self.write) * u64::from(blocks.size());
        // Dead bytes of the open block count as wasted until the block is closed.
        let open = blocks.next().map_or(0, |block| blocks.get(block).sizes.wasted);
        (totals.dirty + totals.free + u64::from(open)).saturating_sub(kept)
    }
}

/// Returns a limit for the passes of garbage collection: every node can be moved a few times; more
/// passes would make no progress.
pub(crate) fn most_passes(blocks: &Blocks) -> u64 {
    let nodes: usize = blocks.iter().map(|(_, entry)| entry.refs.len()).sum();
    4 * (nodes as u64 + u64::from(blocks.count())) + 64
}
