//! The recipe language: where the parts of a codeword are in a raw page, and how its parity is
//! computed (spec: nand-recipe 1).
//!
//! # Invariants
//! 1. A checked recipe lies inside its page: every range ends before the end of the raw page, and
//!    the data ranges of each region are as long as a page.
//! 2. Its regions follow each other without gaps, and the last one has no end.

use crate::bits::{BitRange, total};
use crate::error::RecipeError;
use crate::scrambler::Scrambler;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The largest page that a recipe may have, in bytes; no memory of more than a few pages is used.
const PAGE_MAX: u32 = 65_536;
const OOB_MAX: u32 = 16_384;
const PAGES_MAX: u32 = 4096;
const REGIONS_MAX: usize = 16;
const CODEWORDS_MAX: usize = 1024;
const LENGTHS_MAX: usize = 16;

/// The way in which a controller stores a chip.
#[derive(Clone, PartialEq, Debug)]
pub struct Recipe {
    /// Name, shape and markers.
    pub chip: ChipShape,
    /// The layouts, by ranges of blocks.
    pub regions: Vec<Region>,
}

/// What all regions have in common.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChipShape {
    /// The name of the recipe.
    pub name: String,
    /// Bytes of data in a page.
    pub page: u32,
    /// Further bytes in a page.
    pub oob: u32,
    /// Pages in a block.
    pub pages_per_block: u32,
    /// The place of the bad-block marker, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad: Option<Marker>,
}

/// A bad-block marker: a byte with fewer than five ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marker {
    /// The byte in the raw page.
    pub byte: u32,
    /// The pages that carry it.
    pub pages: MarkerPages,
}

/// The pages of a block that carry the marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MarkerPages {
    /// The first page.
    #[serde(rename = "first")]
    First,
    /// The first and the second page.
    #[serde(rename = "first two")]
    FirstTwo,
    /// The last page.
    #[serde(rename = "last")]
    Last,
}

impl MarkerPages {
    /// Returns the numbers of the pages in a block of `count` pages.
    pub fn numbers(self, count: u32) -> Vec<u32> {
        match self {
            Self::FirstTwo if count > 1 => vec![0, 1],
            Self::First | Self::FirstTwo => vec![0],
            Self::Last => vec![count.saturating_sub(1)],
        }
    }
}

/// The layout of the pages in a range of blocks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// The blocks.
    pub blocks: Blocks,
    /// The code of each codeword.
    pub code: Code,
    /// The bit of a byte that comes first.
    #[serde(default)]
    pub order: Order,
    /// The parts that are stored inverted.
    #[serde(default)]
    pub invert: Invert,
    /// What a codeword of an erased page looks like.
    pub erased: Erased,
    /// A constant that is added to the parity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xor: Option<Mask>,
    /// A marker byte that data would cover, and the place of that data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<Swap>,
    /// Bits that written pages have as zeros.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zeros: Vec<BitRange>,
    /// The scrambler of written pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrambler: Option<Scrambler>,
    /// The codewords of a page, in the order of their data.
    pub codewords: Vec<Codeword>,
}

/// A range of blocks, `4..20` or `4..`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Blocks {
    /// The first block.
    pub start: u64,
    /// The first block after the range; none for the rest of the chip.
    pub end: Option<u64>,
}

impl Blocks {
    /// All blocks of a chip.
    pub const ALL: Self = Self { start: 0, end: None };

    /// Returns whether a block is in the range.
    pub fn contains(self, block: u64) -> bool {
        block >= self.start && self.end.is_none_or(|end| block < end)
    }
}

impl From<Blocks> for String {
    fn from(blocks: Blocks) -> Self {
        let end = blocks.end.map_or(Self::new(), |end| end.to_string());
        format!("{}..{end}", blocks.start)
    }
}

impl TryFrom<String> for Blocks {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let fail = || format!("{text:?} is no range of blocks: expected 4..20 or 4..");
        let (start, end) = text.split_once("..").ok_or_else(fail)?;
        let start = start.parse().map_err(|_| fail())?;
        let end = match end {
            "" => None,
            end => Some(end.parse().ok().filter(|end| *end > start).ok_or_else(fail)?),
        };
        Ok(Self { start, end })
    }
}

