//! The physical units: what each one is used for, and its erases.

use crate::counters::Wear;
use std::collections::VecDeque;

/// The physical units. Free ones are used in turn, which is the card's wear leveling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Units {
    /// Erases of each physical unit.
    pub(super) erases: Vec<u32>,
    /// The physical unit with the content of each unit.
    pub(super) content: Vec<u32>,
    pub(super) free: VecDeque<u32>,
}

impl Units {
    pub(super) fn new(count: u32, physical: u32) -> Self {
        Self {
            erases: vec![0; physical as usize],
            content: (0..count).collect(),
            free: (count..physical).collect(),
        }
    }

    /// Takes the unit that has been free for the longest time.
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop_front().expect("more physical units than content, logs and one merge need")
    }

    /// Returns a unit that was taken but not written.
    pub(super) fn put_back(&mut self, physical: u32) {
        self.free.push_front(physical);
    }

    /// Erases a physical unit.
    pub(super) fn free(&mut self, physical: u32) {
        self.erases[physical as usize] = self.erases[physical as usize].saturating_add(1);
        self.free.push_back(physical);
    }

    /// Makes `physical` the content of a unit and erases the old one.
    pub(super) fn replace(&mut self, unit: u32, physical: u32) {
        let old = std::mem::replace(&mut self.content[unit as usize], physical);
        self.free(old);
    }

    /// Erases the content of a unit.
    pub(super) fn erase(&mut self, unit: u32) {
        let fresh = self.take();
        self.replace(unit, fresh);
    }

    pub(super) fn wear(&self) -> Wear {
        Wear {
            units: u32::try_from(self.erases.len()).unwrap_or(u32::MAX),
            open_units: 0,
            min_erases: self.erases.iter().copied().min().unwrap_or(0),
            max_erases: self.erases.iter().copied().max().unwrap_or(0),
            total_erases: self.erases.iter().map(|erases| u64::from(*erases)).sum(),
        }
    }
}
