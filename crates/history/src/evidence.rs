//! What the states of commits say about nodes that other versions consist of: until when a node was live,
//! and since when it was not.
//!
//! A commit refers to everything that was live when it began, and writes its index after that. The nodes of
//! its own, in the log, are lost soon.

use crate::nodes::Nodes;
use crate::tree::{FileState, Tree};
use eraseblock_ubifs_format::Key;
use std::collections::HashMap;

/// Nodes that a commit writes before its index: its start, and a reference for each head of the journal.
const STARTS: u64 = 4;

/// When a node was live. Times are sequence numbers.
#[derive(Clone, Copy, Debug)]
struct Life {
    /// Nothing had replaced it when this was written.
    live_until: u64,
    /// Something had replaced it when this was written.
    dead_since: u64,
}

impl Default for Life {
    fn default() -> Self {
        Self { live_until: 0, dead_since: u64::MAX }
    }
}

/// What is known of the blocks of files.
#[derive(Debug, Default)]
pub(crate) struct Evidence(HashMap<(Key, u64), Life>);

impl Evidence {
    /// Takes the state that a mount sees.
    pub(crate) fn see_now(&mut self, now: &Tree) {
        for leaf in now.live.values() {
            self.0.entry((leaf.key, leaf.sqnum)).or_default().live_until = u64::MAX;
        }
    }

    /// Takes the state of a commit.
    pub(crate) fn see_commit(&mut self, tree: &Tree, nodes: &Nodes) {
        let newest = tree.newest();
        let index = tree.index.iter().copied().filter(|number| *number > newest).min();
        // A leaf that is lost from between would be in the state, and be gone from it.
        let start = index.filter(|index| index - newest <= STARTS + 1).map_or(newest, |it| it - 1);
        for (ino, state) in &tree.files {
            let FileState { inode, gone, is_cut, .. } = state;
            let until = if gone.is_empty() { start } else { newest };
            if *is_cut || inode.is_none() {
                continue;
            }
            for place in nodes.blocks.get(ino).into_iter().flatten() {
                let block = nodes.leaves[place];
                if block.sqnum > newest {
                    break;
                }
                let life = self.0.entry((block.key, block.sqnum)).or_default();
                let live = tree.live.get(&block.key);
                if live.is_some_and(|live| live.sqnum == block.sqnum) {
                    life.live_until = life.live_until.max(until);
                } else {
                    life.dead_since = life.dead_since.min(newest);
                }
            }
        }
    }

    /// Returns until when a block is known to have been live.
    pub(crate) fn live_until(&self, key: Key, sqnum: u64) -> u64 {
        self.0.get(&(key, sqnum)).map_or(sqnum, |life| life.live_until.max(sqnum))
    }

    /// Returns whether a block is known to have been replaced before `end`.
    pub(crate) fn is_dead(&self, key: Key, sqnum: u64, end: u64) -> bool {
        self.0.get(&(key, sqnum)).is_some_and(|life| life.dead_since < end)
    }
}
