//! The random generator of a simulated chip: SplitMix64, seeded per event, so that the same plan
//! gives the same bytes regardless of other events.

use eraseblock_base::random::SplitMix64;

/// A small deterministic generator. Not for cryptography.
#[derive(Clone, Debug)]
pub struct Rng {
    sequence: SplitMix64,
}

impl Rng {
    /// Creates a generator for one purpose: the same `seed` and `number` give the same sequence.
    pub fn new(seed: u64, number: u64) -> Self {
        let mixed = SplitMix64::new(seed).next_u64();
        let sequence = SplitMix64::new(mixed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Self { sequence }
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.sequence.next_u64()
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        let wide = (self.next_u64() >> 32) * u64::from(bound);
        u32::try_from(wide >> 32).unwrap_or(0)
    }

    /// Returns true in `per_billion` of 1,000,000,000 cases.
    pub fn chance(&mut self, per_billion: u32) -> bool {
        self.below(1_000_000_000) < per_billion
    }

    /// Fills `bytes` with random bits.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }

    /// Returns `count` distinct numbers below `bound`, or all if there are fewer, ascending.
    pub fn distinct(&mut self, count: u32, bound: u32) -> Vec<u32> {
        let mut chosen = std::collections::BTreeSet::new();
        // Floyd's sampling: exactly one draw per number, no rejection.
        for top in bound.saturating_sub(count)..bound {
            let draw = self.below(top + 1);
            if !chosen.insert(draw) {
                chosen.insert(top);
            }
        }
        chosen.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_fixed() {
        // SplitMix64's published first value for seed 0.
        assert_eq!(Rng { sequence: SplitMix64::new(0) }.next_u64(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(Rng::new(7, 9).next_u64(), Rng::new(7, 9).next_u64());
        assert_ne!(Rng::new(7, 9).next_u64(), Rng::new(7, 10).next_u64());
        assert_ne!(Rng::new(7, 9).next_u64(), Rng::new(8, 9).next_u64());
    }

    #[test]
    fn draws_stay_in_bounds() {
        let mut rng = Rng::new(1, 1);
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
        let chosen = rng.distinct(5, 6);
        assert!(chosen.len() == 5 && chosen.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(rng.distinct(9, 3), [0, 1, 2]);
        let hits = (0..10_000).filter(|_| rng.chance(100_000_000)).count();
        assert!((800..1200).contains(&hits), "{hits}");
    }
}