/// An error-correcting code.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Code {
    /// A binary BCH code.
    Bch {
        /// The field has 2^m elements.
        m: u32,
        /// Correctable bits.
        t: u16,
        /// The primitive polynomial of the field.
        poly: u32,
    },
    /// A Hamming code over 256 or 512 bytes.
    Hamming {
        /// Bytes of data.
        step: u32,
        /// The order of its bytes.
        variant: HammingVariant,
    },
    /// A Reed-Solomon code; a byte is a symbol, parity symbols have m bits.
    Rs {
        /// Bits of a symbol.
        m: u32,
        /// Correctable symbols.
        t: u16,
        /// The primitive polynomial of the field.
        poly: u32,
        /// The exponent of the first root.
        b0: u32,
    },
    /// No code: nothing is verified.
    None,
}

/// Orders of the bytes of a Hamming code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HammingVariant {
    /// As Linux stores it (spec: mtd-nand 7).
    Linux,
    /// The first two bytes exchanged.
    SmartMedia,
}

/// The bit of a byte that is the first one of a codeword.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The highest bit.
    #[default]
    Msb,
    /// The lowest bit.
    Lsb,
}

/// Parts of a codeword that are stored inverted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Invert {
    /// Nothing.
    #[default]
    None,
    /// Everything that is not parity.
    Data,
    /// The parity.
    Parity,
    /// Everything.
    Both,
}

/// What the codewords of an erased page are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Erased {
    /// Valid: a constant is added to the parity that makes them so.
    Natural,
    /// Not valid: recognised if they have at most as many zeros as the code corrects.
    Count,
    /// Not valid: recognised if they have no zeros.
    FfOnly,
}

/// A constant of hexadecimal digits; bits after its end are zeros.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mask(pub Vec<u8>);

impl From<Mask> for String {
    fn from(mask: Mask) -> Self {
        let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
        mask.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }
}

impl TryFrom<String> for Mask {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let fail = || format!("{text:?} is no constant: expected pairs of hexadecimal digits");
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        bytes.filter(|_| rest.is_empty()).map(Self).ok_or_else(fail)
    }
}

/// Data that is stored elsewhere because a marker occupies its place. The code protects the page
/// as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swap {
    /// The bits that the marker occupies.
    pub marker: BitRange,
    /// The bits that hold the data instead.
    pub with: BitRange,
}

/// The places of a codeword in a raw page. The message of the code is `lead`, `data` and `spare`, in
/// this order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Codeword {
    /// Protected bits before the data that are no data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lead: Vec<BitRange>,
    /// The data, in the order of the image.
    pub data: Vec<BitRange>,
    /// Protected bits after the data that are no data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spare: Vec<BitRange>,
    /// The parity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parity: Vec<BitRange>,
}

impl Codeword {
    /// Returns the bits that the code protects, in its order.
    pub fn message(&self) -> Vec<BitRange> {
        [&self.lead[..], &self.data, &self.spare].concat()
    }
}

/// A recipe as a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeFile {
    recipe: ChipShape,
    #[serde(rename = "region")]
    regions: Vec<Region>,
}

impl Recipe {
    /// Parses and checks a recipe.
    ///
    /// # Errors
    ///
    /// Fails if the text is no recipe, or if the recipe contradicts itself.
    pub fn parse(text: &str) -> Result<Self, RecipeError> {
        let file: RecipeFile =
            toml::from_str(text).map_err(|error| RecipeError::Syntax(error.to_string()))?;
        let recipe = Self { chip: file.recipe, regions: file.regions };
        recipe.check()?;
        Ok(recipe)
    }

    /// Returns the recipe as text that [`Recipe::parse`] reads.
    pub fn to_text(&self) -> String {
        let file = RecipeFile { recipe: self.chip.clone(), regions: self.regions.clone() };
        toml::to_string(&file).unwrap_or_default()
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.chip.name
    }

    /// Returns the size of a raw page in bytes.
    pub fn raw_page(&self) -> usize {
        (self.chip.page + self.chip.oob) as usize
    }

    /// Returns the size of a raw block in bytes.
    pub fn raw_block(&self) -> u64 {
        self.raw_page() as u64 * u64::from(self.chip.pages_per_block)
    }

