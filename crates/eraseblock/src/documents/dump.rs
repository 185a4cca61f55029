//! The recipe of a raw dump, with the evidence for it.

use eraseblock_nand_recipe::Confidence;
use eraseblock_nand_recipe::detect::{Candidate, Detection, Shape};
use serde::Serialize;

/// What detection found.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    /// How sure it is.
    pub confidence: Confidence,
    /// What the dump says about itself.
    pub clues: &'a [String],
    /// Pages that are written.
    pub written_pages: u64,
    /// Possible sizes of pages, the best first.
    pub shapes: Vec<ShapeReport>,
    /// Recipes, the best first.
    pub recipes: Vec<RecipeReport<'a>>,
}

/// A possible size of pages.
#[derive(Debug, Serialize)]
pub struct ShapeReport {
    /// Bytes of data in a page.
    pub page: u32,
    /// Spare bytes of a page.
    pub oob: u32,
    /// Sampled pages that begin with a known magic number.
    pub magics: u64,
    /// Share of constant spare bytes.
    pub constant_spare: f64,
}

/// A recipe, and the evidence for it.
#[derive(Debug, Serialize)]
pub struct RecipeReport<'a> {
    /// Its name.
    pub name: &'a str,
    /// How sure it is.
    pub confidence: Confidence,
    /// Bytes of data in a page.
    pub page: u32,
    /// Spare bytes of a page.
    pub oob: u32,
    /// Pages in a block.
    pub pages_per_block: u32,
    /// Codewords that were tried.
    pub codewords: u64,
    /// Those that are valid as read.
    pub zero_syndromes: u64,
    /// Bits of parity in a codeword.
    pub parity_bits: u32,
    /// Hypotheses that were tried.
    pub hypotheses: u64,
    /// Logarithm of the chance that this is no code.
    pub chance_log2: f64,
    /// Codewords that were corrected where needed.
    pub attempted: u64,
    /// Those of them that decode.
    pub explained: u64,
    /// Bits that were corrected.
    pub corrected_bits: u64,
    /// The recipe as text.
    pub recipe: String,
}

/// Returns the first bytes of blocks of the formats that this program knows.
pub fn magics() -> Vec<Vec<u8>> {
    [&b"UBI#"[..], b"hsqs"].map(<[u8]>::to_vec).into()
}

impl<'a> Report<'a> {
    /// Describes what detection found.
    pub fn of(detection: &'a Detection) -> Self {
        let shape = |shape: &Shape| ShapeReport {
            page: shape.page,
            oob: shape.oob,
            magics: shape.magics,
            constant_spare: shape.constant,
        };
        Self {
            confidence: detection.confidence(),
            clues: &detection.clues,
            written_pages: detection.written,
            shapes: detection.shapes.iter().map(shape).collect(),
            recipes: detection.candidates.iter().map(RecipeReport::of).collect(),
        }
    }
}

impl RecipeReport<'_> {
    fn of(candidate: &Candidate) -> RecipeReport<'_> {
        let (chip, tally) = (&candidate.recipe.chip, &candidate.tally);
        RecipeReport {
            name: candidate.recipe.name(),
            confidence: candidate.confidence(),
            page: chip.page,
            oob: chip.oob,
            pages_per_block: chip.pages_per_block,
            codewords: tally.tried,
            zero_syndromes: tally.zero,
            parity_bits: tally.parity_bits,
            hypotheses: tally.hypotheses,
            chance_log2: tally.chance(),
            attempted: tally.attempted,
            explained: tally.explained,
            corrected_bits: tally.corrected_bits,
            recipe: candidate.recipe.to_text(),
        }
    }
}
