//! Garbage collection, one node in each pass (spec: jffs2 17).
//!
//! Layer: above `collect`. Chooses what to move; never makes space by itself, because it is what
//! makes space.
//!
//! # Invariants
//! 1. A block is erased only after the replacements of all its nodes are on flash.
//! 2. `position` is 0, or counts nodes of the block on the list of victims.

use super::blocks::{Blocks, List};
use super::store::Store;
use super::write::Writer;
use eraseblock_vfs::FsError;

/// Garbage collection in progress.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    /// Number of nodes of the victim that have been examined.
    position: usize,
}

impl Collection {
    /// Performs one pass: checks an inode, erases a block, or moves a node. Returns `false` if
    /// there is nothing to do.
    pub(crate) fn pass(&mut self, writer: &mut Writer) -> Result<bool, FsError> {
        // Inodes first: the nodes of an unchecked one may be dead, and would be moved in vain.
        if writer.log.tree.check_one()? {
            return Ok(true);
        }
        if writer.log.erase_one()? {
            return Ok(true);
        }
        let Some(victim) = self.victim(writer)? else { return Ok(false) };
        let refs = &writer.log.tree.store.blocks.get(victim).refs;
        let left = refs.get(self.position..).unwrap_or_default();
        let dead = left.iter().take_while(|node| !node.is_live()).count();
        self.position += dead;
        let Some(node) = refs.get(self.position).copied() else {
            self.bury(&mut writer.log.tree.store, victim);
            return Ok(true);
        };
        writer.collect_node(node)?;
        let store = &mut writer.log.tree.store;
        let entry = store.blocks.get(victim);
        if entry.live() == 0 && entry.list == List::Victim {
            self.bury(store, victim);
        }
        Ok(true)
    }

    /// Ends the collection of a block: nothing in it is live.
    fn bury(&mut self, store: &mut Store, victim: u32) {
        self.position = 0;
        store.bury(victim);
    }

    /// Returns the block being collected, or chooses one (spec: jffs2 17, step 3).
    fn victim(&mut self, writer: &mut Writer) -> Result<Option<u32>, FsError> {
        let room = writer.log.room_left();
        let store = &mut writer.log.tree.store;
        if let Some(victim) = store.blocks.first(List::Victim) {
            return Ok(Some(victim));
        }
        if store.reserves.is_tight(&store.blocks) && store.blocks.totals().unchecked == 0 {
            return Ok(emptiest(&store.blocks, room).map(|block| self.choose(store, block)));
        }
        let draw = store.rng.below(128);
        if let Some(victim) = drawn(&store.blocks, draw) {
            return Ok(Some(self.choose(store, victim)));
        }
        if store.blocks.first(List::PendingWbuf).is_some() {
            // Their nodes have replacements in the buffer: only on flash do they free the blocks.
            writer.log.flush()?;
            return self.victim(writer);
        }
        Ok(None)
    }

    /// Starts the collection of a block.
    fn choose(&mut self, store: &mut Store, victim: u32) -> u32 {
        store.blocks.file(victim, List::Victim);
        store.blocks.resize(victim, |sizes| sizes.dirty += std::mem::take(&mut sizes.wasted));
        self.position = 0;
        victim
    }
}

/// Returns the block to collect for a number below 128, which decides how often mostly live blocks
/// are chosen: without that, they would never be erased, and others would wear out.
fn drawn(blocks: &Blocks, draw: u64) -> Option<u32> {
    let first = |list| blocks.first(list);
    let likely = |list, is_drawn: bool| if is_drawn { first(list) } else { None };
    // A block in which a program failed is emptied as soon as there is space for its nodes.
    likely(List::BadUsed, blocks.len(List::Free) > 0)
        .or_else(|| likely(List::Erasable, draw < 50))
        .or_else(|| likely(List::VeryDirty, draw < 110))
        .or_else(|| likely(List::Dirty, draw < 126))
        .or_else(|| likely(List::Clean, draw >= 126))
        .or_else(|| first(List::Dirty))
        .or_else(|| first(List::VeryDirty))
        .or_else(|| first(List::Erasable))
        .or_else(|| first(List::Clean))
}

/// Returns the block with the fewest bytes to move, if they fit in `room` and at least a quarter of
/// the block is gained. The last free blocks are not spent on a smaller gain.
fn emptiest(blocks: &Blocks, room: u32) -> Option<u32> {
    use List::{BadUsed, Clean, Dirty, Erasable, VeryDirty};
    let lists = [BadUsed, Clean, Dirty, Erasable, VeryDirty];
    let candidates = blocks.iter().filter(|(_, entry)| lists.contains(&entry.list));
    let least = candidates.map(|(block, entry)| (entry.moved(), block)).min();
    let most = room.min(blocks.size() / 4 * 3);
    least.filter(|(moved, _)| *moved <= most).map(|(_, block)| block)
}
