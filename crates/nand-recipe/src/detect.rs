//! Detection of the recipe of a dump, in steps from the cheapest to the dearest (spec:
//! nand-recipe 5): self-description, shape, built-in table, scrambler, blind search.
//!
//! # Invariants
//! 1. Only zero syndromes are evidence for a code; that something decodes is not.
//! 2. A shape without a code is never certain.

use crate::blind;
use crate::describe;
use crate::error::RecipeError;
use crate::evidence::{Confidence, Tally};
use crate::recipe::{Blocks, Recipe};
use crate::sample::{Page, Sample};
use crate::scrambler::Scrambler;
use crate::search::{among, judge, sort};
use crate::{scrambler, table};
use eraseblock_mtd::ReadAt;
use std::collections::BTreeSet;

pub use crate::search::Candidate;

/// What a caller knows of a dump.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// The first bytes of blocks of formats that may be stored.
    pub magics: Vec<Vec<u8>>,
    /// Page and spare bytes, if the part is known.
    pub shape: Option<(u32, u32)>,
    /// Pages in a block, if the part is known.
    pub pages_per_block: Option<u32>,
    /// Search for unknown codes and scramblers if the table has none.
    pub deep: bool,
}

/// A page size with its spare bytes, and what speaks for it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// Bytes of data in a page.
    pub page: u32,
    /// Spare bytes.
    pub oob: u32,
    /// Pages that begin with one of the magics.
    pub magics: u64,
    /// The share of spare bytes that are the same in nearly all written pages.
    pub constant: f64,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Detection {
    /// What the dump says about itself, as text.
    pub clues: Vec<String>,
    /// Shapes that fit, the best first.
    pub shapes: Vec<Shape>,
    /// Recipes, the best first.
    pub candidates: Vec<Candidate>,
    /// Written pages that were seen, of the shape of the best recipe, or of the best shape.
    pub written: u64,
}

impl Detection {
    /// Returns the best recipe.
    pub fn best(&self) -> Option<&Candidate> {
        self.candidates.first()
    }

    /// Returns the recipe if it is certain and no other one explains as much.
    pub fn certain(&self) -> Option<&Candidate> {
        let best = self.best().filter(|best| best.confidence() == Confidence::Certain)?;
        self.equals().next().is_none().then_some(best)
    }

    /// Returns other recipes that explain as much as the best one.
    pub fn equals(&self) -> impl Iterator<Item = &Candidate> {
        let best = self.best();
        self.candidates.iter().skip(1).filter(move |other| {
            best.is_some_and(|best| {
                best.confidence() == other.confidence() && best.tally.zero == other.tally.zero
            })
        })
    }

    /// Returns the confidence in the best recipe.
    pub fn confidence(&self) -> Confidence {
        self.best().map_or(Confidence::None, Candidate::confidence)
    }
}

/// Finds the recipe of a dump.
///
/// # Errors
///
/// Fails if the dump cannot be read.
pub fn detect(dump: &dyn ReadAt, hints: &Hints) -> Result<Detection, RecipeError> {
    let mut detection = Detection::default();
    let size = dump.size()?;
    let described = describe::read(dump)?;
    detection.clues = described.clues;
    let shapes = shapes(size, hints, &described.recipes);
    let recipes: Vec<Recipe> = described
        .recipes
        .into_iter()
        .chain(table::families().flat_map(table::Family::recipes))
        .collect();
    let hypotheses = recipes.len() as u64;
    let mut samples = Vec::new();
    for (page, oob) in shapes {
        let sample = Sample::take(dump, (page + oob) as usize)?;
        let fits = |recipe: &&Recipe| recipe.chip.page == page && recipe.chip.oob == oob;
        let own: Vec<Recipe> = recipes.iter().filter(fits).cloned().collect();
        let mut found = among(dump, own.clone(), &sample.spread, hypotheses)?;
        if found.is_empty() {
            found = among(dump, own, &sample.first, hypotheses)?;
        }
        detection.candidates.extend(found);
        detection.shapes.push(describe_shape(page, oob, &sample, hints));
        samples.push((page, oob, sample));
    }
    detection.shapes.sort_by(|left, right| {
        let key = |shape: &Shape| (shape.magics, shape.constant);
        key(right).partial_cmp(&key(left)).unwrap_or(std::cmp::Ordering::Equal)
    });
    sort(&mut detection.candidates);
    if hints.deep && detection.confidence() < Confidence::Likely {
        search_deep(dump, &mut detection, &recipes, &samples)?;
    }
    let of_recipe = |best: &Candidate| (best.recipe.chip.page, best.recipe.chip.oob);
    let of_shape = |shape: &Shape| (shape.page, shape.oob);
    let shape = detection.best().map(of_recipe).or(detection.shapes.first().map(of_shape));
    let sample = samples.iter().find(|(page, oob, _)| Some((*page, *oob)) == shape);
    if let Some((_, _, sample)) = sample {
        detection.written = sample.written.len() as u64;
        if detection.best().is_some() {
            refine(dump, &mut detection, sample, hints, &recipes)?;
        }
    }
    Ok(detection)
}

