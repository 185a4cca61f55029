//! The slot of each eraseblock, and which of its units are written.
//!
//! # Invariants
//! 1. No slot belongs to two eraseblocks, and a slot that an eraseblock had at the last commit is
//!    not reused before the next one.

use super::layout::{Layout, le32};
use crate::block::BlockError;
use eraseblock_base::Peb;
use std::collections::{BTreeSet, VecDeque};

const NO_SLOT: u32 = u32::MAX;
const BAD: u32 = 1;

/// One eraseblock.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Entry {
    /// Its slot; `None` for an erased block without writes.
    pub(super) slot: Option<u32>,
    pub(super) is_bad: bool,
    /// One bit for each written unit.
    written: Vec<u32>,
}

impl Entry {
    /// Returns whether a unit is written; all others read as 0xFF.
    pub(super) fn is_written(&self, unit: u32) -> bool {
        let word = self.written.get((unit / 32) as usize).copied().unwrap_or(0);
        word & (1 << (unit % 32)) != 0
    }

    pub(super) fn set_written(&mut self, unit: u32) {
        let place = (unit / 32) as usize;
        if self.written.len() <= place {
            self.written.resize(place + 1, 0);
        }
        self.written[place] |= 1 << (unit % 32);
    }

    /// Makes the block erased; a bad block stays bad.
    pub(super) fn clear(&mut self) {
        *self = Self { is_bad: self.is_bad, ..Self::default() };
    }

    fn is_default(&self) -> bool {
        self.slot.is_none() && !self.is_bad
    }

    pub(super) fn encode(&self, peb: Peb, place: &mut [u8]) {
        let flags = if self.is_bad { BAD } else { 0 };
        let fields = [peb.get(), self.slot.unwrap_or(NO_SLOT), flags];
        let words = fields.iter().chain(&self.written);
        for (bytes, word) in place.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    pub(super) fn decode(place: &[u8]) -> (Peb, Self) {
        let mut words = place.chunks_exact(4).map(le32);
        let mut next = || words.next().unwrap_or(0);
        let (peb, slot, flags) = (next(), next(), next());
        let slot = (slot != NO_SLOT).then_some(slot);
        let written = if slot.is_some() { words.collect() } else { Vec::new() };
        (Peb::new(peb), Self { slot, is_bad: flags & BAD != 0, written })
    }
}

/// All eraseblocks and the free slots.
#[derive(Debug)]
pub(super) struct Map {
    entries: Vec<Entry>,
    slot_count: u32,
    free: VecDeque<u32>,
    /// Slots released since the last commit.
    given_up: Vec<u32>,
    dirty: BTreeSet<Peb>,
}

impl Map {
    /// Creates a map of erased blocks; [`Map::settle`] computes the free slots.
    pub(super) fn new(layout: &Layout) -> Self {
        Self {
            entries: vec![Entry::default(); layout.peb_count as usize],
            slot_count: layout.slot_count,
            free: VecDeque::new(),
            given_up: Vec::new(),
            dirty: BTreeSet::new(),
        }
    }

    pub(super) fn get(&self, peb: Peb) -> Option<&Entry> {
        self.entries.get(peb.get() as usize)
    }

    /// Returns an entry for modification.
    pub(super) fn get_mut(&mut self, peb: Peb) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(peb.get() as usize)?;
        self.dirty.insert(peb);
        Some(entry)
    }

    /// Returns all entries that are not simply erased.
    pub(super) fn used(&self) -> impl Iterator<Item = (Peb, &Entry)> {
        let all = (0..).map(Peb::new).zip(&self.entries);
        all.filter(|(_, entry)| !entry.is_default())
    }

    /// Applies entries from the disk.
    pub(super) fn apply(
        &mut self,
        entries: impl Iterator<Item = (Peb, Entry)>,
    ) -> Result<(), BlockError> {
        for (peb, entry) in entries {
            let place = self.entries.get_mut(peb.get() as usize);
            let fits = entry.slot.is_none_or(|slot| slot < self.slot_count);
            match place {
                Some(place) if fits => *place = entry,
                _ => return Err(BlockError::Damaged { what: "an entry of the map" }),
            }
        }
        Ok(())
    }

    /// Computes the free slots.
    pub(super) fn settle(&mut self) -> Result<(), BlockError> {
        let mut used = vec![false; self.slot_count as usize];
        for slot in self.entries.iter().filter_map(|entry| entry.slot) {
            if std::mem::replace(&mut used[slot as usize], true) {
                return Err(BlockError::Damaged { what: "the map: a slot is used twice" });
            }
        }
        self.free = (0..self.slot_count).filter(|slot| !used[*slot as usize]).collect();
        Ok(())
    }

    /// Returns the number of slots that are free now.
    pub(super) fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Returns a slot for an eraseblock without one.
    pub(super) fn take_slot(&mut self) -> Option<u32> {
        self.free.pop_front()
    }

    /// Releases the slot, which becomes free after the next commit.
    pub(super) fn give_up(&mut self, slot: u32) {
        self.given_up.push(slot);
    }

    /// Returns the blocks changed since the last commit.
    pub(super) fn dirty(&self) -> Vec<Peb> {
        self.dirty.iter().copied().collect()
    }

    /// Records that the commit is complete; returns the slots that are free from now on.
    pub(super) fn committed(&mut self) -> Vec<u32> {
        self.dirty.clear();
        let freed = std::mem::take(&mut self.given_up);
        self.free.extend(&freed);
        freed
    }
}
