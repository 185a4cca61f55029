//! The states that an interrupted operation may leave, as numbered variants (P program, E erase, B
//! bad-block mark), each with a short code for replay identifiers.

use crate::config::ChipConfig;
use crate::event::EventKind;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The extent of an interrupted program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Prefix {
    /// One byte.
    One,
    /// One sub-page (NOR: a quarter of the data).
    Subpage,
    /// Half of the data.
    Half,
    /// All bytes but the last.
    AllButOne,
}

/// The state that a power cut during one flash event leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Variant {
    /// Program or mark: nothing happened.
    P0,
    /// Program or mark: complete, but success was not reported.
    P1,
    /// Program: a prefix is programmed, the rest is unchanged.
    P2(Prefix),
    /// Program: each bit to be cleared is cleared or not, at random.
    P3,
    /// Program: garbage in every codeword touched.
    P4,
    /// Program: complete, but every codeword touched (all of them, if only out-of-band bytes were
    /// written) reads correctly this many times, then with a correction once, then never again.
    P5 {
        /// The number of correct reads.
        good_reads: u16,
    },
    /// Program: unchanged, except a few cleared bits of one codeword.
    P6 {
        /// The number.
        zero_bits: u16,
    },
    /// Program: the data is complete, the out-of-band bytes (and with them the ECC) are missing.
    P7Data,
    /// Program: the out-of-band bytes are complete, the data is missing.
    P7Oob,
    /// Erase: nothing happened.
    E0,
    /// Erase: complete.
    E1,
    /// Erase: the first pages are erased, one is mixed, the rest is unchanged; with `scattered`,
    /// each page is erased or not, independently.
    E2 {
        /// Whether each page is erased or not, independently.
        scattered: bool,
    },
    /// Erase: reads as 0xFF at first, then bits appear; a program into it fails.
    E3,
    /// Erase: the old content is readable at first, then decays.
    E4,
    /// Erase of NOR: zero-filled from the end, not yet erased.
    E5,
    /// Bad-block mark: torn; each power-on decides again whether the block counts as bad.
    B1,
}

impl Variant {
    /// Returns whether a driver stack must recover from it. Outside the model it must refuse or
    /// turn read-only; wrong data is never allowed.
    pub fn is_in_model(self) -> bool {
        // Erase pulses reach all pages of a block alike; independently erased pages are only used
        // to test detection.
        self != Self::E2 { scattered: true }
    }

    /// Returns whether reads may change between each other without a write.
    pub fn is_unstable(self) -> bool {
        matches!(self, Self::P5 { .. } | Self::E3 | Self::E4 | Self::B1)
    }

    /// Describes the state it leaves.
    pub fn meaning(self) -> String {
        let fixed = match self {
            Self::P0 => "nothing was programmed",
            Self::P1 => "everything was programmed, but success was not reported",
            Self::P2(Prefix::One) => "the first byte was programmed",
            Self::P2(Prefix::Subpage) => "the first sub-page was programmed",
            Self::P2(Prefix::Half) => "the first half was programmed",
            Self::P2(Prefix::AllButOne) => "all bytes but the last were programmed",
            Self::P3 => "each bit to be cleared was cleared or not, at random",
            Self::P4 => "garbage in every codeword touched",
            Self::P5 { good_reads } => {
                return format!(
                    "everything was programmed; it reads well {good_reads} times, is then corrected \
                     once, and is never readable again"
                );
            }
            Self::P6 { zero_bits } => {
                return format!("unchanged, except {zero_bits} cleared bits of one codeword");
            }
            Self::P7Data => "the data was programmed, its error correction code was not",
            Self::P7Oob => "the out-of-band bytes were programmed, the data was not",
            Self::E0 => "nothing was erased",
            Self::E1 => "the block was erased",
            Self::E2 { scattered: false } => {
                "the first pages were erased, one is mixed, the rest is old"
            }
            Self::E2 { scattered: true } => "each page is erased, mixed or old, independently",
            Self::E3 => "it reads as erased at first, then bits appear; a program into it fails",
            Self::E4 => "the old content is readable at first, then decays",
            Self::E5 => "zero-filled from the end, not erased",
            Self::B1 => "the mark is torn: every power-on decides whether the block is bad",
        };
        fixed.to_owned()
    }

    /// Returns every variant that applies to an event on a chip, in a fixed order.
    pub fn for_event(event: &EventKind, config: &ChipConfig) -> Vec<Self> {
        match event {
            EventKind::Program { data, .. } if data.is_empty() => {
                vec![Self::P0, Self::P1, Self::P2(Prefix::Half), Self::P3]
            }
            EventKind::Program { data, .. } => program_variants(data.len(), config),
            EventKind::Erase { .. } if config.is_nand() => vec![
                Self::E0,
                Self::E1,
                Self::E2 { scattered: false },
                Self::E2 { scattered: true },
                Self::E3,
                Self::E4,
            ],
            EventKind::Erase { .. } => {
                vec![Self::E0, Self::E1, Self::E2 { scattered: false }, Self::E4, Self::E5]
            }
            EventKind::MarkBad { .. } => vec![Self::P0, Self::P1, Self::B1],
        }
    }
}