/// Returns shapes whose pages make up the whole dump, the usual ones first.
fn shapes(size: u64, hints: &Hints, described: &[Recipe]) -> Vec<(u32, u32)> {
    if let Some(shape) = hints.shape {
        return vec![shape];
    }
    let usual = table::families().flat_map(table::Family::recipes);
    let all = described.iter().cloned().chain(usual);
    let mut seen = BTreeSet::new();
    let mut shapes = Vec::new();
    for recipe in all {
        let shape = (recipe.chip.page, recipe.chip.oob);
        let raw = u64::from(shape.0 + shape.1);
        if size > 0 && size.is_multiple_of(raw) && seen.insert(shape) {
            shapes.push(shape);
        }
    }
    shapes
}

/// Returns what speaks for a shape: magics at the start of pages, and constant spare bytes.
fn describe_shape(page: u32, oob: u32, sample: &Sample, hints: &Hints) -> Shape {
    let begins = |raw: &[u8]| hints.magics.iter().any(|magic| raw.starts_with(magic));
    let pages = sample.spread.iter().chain(&sample.first);
    let magics = pages.filter(|page| begins(&page.raw)).count() as u64;
    let mut constant = 0_u32;
    for column in page..page + oob {
        let mut counts = [0_usize; 256];
        for page in &sample.spread {
            counts[usize::from(page.raw[column as usize])] += 1;
        }
        let most = counts.iter().max().copied().unwrap_or(0);
        constant += u32::from(most * 50 >= sample.spread.len() * 49 && most > 1);
    }
    Shape { page, oob, magics, constant: f64::from(constant) / f64::from(oob.max(1)) }
}

