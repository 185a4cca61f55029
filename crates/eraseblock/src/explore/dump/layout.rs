//! A recipe for the page: what each part of a raw page is, and the scrambler.

use eraseblock_nand_recipe::bits::BitRange;
use eraseblock_nand_recipe::recipe::{Code, Erased, Invert, Order, Recipe, Region};
use eraseblock_nand_recipe::scrambler::Scrambler;
use serde::Serialize;

/// Seeds that are listed at most.
const SEEDS: usize = 256;

/// A recipe.
#[derive(Serialize)]
pub(super) struct RecipeRow<'a> {
    name: &'a str,
    page: u32,
    oob: u32,
    pages_per_block: u32,
    regions: Vec<RegionRow<'a>>,
    /// The same as a file for `--recipe`.
    text: String,
}

#[derive(Serialize)]
struct RegionRow<'a> {
    blocks: String,
    code: &'a Code,
    order: Order,
    invert: Invert,
    erased: Erased,
    /// The parts of a raw page, in ascending order.
    slices: Vec<SliceRow>,
    scrambler: Option<ScramblerRow>,
}

/// A part of a raw page, in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
struct SliceRow {
    from: u32,
    to: u32,
    what: &'static str,
    codeword: usize,
}

#[derive(Serialize)]
struct ScramblerRow {
    width: u32,
    taps: u32,
    /// The characteristic polynomial of the register.
    polynomial: String,
    skip: u32,
    /// Pages after which the seeds repeat.
    period: usize,
    known_seeds: usize,
    /// The first seeds; 0 is unknown.
    seeds: Vec<u32>,
    covers: Vec<String>,
}

impl<'a> RecipeRow<'a> {
    pub(super) fn of(recipe: &'a Recipe) -> Self {
        Self {
            name: recipe.name(),
            page: recipe.chip.page,
            oob: recipe.chip.oob,
            pages_per_block: recipe.chip.pages_per_block,
            regions: recipe.regions.iter().map(RegionRow::of).collect(),
            text: recipe.to_text(),
        }
    }
}

impl<'a> RegionRow<'a> {
    fn of(region: &'a Region) -> Self {
        Self {
            blocks: region.blocks.into(),
            code: &region.code,
            order: region.order,
            invert: region.invert,
            erased: region.erased,
            slices: slices(region),
            scrambler: region.scrambler.as_ref().map(ScramblerRow::of),
        }
    }
}

fn slices(region: &Region) -> Vec<SliceRow> {
    let mut all = Vec::new();
    for (codeword, it) in region.codewords.iter().enumerate() {
        let parts: [(&'static str, &[BitRange]); 4] =
            [("lead", &it.lead), ("data", &it.data), ("spare", &it.spare), ("parity", &it.parity)];
        for (what, ranges) in parts {
            let row =
                |range: &BitRange| SliceRow { from: range.start, to: range.end, what, codeword };
            all.extend(ranges.iter().map(row));
        }
    }
    all.sort_by_key(|slice| (slice.from, slice.to));
    all
}

impl ScramblerRow {
    fn of(scrambler: &Scrambler) -> Self {
        Self {
            width: scrambler.width,
            taps: scrambler.taps,
            polynomial: polynomial(scrambler.width, scrambler.taps),
            skip: scrambler.skip,
            period: scrambler.seeds.len(),
            known_seeds: scrambler.seeds.iter().filter(|seed| **seed != 0).count(),
            seeds: scrambler.seeds.iter().take(SEEDS).copied().collect(),
            covers: scrambler.covers.iter().map(ToString::to_string).collect(),
        }
    }
}

/// The highest bit of the next state is the sum of the bits in `taps`.
fn polynomial(width: u32, taps: u32) -> String {
    let power = |exponent: u32| match exponent {
        0 => "1".to_owned(),
        1 => "x".to_owned(),
        other => format!("x^{other}"),
    };
    let tapped = (0..width).rev().filter(|bit| taps >> bit & 1 == 1);
    std::iter::once(width).chain(tapped).map(power).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_polynomial_has_the_taps_and_the_width() {
        assert_eq!(polynomial(15, 3), "x^15 + x + 1");
        assert_eq!(polynomial(3, 0b101), "x^3 + x^2 + 1");
    }
}
