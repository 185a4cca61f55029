//! Sequence numbers, which order all nodes on flash (layer 4; spec: ubifs-runtime 7.6).
//!
//! # Invariants
//! 1. No number is given twice: a mount raises the highest one above every node that it replays.

use super::error::Step;
use super::flash::Flash;
use eraseblock_ubifs_format::constants::SQNUM_LIMIT;

/// The sequence numbers given so far.
#[derive(Debug)]
pub(super) struct Sqnums {
    highest: u64,
}

impl Sqnums {
    /// Continues after `highest`.
    pub(super) fn new(highest: u64) -> Self {
        Self { highest }
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// Records a number found on flash.
    pub(super) fn raise(&mut self, found: u64) {
        self.highest = self.highest.max(found);
    }

    /// Returns the next number.
    pub(super) fn take(&mut self, flash: &mut Flash) -> Step<u64> {
        if self.highest + 1 >= SQNUM_LIMIT {
            flash.turn_read_only("sequence numbers are used up");
            flash.check_writable()?;
        }
        self.highest += 1;
        Ok(self.highest)
    }
}
