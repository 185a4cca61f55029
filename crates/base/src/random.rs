//! A small seeded generator. The core generates no randomness of its own: simulations, campaigns
//! and tests pass a seed, and the same seed gives the same numbers everywhere.

/// The SplitMix64 sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Returns the sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Returns a number below `bound`, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// Returns an index into a list of `len` entries; `len` must not be zero.
    #[allow(clippy::cast_possible_truncation)] // it is below a usize
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a byte. Every second one has a value that often breaks rules: 0, 255, or a small
    /// number.
    pub fn interesting_byte(&mut self) -> u8 {
        let [byte, choice, ..] = self.next_u64().to_le_bytes();
        match choice % 6 {
            0 => 0,
            1 => 0xFF,
            2 => byte % 4,
            _ => byte,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }
}
