//! Faults as an overlay on the ideal content.
//!
//! # Invariants
//! 1. The cells hold the result of ECC; the overlay describes how the medium differs from it. Where
//!    ECC does not match the data (`bad_steps`), reads return the cells.
//! 2. A flip is a bit position in the page with its out-of-band bytes; a page holds each position
//!    once, sorted, and at most [`MAX_FLIPS`] of them.
//! 3. Reading changes only `Unstable::reads`.

use crate::rng::Rng;
use std::collections::BTreeMap;

/// More wrong bits than this in a page make its codewords uncorrectable in any case.
pub(crate) const MAX_FLIPS: usize = 256;

/// Every codeword, regardless of their number.
pub(crate) const ALL_STEPS: u64 = u64::MAX;

/// Codewords of a page that change between reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unstable {
    /// Good reads before one that is corrected; later ones fail.
    pub(crate) good_reads: u16,
    /// Reads so far.
    pub(crate) reads: u32,
    pub(crate) seed: u64,
    /// One bit per codeword that decays; [`ALL_STEPS`] if the whole page does.
    pub(crate) steps: u64,
}

/// The faults of a page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageFault {
    pub(crate) flips: Vec<u32>,
    /// One bit per codeword whose ECC does not match its data.
    pub(crate) bad_steps: u64,
    /// The program of this page was interrupted.
    pub(crate) interrupted: bool,
    pub(crate) unstable: Option<Unstable>,
}

/// The faults of a block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlockFaults {
    pub(crate) pages: BTreeMap<u32, PageFault>,
    /// Programs fail until the next complete erase.
    pub(crate) refuses_programs: bool,
}

impl PageFault {
    pub(crate) fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn add_flips(&mut self, flips: impl IntoIterator<Item = u32>) {
        self.flips.extend(flips);
        self.flips.sort_unstable();
        self.flips.dedup();
        self.flips.truncate(MAX_FLIPS);
    }
}

impl Unstable {
    /// Combines with an earlier decay in the same page. The smaller number of remaining reads
    /// applies, because cells do not recover.
    pub(crate) fn and(self, before: Option<Self>) -> Self {
        let Some(before) = before else { return self };
        let left = |unstable: &Self| i64::from(unstable.good_reads) - i64::from(unstable.reads);
        let first = if left(&before) <= left(&self) { before } else { self };
        Self { steps: self.steps | before.steps, ..first }
    }

    /// Returns the wrong bits of the next read: none, a correctable number, or too many, in each
    /// codeword.
    pub(crate) fn next_flips(&mut self, step_bits: u32, steps: u32, strength: u16) -> Vec<u32> {
        let good = u32::from(self.good_reads);
        let read = self.reads;
        self.reads = self.reads.saturating_add(1);
        if read < good {
            return Vec::new();
        }
        let mut rng = Rng::new(self.seed, u64::from(read));
        let strength = u32::from(strength);
        let mut flips = Vec::new();
        for step in (0..steps).filter(|step| self.steps >> step & 1 == 1) {
            let count = if read == good { strength } else { strength + 1 + rng.below(8) };
            let first = step * step_bits;
            flips.extend(rng.distinct(count, step_bits).into_iter().map(|bit| first + bit));
        }
        flips
    }
}

/// Inverts one bit, counted from bit 0 of byte 0.
pub(crate) fn flip(bytes: &mut [u8], bit: u32) {
    if let Some(byte) = bytes.get_mut(bit as usize / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

/// Returns the positions at which two byte strings differ, counted from `first_bit`, at most `limit
/// + 1`.
pub(crate) fn differing_bits(left: &[u8], right: &[u8], first_bit: u32, limit: usize) -> Vec<u32> {
    let mut bits = Vec::new();
    let mut at = first_bit;
    for (left, right) in left.iter().zip(right) {
        let mut difference = left ^ right;
        while difference != 0 {
            bits.push(at + difference.trailing_zeros());
            if bits.len() > limit {
                return bits;
            }
            difference &= difference - 1;
        }
        at += 8;
    }
    bits
}