/// Searches for scramblers, and then for unknown codes. Pages of half the size explain half of the
/// codewords, so that only a certain recipe ends the search.
fn search_deep(
    dump: &dyn ReadAt,
    detection: &mut Detection,
    recipes: &[Recipe],
    samples: &[(u32, u32, Sample)],
) -> Result<(), RecipeError> {
    for (page, oob, sample) in samples {
        let pages: Vec<Page> = sample.first.iter().chain(&sample.spread).cloned().collect();
        let scrambler = scrambler::search::find(&pages);
        if let Some(found) = &scrambler {
            detection.clues.push(found.to_string());
        }
        let scrambler = scrambler.map(|found| found.scrambler(page + oob));
        let hypotheses = recipes.len() as u64;
        if let Some(scrambler) = &scrambler {
            let fits = |recipe: &&Recipe| recipe.chip.page == *page && recipe.chip.oob == *oob;
            let own = recipes.iter().filter(fits).map(|recipe| scrambled(recipe, scrambler));
            let found = among(dump, own.collect(), &sample.spread, hypotheses)?;
            detection.candidates.extend(found);
            sort(&mut detection.candidates);
            if detection.confidence() == Confidence::Certain {
                return Ok(());
            }
        }
        let found = blind::search(*page, *oob, &sample.spread, scrambler.as_ref());
        let tried = hypotheses + found.hypotheses;
        detection.candidates.extend(among(dump, found.recipes, &sample.spread, tried)?);
        sort(&mut detection.candidates);
        if detection.confidence() == Confidence::Certain {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns a recipe whose pages are scrambled. Its marker is scrambled, too, and marks nothing.
fn scrambled(recipe: &Recipe, scrambler: &Scrambler) -> Recipe {
    let mut recipe = recipe.clone();
    recipe.chip.name += ":scrambled";
    recipe.chip.bad = None;
    for region in &mut recipe.regions {
        region.scrambler = Some(scrambler.clone());
    }
    recipe
}

/// Finds the number of pages in a block, and the recipe of boot blocks.
fn refine(
    dump: &dyn ReadAt,
    detection: &mut Detection,
    sample: &Sample,
    hints: &Hints,
    recipes: &[Recipe],
) -> Result<(), RecipeError> {
    let per_block = match hints.pages_per_block {
        Some(pages) => Some(pages),
        None => pages_between_magics(dump, &detection.candidates[0].recipe, sample, hints)?,
    };
    let best = &mut detection.candidates[0];
    if let Some(pages) = per_block {
        best.recipe.chip.pages_per_block = pages;
    }
    if let Some(recipe) = boot_region(dump, &best.recipe, sample, recipes)? {
        best.recipe = recipe;
    }
    let hypotheses = best.tally.hypotheses;
    let tally = judge(dump, &best.recipe, &sample.spread, hypotheses)?;
    // Few pages may be written outside of the boot blocks.
    if tally.confidence() >= best.tally.confidence() {
        best.tally = tally;
    }
    Ok(())
}

/// Returns the greatest power of two that divides all numbers of pages that begin with a magic.
fn pages_between_magics(
    dump: &dyn ReadAt,
    recipe: &Recipe,
    sample: &Sample,
    hints: &Hints,
) -> Result<Option<u32>, RecipeError> {
    let raw_page = recipe.raw_page();
    let longest = hints.magics.iter().map(Vec::len).max().unwrap_or(0);
    let region = recipe.regions.last();
    let start = region.and_then(|region| region.codewords.first()?.data.first().copied());
    let Some(start) = start.filter(|start| start.start.is_multiple_of(8)) else { return Ok(None) };
    let scrambler = region.and_then(|region| region.scrambler.as_ref());
    let (mut bits, mut hits) = (0, 0);
    for number in sample.written.iter().take(1 << 16) {
        let mut raw = vec![0; (start.start as usize / 8 + longest).min(raw_page)];
        dump.read_exact_at(&mut raw, number * raw_page as u64)?;
        if let Some(scrambler) = scrambler {
            raw.resize(raw_page, 0);
            scrambler.apply(*number, &mut raw);
        }
        let head = &raw[start.start as usize / 8..];
        if hints.magics.iter().any(|magic| head.starts_with(magic)) {
            bits |= number;
            hits += 1;
        }
    }
    let pages = 1_u64 << bits.trailing_zeros().min(63);
    let is_usual = hits >= 3 && (16..=1024).contains(&pages);
    Ok(is_usual.then(|| u32::try_from(pages).unwrap_or(64)))
}

/// Returns the recipe with a region for boot blocks, if the first written pages follow another one.
fn boot_region(
    dump: &dyn ReadAt,
    main: &Recipe,
    sample: &Sample,
    recipes: &[Recipe],
) -> Result<Option<Recipe>, RecipeError> {
    let explains = |recipe: &Recipe, page: &Page| -> Result<bool, RecipeError> {
        let tally = judge(dump, recipe, std::slice::from_ref(page), 1)?;
        Ok(tally.attempted == 0 || tally.explained * 2 > tally.attempted)
    };
    let mut foreign = Vec::new();
    let mut own = None;
    for page in &sample.first {
        if explains(main, page)? {
            own = Some(page.number);
            break;
        }
        foreign.push(page.clone());
    }
    if foreign.len() < 4 {
        return Ok(None);
    }
    // The first pages alone may all be boot pages.
    let own = match own {
        Some(own) => own,
        None => match first_explained(&sample.spread, |page| explains(main, page))? {
            Some(own) => own,
            None => return Ok(None),
        },
    };
    let block = own / u64::from(main.chip.pages_per_block);
    let shape = (main.chip.page, main.chip.oob);
    let fits = |recipe: &&Recipe| {
        (recipe.chip.page, recipe.chip.oob) == shape && recipe.name() != main.name()
    };
    let others = recipes.iter().filter(fits).cloned().collect();
    let found = among(dump, others, &foreign, recipes.len() as u64)?;
    let Some(boot) = found.first().filter(|boot| boot.confidence() >= Confidence::Likely) else {
        return Ok(None);
    };
    if block == 0 {
        return Ok(None);
    }
    let mut recipe = main.clone();
    let mut region = boot.recipe.regions[0].clone();
    region.blocks = Blocks { start: 0, end: Some(block) };
    recipe.regions[0].blocks = Blocks { start: block, end: None };
    recipe.regions.insert(0, region);
    recipe.chip.name = format!("{} after {block} blocks of {}", main.name(), boot.recipe.name());
    Ok(Some(recipe))
}

fn first_explained(
    pages: &[Page],
    explains: impl Fn(&Page) -> Result<bool, RecipeError>,
) -> Result<Option<u64>, RecipeError> {
    for page in pages {
        if explains(page)? {
            return Ok(Some(page.number));
        }
    }
    Ok(None)
}

/// Judges one recipe by a whole dump.
///
/// # Errors
///
/// Fails if the dump cannot be read, or if the recipe is no recipe.
pub fn judge_recipe(dump: &dyn ReadAt, recipe: &Recipe) -> Result<Tally, RecipeError> {
    recipe.check()?;
    let sample = Sample::take(dump, recipe.raw_page())?;
    judge(dump, recipe, &sample.spread, 1)
}
