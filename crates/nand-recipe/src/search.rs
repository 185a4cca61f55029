//! Judging a recipe by zero syndromes, and the built-in table judged as a whole.

use crate::engine::{Outcome, PageCodec, Probe};
use crate::error::RecipeError;
use crate::evidence::{Confidence, Tally};
use crate::recipe::Recipe;
use crate::sample::Page;
use crate::stream::is_bad;
use eraseblock_mtd::ReadAt;
use std::collections::HashSet;

/// Pages of the first look at a recipe.
const QUICK: usize = 96;
/// Codewords of the first look for whose correction there is time.
const QUICK_ATTEMPTS: usize = 12;
/// Codewords that are corrected to see what share of them a recipe explains.
const ATTEMPTS: u64 = 1024;
/// With so many correctable bits, decoding is evidence enough for a second look: random bytes
/// decode with less than 1 / 10!.
const TELLING_STRENGTH: u32 = 10;

/// A recipe and how well it explains a dump.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The recipe.
    pub recipe: Recipe,
    /// The counts.
    pub tally: Tally,
}

impl Candidate {
    /// Returns the confidence.
    pub fn confidence(&self) -> Confidence {
        self.tally.confidence()
    }
}

/// Judges a recipe by pages; pages of bad blocks are left out.
pub(crate) fn judge(
    dump: &dyn ReadAt,
    recipe: &Recipe,
    pages: &[Page],
    hypotheses: u64,
) -> Result<Tally, RecipeError> {
    let mut codecs: Vec<PageCodec> = Vec::new();
    for region in &recipe.regions {
        codecs.push(PageCodec::new(recipe, region)?);
    }
    let parity_bits = codecs.iter().map(PageCodec::parity_bits).min().unwrap_or(0);
    let mut tally = Tally { parity_bits, hypotheses, ..Tally::default() };
    let mut seen = HashSet::new();
    let per_block = u64::from(recipe.chip.pages_per_block);
    // Correcting is slow: it is done for codewords of evenly spread pages.
    let words = codecs.first().map_or(1, PageCodec::codewords).max(1) as u64;
    let every = (pages.len() as u64 * words).div_ceil(ATTEMPTS).max(1);
    for (index, page) in (0_u64..).zip(pages) {
        let block = page.number / per_block;
        let first = block * per_block;
        if is_bad(dump, recipe, first, first + per_block).unwrap_or(false) {
            continue;
        }
        let codec = &mut codecs[recipe.region_of(block)];
        let mut raw = page.raw.clone();
        let is_readable = codec.prepare(page.number, &mut raw);
        let is_attempted = index.is_multiple_of(every);
        for word in 0..codec.codewords() {
            tally.tried += 1;
            tally.attempted += u64::from(is_attempted);
            let probe = codec.probe(&raw, word);
            if !is_readable {
                continue;
            }
            if let Probe::Valid(hash) = probe
                && seen.insert(hash)
            {
                tally.zero += 1;
            }
            if is_attempted {
                let outcome = codec.attempt(&mut raw, word);
                tally.explained += u64::from(outcome != Outcome::Uncorrectable);
                if let Outcome::Corrected(bits) = outcome {
                    tally.corrected_bits += u64::from(bits);
                }
            }
        }
    }
    Ok(tally)
}

/// Returns whether a recipe deserves a second look.
fn is_promising(recipe: &Recipe, pages: &[Page]) -> Result<bool, RecipeError> {
    let step = pages.len().div_ceil(QUICK).max(1);
    let mut attempts = 0;
    for region in &recipe.regions {
        let mut codec = PageCodec::new(recipe, region)?;
        let is_telling = codec.strength() >= TELLING_STRENGTH;
        for page in pages.iter().step_by(step) {
            let mut raw = page.raw.clone();
            if !codec.prepare(page.number, &mut raw) {
                continue;
            }
            for word in 0..codec.codewords() {
                match codec.probe(&raw, word) {
                    Probe::Valid(_) => return Ok(true),
                    Probe::Invalid if is_telling && attempts < QUICK_ATTEMPTS => {
                        attempts += 1;
                        if matches!(codec.attempt(&mut raw, word), Outcome::Corrected(_)) {
                            return Ok(true);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(false)
}

/// Judges recipes; returns those that explain something, the best first.
pub(crate) fn among(
    dump: &dyn ReadAt,
    recipes: Vec<Recipe>,
    pages: &[Page],
    hypotheses: u64,
) -> Result<Vec<Candidate>, RecipeError> {
    let mut found = Vec::new();
    for recipe in recipes {
        if !is_promising(&recipe, pages)? {
            continue;
        }
        let tally = judge(dump, &recipe, pages, hypotheses)?;
        if tally.confidence() > Confidence::None {
            found.push(Candidate { recipe, tally });
        }
    }
    sort(&mut found);
    Ok(found)
}

/// Puts the best candidate first.
pub(crate) fn sort(found: &mut [Candidate]) {
    found.sort_by_key(|candidate| {
        let tally = &candidate.tally;
        let proof = tally.zero * u64::from(tally.parity_bits);
        std::cmp::Reverse((candidate.confidence(), proof, tally.explained))
    });
}
