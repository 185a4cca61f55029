//! How many LEBs are empty, and how many of them the index may need (layer 3; spec: ubifs-runtime
//! 15.3, 15.4).
//!
//! # Invariants
//! 1. An empty LEB that is taken is not counted as spare: it has a use already.

use super::lprops::{Category, Lprops};

/// What is known about empty LEBs besides the LEB properties. It changes when garbage collection
/// frees an index LEB, when a commit ends, and when space is reserved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supply {
    /// The number of LEBs that the index may need.
    pub(super) min_idx_lebs: i64,
    /// The number of index LEBs that the next commit erases.
    pub(super) queued: i64,
}

impl Supply {
    /// Returns the number of LEBs that are or will be empty without garbage collection.
    pub(super) fn spare_lebs(self, lprops: &Lprops) -> i64 {
        let stats = &lprops.stats;
        stats.empty_lebs + lprops.set(Category::Freeable).len().cast_signed() as i64 + self.queued
            - stats.taken_empty_lebs
    }

    /// Returns the number of LEBs that must stay empty for the index.
    pub(super) fn reserved_idx_lebs(self, lprops: &Lprops) -> i64 {
        (self.min_idx_lebs - lprops.stats.idx_lebs).max(0)
    }

    /// Returns whether as many LEBs are or will be empty as the index may need.
    pub(super) fn has_index_reserve(self, lprops: &Lprops) -> bool {
        self.reserved_idx_lebs(lprops) <= self.spare_lebs(lprops)
    }

    /// Returns whether the journal may take an empty LEB; the index keeps those it may need.
    pub(super) fn may_give_empty(self, lprops: &Lprops) -> bool {
        self.reserved_idx_lebs(lprops) < self.spare_lebs(lprops)
    }

    /// Returns whether the index has more LEBs than it may need.
    pub(super) fn may_take_index(self, lprops: &Lprops) -> bool {
        self.min_idx_lebs < lprops.stats.idx_lebs
    }
}