fn program_variants(len: usize, config: &ChipConfig) -> Vec<Variant> {
    let mut variants = vec![Variant::P0, Variant::P1];
    let prefixes = [Prefix::One, Prefix::Subpage, Prefix::Half, Prefix::AllButOne];
    let mut lengths = std::collections::BTreeSet::new();
    for prefix in prefixes {
        let bytes = prefix_len(prefix, len, config);
        if bytes > 0 && bytes < len && lengths.insert(bytes) {
            variants.push(Variant::P2(prefix));
        }
    }
    variants.push(Variant::P3);
    if config.is_nand() {
        variants.push(Variant::P4);
        variants.extend([1, 2, 5].map(|good_reads| Variant::P5 { good_reads }));
        let bits = config.ecc_bits;
        variants.extend((bits > 0).then_some(Variant::P6 { zero_bits: bits }));
        variants.push(Variant::P6 { zero_bits: bits + 1 });
        if config.oob() > 0 {
            variants.extend([Variant::P7Data, Variant::P7Oob]);
        }
    }
    variants
}

/// Returns the number of bytes of `len` that arrive before the cut.
pub(crate) fn prefix_len(prefix: Prefix, len: usize, config: &ChipConfig) -> usize {
    match prefix {
        Prefix::One => 1.min(len),
        Prefix::Subpage if config.is_nand() => (config.geometry.subpage() as usize).min(len),
        Prefix::Subpage => len / 4,
        Prefix::Half => len / 2,
        Prefix::AllButOne => len.saturating_sub(1),
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::P0 => f.write_str("P0"),
            Self::P1 => f.write_str("P1"),
            Self::P2(Prefix::One) => f.write_str("P2one"),
            Self::P2(Prefix::Subpage) => f.write_str("P2sub"),
            Self::P2(Prefix::Half) => f.write_str("P2half"),
            Self::P2(Prefix::AllButOne) => f.write_str("P2last"),
            Self::P3 => f.write_str("P3"),
            Self::P4 => f.write_str("P4"),
            Self::P5 { good_reads } => write!(f, "P5r{good_reads}"),
            Self::P6 { zero_bits } => write!(f, "P6k{zero_bits}"),
            Self::P7Data => f.write_str("P7data"),
            Self::P7Oob => f.write_str("P7oob"),
            Self::E0 => f.write_str("E0"),
            Self::E1 => f.write_str("E1"),
            Self::E2 { scattered: false } => f.write_str("E2"),
            Self::E2 { scattered: true } => f.write_str("E2scattered"),
            Self::E3 => f.write_str("E3"),
            Self::E4 => f.write_str("E4"),
            Self::E5 => f.write_str("E5"),
            Self::B1 => f.write_str("B1"),
        }
    }
}

/// The variants without a number in their code.
const PLAIN: [Variant; 18] = [
    Variant::P0,
    Variant::P1,
    Variant::P2(Prefix::One),
    Variant::P2(Prefix::Subpage),
    Variant::P2(Prefix::Half),
    Variant::P2(Prefix::AllButOne),
    Variant::P3,
    Variant::P4,
    Variant::P7Data,
    Variant::P7Oob,
    Variant::E0,
    Variant::E1,
    Variant::E2 { scattered: false },
    Variant::E2 { scattered: true },
    Variant::E3,
    Variant::E4,
    Variant::E5,
    Variant::B1,
];

/// A text that is not the code of a variant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariantError {
    text: String,
}

impl fmt::Display for VariantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text } = self;
        write!(
            f,
            "`{text}` is not a power-cut variant: expected a code such as P0, P2half, P5r1, P6k4, E2"
        )
    }
}

impl Error for VariantError {}

impl FromStr for Variant {
    type Err = VariantError;

    fn from_str(text: &str) -> Result<Self, VariantError> {
        let fail = || VariantError { text: text.to_owned() };
        if let Some(reads) = text.strip_prefix("P5r") {
            return reads.parse().map(|good_reads| Self::P5 { good_reads }).map_err(|_| fail());
        }
        if let Some(bits) = text.strip_prefix("P6k") {
            return bits.parse().map(|zero_bits| Self::P6 { zero_bits }).map_err(|_| fail());
        }
        PLAIN.into_iter().find(|variant| variant.to_string() == text).ok_or_else(fail)
    }
}
