//! How sure a detection is, in words with fixed numbers (spec: nand-recipe 5).

use serde::Serialize;
use std::fmt;

/// What a built-in recipe is known from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// A published codeword was computed again.
    Vector,
    /// A published description; no codeword was at hand.
    Source,
    /// Common knowledge that was not checked.
    Recalled,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vector => "vector",
            Self::Source => "source",
            Self::Recalled => "recalled",
        })
    }
}

/// The confidence in a recipe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Nothing supports it.
    None,
    /// Something supports it, less than for `Likely`.
    Weak,
    /// At least 4 zero syndromes, chance below 2^-64.
    Likely,
    /// At least 32 zero syndromes, chance below 2^-128, at least 95 % explained.
    Certain,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Weak => "weak",
            Self::Likely => "likely",
            Self::Certain => "certain",
        })
    }
}

/// Counts of codewords that were tried with a recipe. Only distinct codewords count whose message
/// and parity are not uniform.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// Written codewords that were tried, uniform ones included.
    pub tried: u64,
    /// Distinct codewords that are not uniform and have zero syndromes.
    pub zero: u64,
    /// Those of them that were corrected where needed, to see what decodes.
    pub attempted: u64,
    /// Codewords among the attempted that decode, uniform ones included.
    pub explained: u64,
    /// Corrected bits in them.
    pub corrected_bits: u64,
    /// Parity bits of a codeword.
    pub parity_bits: u32,
    /// Recipes that were tried.
    pub hypotheses: u64,
}

impl Tally {
    /// Returns the share of the attempted codewords that decode.
    pub fn share(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // counts are far below 2^52
        if self.attempted == 0 { 0.0 } else { self.explained as f64 / self.attempted as f64 }
    }

    /// Returns the base-2 logarithm of a bound of the probability that random bytes have as many
    /// zero syndromes with any of the hypotheses: hypotheses * (tried * 2^-parity)^zero.
    pub fn chance(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // counts are far below 2^52
        let (zero, tried, hypotheses) =
            (self.zero as f64, self.tried.max(1) as f64, self.hypotheses.max(1) as f64);
        (zero * (tried.log2() - f64::from(self.parity_bits)) + hypotheses.log2()).min(0.0)
    }

    /// Returns the confidence.
    pub fn confidence(&self) -> Confidence {
        let chance = self.chance();
        if self.zero >= 32 && chance < -128.0 && self.share() >= 0.95 {
            Confidence::Certain
        } else if self.zero >= 4 && chance < -64.0 {
            Confidence::Likely
        } else if self.zero >= 1 && chance < -8.0 {
            Confidence::Weak
        } else {
            Confidence::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_numbers_of_the_specification() {
        let tally = |zero, explained| Tally {
            tried: 256,
            attempted: 256,
            zero,
            explained,
            corrected_bits: 0,
            parity_bits: 52,
            hypotheses: 64,
        };
        for (zero, explained, expected) in [
            (32, 244, Confidence::Certain),
            (32, 243, Confidence::Likely),
            (31, 256, Confidence::Likely),
            (4, 4, Confidence::Likely),
            (3, 256, Confidence::Weak),
            (0, 256, Confidence::None),
        ] {
            assert_eq!(tally(zero, explained).confidence(), expected, "{zero} {explained}");
        }
        // A Hamming code has 24 bits, and less to say with as many codewords.
        let weak = Tally { parity_bits: 24, ..tally(4, 256) };
        assert_eq!(weak.confidence(), Confidence::Weak);
    }
}
