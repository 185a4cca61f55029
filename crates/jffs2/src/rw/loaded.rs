//! The loaded inodes, limited by the memory they use.
//!
//! Layer: data, above `inode`.
//!
//! # Invariants
//! 1. `memory` is at least approximately the memory of the loaded inodes: a write adds to it as if
//!    nothing were replaced, until all are measured again.
//! 2. Between two operations they use at most [`MOST`], or are few: inodes in use stay, even a
//!    directory with more names than that.
//! 3. Which ones are dropped depends only on the order in which they were used.

use super::inode::Loaded;
use std::collections::BTreeMap;

/// Maximum memory for loaded inodes, in addition to those in use.
const MOST: usize = 4 << 20;
/// The number of inodes used last that are never dropped: an operation works on several.
const AT_WORK: usize = 8;
/// Maximum number of bytes that a written node adds to its inode, without its name: two fragments.
const PER_NODE: usize = 100;

#[derive(Debug)]
struct Kept {
    inode: Loaded,
    /// When it was last used.
    wanted: u64,
    /// Bytes of memory, at least about.
    memory: usize,
}

/// The inodes that are loaded.
#[derive(Debug, Default)]
pub(crate) struct LoadedInodes {
    kept: BTreeMap<u32, Box<Kept>>,
    /// Number of uses so far.
    clock: u64,
    memory: usize,
}

impl LoadedInodes {
    pub(crate) fn get(&self, ino: u32) -> Option<&Loaded> {
        self.kept.get(&ino).map(|kept| &kept.inode)
    }

    pub(crate) fn get_mut(&mut self, ino: u32) -> Option<&mut Loaded> {
        self.kept.get_mut(&ino).map(|kept| &mut kept.inode)
    }

    pub(crate) fn has(&self, ino: u32) -> bool {
        self.kept.contains_key(&ino)
    }

    /// Returns whether the inode is loaded, and records its use.
    pub(crate) fn want(&mut self, ino: u32) -> bool {
        let Some(kept) = self.kept.get_mut(&ino) else { return false };
        self.clock += 1;
        kept.wanted = self.clock;
        true
    }

    pub(crate) fn insert(&mut self, ino: u32, inode: Loaded) {
        self.remove(ino);
        self.clock += 1;
        let memory = inode.memory();
        self.memory += memory;
        self.kept.insert(ino, Box::new(Kept { inode, wanted: self.clock, memory }));
    }

    pub(crate) fn remove(&mut self, ino: u32) {
        if let Some(kept) = self.kept.remove(&ino) {
            self.memory -= kept.memory;
        }
    }

    /// Records that a node of the inode with a name of `name` bytes was written.
    pub(crate) fn grow(&mut self, ino: u32, name: usize) {
        if let Some(kept) = self.kept.get_mut(&ino) {
            kept.memory += PER_NODE + name;
            self.memory += PER_NODE + name;
        }
    }

    /// Returns whether there is no space for inodes that are loaded in passing.
    pub(crate) fn is_full(&self) -> bool {
        self.memory > MOST
    }

    /// Drops the inodes that were not used for longest, if all of them use too much memory; called
    /// when none is in use.
    pub(crate) fn trim(&mut self) {
        if !self.is_full() {
            return;
        }
        self.weigh();
        if !self.is_full() {
            return;
        }
        let mut order: Vec<(u64, u32)> =
            self.kept.iter().map(|(ino, kept)| (kept.wanted, *ino)).collect();
        order.sort_unstable();
        order.truncate(order.len().saturating_sub(AT_WORK));
        for (_, ino) in order {
            if self.memory <= MOST / 2 {
                break;
            }
            self.remove(ino);
        }
    }

    fn weigh(&mut self) {
        self.memory = 0;
        for kept in self.kept.values_mut() {
            kept.memory = kept.inode.memory();
            self.memory += kept.memory;
        }
    }

    /// Returns the number of bytes of memory, at least about.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Loaded)> {
        self.kept.iter().map(|(ino, kept)| (*ino, &kept.inode))
    }
}

#[cfg(test)]
mod tests {
    use super::super::dents::Dent;
    use super::*;

    fn directory(names: u32) -> Loaded {
        let mut inode = Loaded::default();
        for number in 0..names {
            let dent = Dent { place: number * 4, ino: 2, file_type: 8 };
            inode.dents.insert(&number.to_le_bytes(), dent);
        }
        inode
    }

    #[test]
    fn what_has_not_been_wanted_for_long_goes_first_and_within_the_bound() {
        let mut loaded = LoadedInodes::default();
        for ino in 1..=4000 {
            loaded.insert(ino, directory(100));
            assert!(loaded.want(1));
            loaded.trim();
            assert!(loaded.memory <= MOST && loaded.has(1) && loaded.has(ino), "{ino}");
        }
        assert!(!loaded.has(2) && loaded.kept.len() > 100);
        let memory: usize = loaded.iter().map(|(_, inode)| inode.memory()).sum();
        assert_eq!(memory, loaded.memory);
    }

    #[test]
    fn one_above_the_bound_stays_as_long_as_it_is_at_work() {
        let mut loaded = LoadedInodes::default();
        loaded.insert(1, directory(200_000));
        for ino in 2..100 {
            loaded.insert(ino, directory(1));
            assert!(loaded.want(1));
            loaded.trim();
            assert!(loaded.is_full() && loaded.kept.len() <= AT_WORK, "{}", loaded.kept.len());
        }
        for ino in 100..200 {
            loaded.insert(ino, directory(1));
            loaded.trim();
        }
        assert!(!loaded.has(1) && !loaded.is_full());
    }

    #[test]
    fn what_is_within_the_bound_when_weighed_anew_stays() {
        let mut loaded = LoadedInodes::default();
        let mut count = 0;
        while loaded.memory < MOST / 4 * 3 {
            count += 1;
            loaded.insert(count, directory(100));
        }
        while !loaded.is_full() {
            loaded.grow(1, 0);
        }
        loaded.trim();
        assert_eq!(loaded.kept.len() as u32, count);
    }

    #[test]
    fn what_was_only_replaced_is_weighed_anew_and_stays() {
        let mut loaded = LoadedInodes::default();
        loaded.insert(1, directory(1));
        loaded.insert(2, directory(1));
        while !loaded.is_full() {
            loaded.grow(1, 0);
        }
        loaded.trim();
        assert!(loaded.has(1) && loaded.has(2) && loaded.memory < MOST / 100);
    }
}
