//! Scramblers: a linear feedback shift register whose bits are added to written pages.

pub(crate) mod search;

use crate::bits::BitRange;
use crate::error::RecipeError;
use serde::{Deserialize, Serialize};

/// A linear feedback shift register. Its output is the low bit of its state; a step shifts the state
/// down by one bit, and the parity of the bits in `taps` becomes the highest bit.
///
/// The output is added to the covered bytes of a page in the order of the ranges, to the lowest bit
/// of each byte first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scrambler {
    /// Bits of the state, at most 31.
    pub width: u32,
    /// The bits of the state that are fed back.
    pub taps: u32,
    /// Steps before the first output.
    #[serde(default)]
    pub skip: u32,
    /// The state at the start of page p is number p modulo their count; 0 is unknown.
    pub seeds: Vec<u32>,
    /// The bytes of the page that are covered.
    pub covers: Vec<BitRange>,
}

impl Scrambler {
    /// The largest number of seeds.
    pub const SEEDS_MAX: usize = 4096;

    pub(crate) fn check(&self, name: &str, bits: u32) -> Result<(), RecipeError> {
        let fail = |message: &str| Err(RecipeError::recipe(name, message));
        let fits = |value: u32| value >> self.width == 0;
        if !(2..=31).contains(&self.width) || !fits(self.taps) || self.taps & 1 == 0 {
            return fail(
                "scrambler: expected a width of 2 to 31 and taps within it, bit 0 included",
            );
        }
        if self.skip > 65_536 {
            return fail("scrambler: expected at most 65536 steps to skip");
        }
        if !(1..=Self::SEEDS_MAX).contains(&self.seeds.len()) {
            return fail("scrambler: expected 1 to 4096 seeds");
        }
        if !self.seeds.iter().all(|seed| fits(*seed)) {
            return fail("scrambler: a seed is wider than the state");
        }
        let aligned =
            |range: &BitRange| (range.start | range.end).is_multiple_of(8) && range.end <= bits;
        if !self.covers.iter().all(aligned) {
            return fail("scrambler: expected whole bytes inside the page");
        }
        Ok(())
    }

    /// Returns the next eight outputs, the first one as the lowest bit, and moves the state on.
    pub(crate) fn next_byte(&self, state: &mut u32) -> u8 {
        let mut out = 0;
        for bit in 0..8 {
            out |= u8::from(*state & 1 == 1) << bit;
            self.step(state);
        }
        out
    }

    fn step(&self, state: &mut u32) {
        let feedback = (*state & self.taps).count_ones() & 1;
        *state = *state >> 1 | feedback << (self.width - 1);
    }

    /// Returns the seed of a page, or `None` if it is unknown.
    pub(crate) fn seed(&self, page: u64) -> Option<u32> {
        let index = usize::try_from(page % self.seeds.len() as u64).ok()?;
        self.seeds.get(index).copied().filter(|seed| *seed != 0)
    }

    /// Adds the output to a raw page, which scrambles it or undoes that. Returns false if the seed
    /// of the page is unknown; then nothing is changed.
    pub(crate) fn apply(&self, page: u64, raw: &mut [u8]) -> bool {
        let Some(mut state) = self.seed(page) else { return false };
        (0..self.skip).for_each(|_| self.step(&mut state));
        for range in &self.covers {
            for byte in &mut raw[range.start as usize / 8..range.end as usize / 8] {
                *byte ^= self.next_byte(&mut state);
            }
        }
        true
    }
}
