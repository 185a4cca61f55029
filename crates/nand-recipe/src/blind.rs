//! Unknown BCH codes: the difference of two codewords is a multiple of the generator, with any
//! constant added to them, so the greatest common divisor of a few differences is the generator
//! (spec: nand-recipe 6).
//!
//! # Invariants
//! 1. A recipe leaves this module only if its generator is exactly that of a BCH code, and if its
//!    layout explains further codewords.

use crate::bits::{self, BitRange};
use crate::engine::PageCodec;
use crate::polynomial::{Polynomial, primitive};
use crate::recipe::{
    Blocks, ChipShape, Code, Codeword, Erased, Invert, Marker, MarkerPages, Mask, Order, Recipe,
    Region,
};
use crate::sample::Page;
use crate::scrambler::Scrambler;
use crate::table::usual_pages;
use eraseblock_mtd::ecc::{Bch, BchParameters};
use std::ops::Range;

/// Pages that are compared.
const PAGES: usize = 48;
/// Groups of three codewords that are tried; an error in one of them spoils a group.
const GROUPS: usize = 3;
/// Differences that must confirm a divisor, of twice as many.
const CONFIRMED: usize = 4;
/// Bytes of data in a codeword; with 4096 it would be longer than the largest field.
const STEPS: [usize; 3] = [512, 1024, 2048];
/// Protected bytes before the parity that do not change.
const LEADING: usize = 12;
/// The smallest degree of a generator that is looked at: BCH of 2 bits.
const DEGREE_MIN: usize = 26;

/// Recipes of codes that explain at least some codewords.
#[derive(Debug, Default)]
pub(crate) struct Blind {
    pub(crate) recipes: Vec<Recipe>,
    /// Layouts that were tried.
    pub(crate) hypotheses: u64,
}

/// The bytes of a codeword: pieces of the page in order.
type Pieces = Vec<Range<usize>>;

struct Search<'p> {
    page: usize,
    oob: usize,
    order: Order,
    /// Raw pages in the order of the code.
    pages: &'p [Vec<u8>],
    scrambler: Option<&'p Scrambler>,
    hypotheses: u64,
}

/// A generator, and the places of the first codeword.
struct Hit {
    generator: Polynomial,
    step: usize,
    pieces: Pieces,
    /// Bits after the codeword in the pieces.
    slack: usize,
    is_interleaved: bool,
}

/// Searches for the code of pages of one shape.
pub(crate) fn search(page: u32, oob: u32, sample: &[Page], scrambler: Option<&Scrambler>) -> Blind {
    let mut blind = Blind::default();
    let step = sample.len().div_ceil(PAGES).max(1);
    let mut pages: Vec<Vec<u8>> = Vec::new();
    for page in sample.iter().step_by(step) {
        let mut raw = page.raw.clone();
        if scrambler.is_none_or(|scrambler| scrambler.apply(page.number, &mut raw)) {
            pages.push(raw);
        }
    }
    if pages.len() < 2 * CONFIRMED || oob < 4 {
        return blind;
    }
    for order in [Order::Msb, Order::Lsb] {
        if order == Order::Lsb {
            for page in &mut pages {
                bits::reverse(page);
            }
        }
        let (page, oob) = (page as usize, oob as usize);
        let mut search = Search { page, oob, order, pages: &pages, scrambler, hypotheses: 0 };
        blind.recipes.extend(search.contiguous().or_else(|| search.interleaved()));
        blind.hypotheses += search.hypotheses;
    }
    blind
}