    /// Returns the number of the region that a block is in.
    pub fn region_of(&self, block: u64) -> usize {
        self.regions.iter().position(|region| region.blocks.contains(block)).unwrap_or(0)
    }

    /// Checks everything but the codes, which [`crate::PageCodec::new`] checks.
    ///
    /// # Errors
    ///
    /// Fails if a range is outside the page, if the data of a region is not as long as a page, or if
    /// the regions have gaps.
    pub fn check(&self) -> Result<(), RecipeError> {
        let fail = |message: String| Err(RecipeError::recipe(&self.chip.name, message));
        let ChipShape { page, oob, pages_per_block, bad, .. } = &self.chip;
        if !(1..=PAGE_MAX).contains(page) || *oob > OOB_MAX {
            return fail(format!(
                "a page of {page} and {oob} bytes, expected at most {PAGE_MAX} and {OOB_MAX}"
            ));
        }
        if !(1..=PAGES_MAX).contains(pages_per_block) {
            return fail(format!("{pages_per_block} pages in a block, expected 1 to {PAGES_MAX}"));
        }
        if let Some(marker) = bad
            && marker.byte >= page + oob
        {
            return fail(format!("the bad-block marker is at {}, after the page", marker.byte));
        }
        if self.regions.len() > REGIONS_MAX {
            return fail(format!("{} regions, expected at most {REGIONS_MAX}", self.regions.len()));
        }
        let mut next = Some(0);
        for region in &self.regions {
            if Some(region.blocks.start) != next {
                return fail(format!(
                    "the region of block {} does not follow the one before",
                    region.blocks.start
                ));
            }
            next = region.blocks.end;
            self.check_region(region)?;
        }
        if next.is_some() {
            return fail("the last region has an end, expected none".to_owned());
        }
        Ok(())
    }

    fn check_region(&self, region: &Region) -> Result<(), RecipeError> {
        let fail = |message: String| Err(RecipeError::recipe(&self.chip.name, message));
        let bits = (self.chip.page + self.chip.oob) * 8;
        let count = region.codewords.len();
        if count > CODEWORDS_MAX {
            return fail(format!("{count} codewords, expected at most {CODEWORDS_MAX}"));
        }
        let lengths: BTreeSet<usize> =
            region.codewords.iter().map(|word| total(&word.message())).collect();
        if lengths.contains(&0) {
            return fail("a codeword without a message".to_owned());
        }
        // Each length has tables of its own.
        if lengths.len() > LENGTHS_MAX {
            return fail(format!(
                "{} lengths of messages, expected at most {LENGTHS_MAX}",
                lengths.len()
            ));
        }
        let swapped = region.swap.iter().flat_map(|swap| [swap.marker, swap.with]);
        let places = region.codewords.iter().flat_map(|word| [word.message(), word.parity.clone()]);
        for range in places.flatten().chain(region.zeros.iter().copied()).chain(swapped) {
            if range.end > bits {
                return fail(format!("{range} ends after the page of {} bytes", bits / 8));
            }
        }
        if let Some(swap) = &region.swap
            && swap.marker.count() != swap.with.count()
        {
            return fail(format!("swap: {} and {} differ in length", swap.marker, swap.with));
        }
        if let Some(scrambler) = &region.scrambler {
            scrambler.check(self.chip.name.as_str(), bits)?;
            let covers = |marker: Marker| {
                scrambler
                    .covers
                    .iter()
                    .any(|range| (range.start..range.end).contains(&(marker.byte * 8)))
            };
            if self.chip.bad.is_some_and(covers) {
                return fail(
                    "the scrambler covers the bad-block marker, expected only one of both"
                        .to_owned(),
                );
            }
        }
        let data: usize = region.codewords.iter().map(|word| total(&word.data)).sum();
        if data != self.chip.page as usize * 8 {
            return fail(format!(
                "the codewords hold {data} bits of data, expected {} of a page",
                self.chip.page * 8
            ));
        }
        if region.xor.is_some() && region.erased == Erased::Natural {
            return fail(
                "erased = \"natural\" determines xor, expected only one of both".to_owned(),
            );
        }
        Ok(())
    }
}