impl Search<'_> {
    /// Returns the codeword of a page as a polynomial.
    fn word(&self, page: usize, pieces: &Pieces) -> Polynomial {
        let bytes: Vec<u8> =
            pieces.iter().flat_map(|piece| &self.pages[page][piece.clone()]).copied().collect();
        Polynomial::from_bytes(&bytes)
    }

    /// Returns the difference of the codewords of two pages.
    fn difference(&self, first: usize, second: usize, pieces: &Pieces) -> Polynomial {
        let raw =
            |page: usize| pieces.iter().flat_map(move |piece| &self.pages[page][piece.clone()]);
        let bytes: Vec<u8> =
            raw(first).zip(raw(second)).map(|(left, right)| left ^ right).collect();
        Polynomial::from_bytes(&bytes)
    }

    /// Returns the generator of codewords at these places, if they have one.
    fn generator(&mut self, pieces: &Pieces) -> Option<(Polynomial, usize)> {
        self.hypotheses += 1;
        let count = self.pages.len();
        for group in 0..GROUPS {
            let at = |index: usize| (group * 11 + index * 5) % count;
            let first = self.difference(at(0), at(1), pieces);
            let second = self.difference(at(1), at(2), pieces);
            if first.is_zero() || second.is_zero() || first == second {
                continue;
            }
            let divisor = first.gcd(second);
            let slack = divisor.valuation();
            let divisor = divisor.shifted_down(slack);
            if divisor.degree() < DEGREE_MIN {
                continue;
            }
            if let Some(found) = self.confirmed(divisor, slack, pieces) {
                return Some(found);
            }
        }
        None
    }

    /// Removes accidental factors, and demands that most other differences agree.
    fn confirmed(
        &self,
        mut divisor: Polynomial,
        mut slack: usize,
        pieces: &Pieces,
    ) -> Option<(Polynomial, usize)> {
        let count = self.pages.len();
        let mut agreeing = 0;
        for index in 0..4 * CONFIRMED {
            let difference = self.difference(index % count, (index * 7 + 3) % count, pieces);
            if difference.is_zero() {
                continue;
            }
            let valuation = difference.valuation();
            let common = divisor.clone().gcd(difference.shifted_down(valuation));
            if common.degree() >= DEGREE_MIN {
                agreeing += 1;
                slack = slack.min(valuation);
                divisor = common;
            }
        }
        (agreeing >= CONFIRMED).then_some((divisor, slack))
    }

    /// Data first, parity among the spare bytes.
    fn contiguous(&mut self) -> Option<Recipe> {
        let varying = self.varying();
        let runs = runs(&varying);
        let first = *runs.first()?;
        for step in STEPS {
            if !self.page.is_multiple_of(step) {
                continue;
            }
            let count = self.page / step;
            let mut ends: Vec<usize> = runs.iter().map(|run| run.1).collect();
            let whole = runs.iter().map(|run| run.1 - run.0).sum::<usize>();
            ends.extend([first.0 + (first.1 - first.0) / count, first.0 + whole / count]);
            ends.extend([self.oob / count, first.0 + (self.oob - first.0) / count]);
            let near = (0..=first.0).rev().take(LEADING + 1);
            let usual = [0, 1, 2, 4].into_iter().filter(|start| start + LEADING < first.0);
            let others = runs.iter().skip(1).map(|run| run.0);
            let starts: Vec<usize> = near.chain(usual).chain(others).collect();
            ends.sort_unstable();
            ends.dedup();
            for start in starts {
                for end in &ends {
                    if *end <= start + 3 || *end > self.oob {
                        continue;
                    }
                    let pieces = vec![0..step, self.page + start..self.page + end];
                    if let Some(found) = self.after_data(pieces, step) {
                        return Some(found);
                    }
                }
            }
        }
        None
    }

    /// Chunks of data and parity one after another.
    fn interleaved(&mut self) -> Option<Recipe> {
        for step in STEPS {
            if !self.page.is_multiple_of(step) || self.page < step {
                continue;
            }
            let each = self.oob / (self.page / step);
            // What follows a codeword without a change does no harm; the next codeword does.
            for extra in (4..=each + 16).rev() {
                let pieces = one(0, (step + extra).min(self.page + self.oob));
                if let Some(found) = self.chunk(pieces, step) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Returns which spare bytes differ between pages.
    fn varying(&self) -> Vec<bool> {
        (self.page..self.page + self.oob)
            .map(|column| {
                let first = self.pages[0][column];
                let others = self.pages.iter().filter(|page| page[column] != first).count();
                others * 8 > self.pages.len()
            })
            .collect()
    }

    /// Returns whether codewords at these places have the generator.
    fn holds(&self, pieces: &Pieces, slack: usize, generator: &Polynomial) -> bool {
        if pieces.iter().any(|piece| piece.end > self.page + self.oob) {
            return false;
        }
        let count = self.pages.len();
        let good = (0..8).filter(|index| {
            let difference = self.difference(index % count, (index * 7 + 3) % count, pieces);
            let fits = difference.is_zero() || difference.valuation() >= slack;
            fits && difference.is_multiple_of(generator)
        });
        let distinct = (1..8).any(|index| self.word(index, pieces) != self.word(0, pieces));
        distinct && good.count() >= 3
    }

    /// Returns the recipe of a codeword whose parity is among the spare bytes. Several codewords one
    /// after another are a multiple of the generator, too, but no codeword: they have no recipe.
    fn after_data(&mut self, pieces: Pieces, step: usize) -> Option<Recipe> {
        let (generator, slack) = self.generator(&pieces)?;
        self.recipe(&Hit { generator, step, pieces, slack, is_interleaved: false })
    }

    /// Returns the recipe of a codeword that is a chunk of the page.
    fn chunk(&mut self, pieces: Pieces, step: usize) -> Option<Recipe> {
        let (generator, slack) = self.generator(&pieces)?;
        self.recipe(&Hit { generator, step, pieces, slack, is_interleaved: true })
    }

    /// Makes a recipe of a generator: the field, the other codewords of the page, the constant.
    fn recipe(&self, hit: &Hit) -> Option<Recipe> {
        let total: usize = hit.pieces.iter().map(|piece| piece.len() * 8).sum();
        let length = total - hit.slack;
        let degree = hit.generator.degree();
        let message_bits = u32::try_from(length.checked_sub(degree)?).ok()?;
        let code = identify(&hit.generator, message_bits)?;
        let codewords = self.codewords(hit, degree)?;
        let kind = if hit.is_interleaved { "interleaved" } else { "contiguous" };
        let Code::Bch { m, t, poly } = code else { return None };
        let (page, oob) = (u32::try_from(self.page).ok()?, u32::try_from(self.oob).ok()?);
        let bad = Marker { byte: page, pages: MarkerPages::FirstTwo };
        // A marker is where no codeword is: parity there would mark good blocks.
        let is_free = self.pages.iter().filter(|raw| raw[self.page] == 0xFF).count() * 8
            > self.pages.len() * 7;
        let is_marked = is_free && !hit.is_interleaved && self.scrambler.is_none();
        let chip = ChipShape {
            name: format!("blind-bch{t}-m{m}-{poly:x}:{page}+{oob}:{kind}"),
            page,
            oob,
            pages_per_block: usual_pages(page),
            bad: is_marked.then_some(bad),
        };
        let region = Region {
            blocks: Blocks::ALL,
            code,
            order: self.order,
            invert: Invert::None,
            erased: Erased::Natural,
            xor: None,
            swap: None,
            zeros: Vec::new(),
            scrambler: self.scrambler.cloned(),
            codewords,
        };
        let mut recipe = Recipe { chip, regions: vec![region] };
        recipe.check().ok()?;
        self.find_constant(&mut recipe)?;
        Some(recipe)
    }

    /// Returns the codewords of a page, with the stride that explains the second one.
    fn codewords(&self, hit: &Hit, degree: usize) -> Option<Vec<Codeword>> {
        let count = self.page / hit.step;
        let last = hit.pieces.last()?;
        let end = last.end * 8 - hit.slack;
        let parity = end - degree;
        let (range, spare_start) =
            if hit.is_interleaved { (0..hit.step, hit.step) } else { (0..hit.step, last.start) };
        let moved = |data: usize, spare: usize| -> Option<Codeword> {
            let bit = |bit: usize| u32::try_from(bit).ok();
            let spare_range =
                BitRange { start: bit((spare_start + spare) * 8)?, end: bit(parity + spare * 8)? };
            let spare_range = (spare_range.start < spare_range.end).then_some(spare_range);
            Some(Codeword {
                data: vec![BitRange {
                    start: bit((range.start + data) * 8)?,
                    end: bit((range.end + data) * 8)?,
                }],
                spare: spare_range.into_iter().collect(),
                parity: vec![BitRange {
                    start: bit(parity + spare * 8)?,
                    end: bit(end + spare * 8)?,
                }],
                ..Codeword::default()
            })
        };
        if count == 1 {
            return Some(vec![moved(0, 0)?]);
        }
        let strides = degree.div_ceil(8)..=self.oob;
        let pieces = |stride: usize| -> Pieces {
            if hit.is_interleaved {
                let start = hit.step + stride;
                one(start, start + hit.pieces[0].len())
            } else {
                vec![hit.step..2 * hit.step, last.start + stride..last.end + stride]
            }
        };
        let stride = strides.into_iter().find(|stride| {
            let mut pieces = pieces(*stride);
            // The bytes after a codeword may belong to the next one.
            if let Some(piece) = pieces.last_mut() {
                piece.end -= hit.slack / 8;
            }
            self.holds(&pieces, hit.slack % 8, &hit.generator)
        })?;
        let place = |index: usize| {
            let spare =
                if hit.is_interleaved { index * (hit.step + stride) } else { index * stride };
            let data = if hit.is_interleaved { spare } else { index * hit.step };
            moved(data, spare)
        };
        (0..count).map(place).collect()
    }

    /// Finds the constant that is added to the parity: that of naturally erased codewords, none, or
    /// any other.
    fn find_constant(&self, recipe: &mut Recipe) -> Option<()> {
        let region = recipe.regions[0].clone();
        let mut plain = region.clone();
        plain.erased = Erased::Count;
        let mut codec = PageCodec::new(recipe, &plain).ok()?;
        let mut votes: std::collections::BTreeMap<Vec<u8>, usize> =
            std::collections::BTreeMap::new();
        for page in self.pages {
            let (stored, computed) = codec.parities(page, 0);
            let constant = stored.iter().zip(&computed).map(|(left, right)| left ^ right).collect();
            *votes.entry(constant).or_default() += 1;
        }
        let (constant, count) = votes.into_iter().max_by_key(|(_, count)| *count)?;
        if count < 2 {
            return None;
        }
        let (stored, computed) = codec.parities(&vec![0xFF; self.page + self.oob], 0);
        let natural: Vec<u8> =
            stored.iter().zip(&computed).map(|(left, right)| left ^ right).collect();
        if constant == natural {
            return Some(());
        }
        recipe.regions[0].erased = Erased::Count;
        if constant.iter().any(|byte| *byte != 0) {
            recipe.regions[0].xor = Some(Mask(constant));
        }
        Some(())
    }
}

/// Returns a single piece.
fn one(start: usize, end: usize) -> Pieces {
    std::iter::once(start..end).collect()
}

/// Returns stretches of varying columns, as start and end.
fn runs(varying: &[bool]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (column, _) in varying.iter().enumerate().filter(|(_, varies)| **varies) {
        match runs.last_mut() {
            Some(run) if run.1 == column => run.1 = column + 1,
            _ => runs.push((column, column + 1)),
        }
    }
    runs
}

/// Returns the BCH code that has exactly this generator.
fn identify(generator: &Polynomial, message_bits: u32) -> Option<Code> {
    let degree = generator.degree();
    for field_degree in [13, 14, 15] {
        let strength = degree.div_ceil(field_degree as usize);
        let Ok(strength) = u16::try_from(strength) else { continue };
        if !degree.is_multiple_of(field_degree as usize) || strength > BchParameters::STRENGTH_MAX {
            continue;
        }
        for polynomial in primitive(field_degree) {
            let bits: Vec<bool> =
                (0..=field_degree).map(|bit| polynomial >> bit & 1 == 1).collect();
            // The minimal polynomial of the field's generator is the polynomial itself.
            if !generator.is_multiple_of(&Polynomial::from_bits(&bits)) {
                continue;
            }
            let parameters = BchParameters { field_degree, polynomial, strength, message_bits };
            let Ok(code) = Bch::with(parameters) else { continue };
            let own = Polynomial::from_bits(&code.generator());
            if own == *generator {
                return Some(Code::Bch { m: field_degree, t: strength, poly: polynomial });
            }
        }
    }
    None
}
