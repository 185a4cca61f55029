//! A raw dump: its recipe, its columns, and what decoding corrected.

mod layout;

use super::json;
use crate::documents::dump::{Report, magics};
use crate::error::Error;
use crate::target::{Place, Shape};
use eraseblock_base::Findings;
use eraseblock_census::{Format, Plan};
use eraseblock_mtd::{RawDump, ReadAt};
use eraseblock_nand_recipe::{
    Damaged, DecodeOptions, Decoded, Hints, Outcome, Recipe, decode, detect,
};
use layout::RecipeRow;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use tempfile::NamedTempFile;

/// Pages that the statistics of columns look at.
const SAMPLE: u64 = 512;

/// A raw dump.
#[derive(Debug)]
pub(super) struct Dump {
    document: Vec<u8>,
    /// Corrected bits of each block.
    pub(super) corrected: Vec<u64>,
    /// Numbers of bad blocks.
    pub(super) bad: Vec<u64>,
    decoded: Option<Arc<NamedTempFile>>,
}

#[derive(Serialize)]
struct Document<'a> {
    /// What `nand detect` prints.
    detection: Report<'a>,
    /// The recipe that is used, or the best one.
    recipe: RecipeRow<'a>,
    /// What `nand decode` prints, if the recipe is certain or was given.
    decoded: Option<DecodedRow<'a>>,
    /// Corrected bits, most in a codeword, and lost codewords, for each block.
    blocks: &'a [BlockRow],
    /// Statistics of the spare bytes.
    columns: Vec<ColumnRow>,
}

#[derive(Serialize)]
struct DecodedRow<'a> {
    recipe: &'a str,
    pages: u64,
    codewords: u64,
    erased: u64,
    corrected: u64,
    corrected_bits: u64,
    corrected_most: u32,
    leaked_bits: u64,
    uncorrectable: u64,
    unverified: u64,
    bad_blocks: &'a [u64],
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct BlockRow {
    corrected_bits: u64,
    corrected_most: u32,
    uncorrectable: u64,
}

/// A spare byte, over the pages that were looked at.
#[derive(Serialize)]
struct ColumnRow {
    /// Its place in the page, spare bytes after the data.
    column: u32,
    /// Share of pages in which it is 0xFF.
    erased: f64,
    /// Different values.
    values: usize,
}

impl Dump {
    /// Looks whether the file is a raw dump; decodes it if the recipe is certain or `given`. Fails if the
    /// file cannot be read, or if it cannot be decoded by the recipe that was given.
    pub(super) fn look(
        place: &Place,
        shape: &Shape,
        plan: &Plan,
        given: Option<&Recipe>,
    ) -> Result<Option<Self>, Error> {
        let is_plain = place.path.is_file() && place.at.is_none() && shape.format.is_none();
        if !is_plain {
            return Ok(None);
        }
        let file = File::open(&place.path)?;
        let is_known = |format: &Format| !matches!(format, Format::Bytes);
        let is_explained = plan.segments.iter().any(|segment| is_known(&segment.format));
        if given.is_none() && is_explained && !RawDump::could_be(&file)? {
            return Ok(None);
        }
        let detection = detect(&file, &Hints { magics: magics(), ..Hints::default() });
        let Ok(detection) = detection else { return Ok(None) };
        let best = detection.certain().or_else(|| detection.best().filter(|_| !is_explained));
        let Some(recipe) = given.or_else(|| best.map(|best| &best.recipe)) else {
            return Ok(None);
        };
        let mut rows = Vec::new();
        let is_certain = given.is_some() || detection.certain().is_some();
        let done = if is_certain { Some(decoded(&file, recipe, &mut rows)?) } else { None };
        let columns = columns(&file, recipe)?;
        let document = json(&Document {
            detection: Report::of(&detection),
            recipe: RecipeRow::of(recipe),
            decoded: done.as_ref().map(|(_, done)| DecodedRow::of(recipe, done)),
            blocks: &rows,
            columns,
        })?;
        let corrected = rows.iter().map(|row| row.corrected_bits).collect();
        let bad = done.as_ref().map(|(_, done)| done.bad_blocks.clone()).unwrap_or_default();
        let decoded = done.map(|(file, _)| Arc::new(file));
        Ok(Some(Self { document, corrected, bad, decoded }))
    }

    /// Returns the file with the decoded image.
    pub(super) fn decoded(&self) -> Option<Arc<NamedTempFile>> {
        self.decoded.clone()
    }

    pub(super) fn document(&self) -> Vec<u8> {
        self.document.clone()
    }
}

/// Decodes a dump into a file that goes with this program.
fn decoded(
    dump: &File,
    recipe: &Recipe,
    rows: &mut Vec<BlockRow>,
) -> Result<(NamedTempFile, Decoded), Error> {
    let mut file = NamedTempFile::new()?;
    let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
    let mut findings = Findings::new();
    let options = DecodeOptions { damaged: Damaged::Zeros };
    let done = decode(dump, recipe, options, &mut out, &mut findings, &mut |place, outcome| {
        let number = usize::try_from(place.block).unwrap_or(usize::MAX);
        if rows.len() <= number {
            rows.resize(number + 1, BlockRow::default());
        }
        let row = &mut rows[number];
        match outcome {
            Outcome::Corrected(bits) => {
                row.corrected_bits += u64::from(bits);
                row.corrected_most = row.corrected_most.max(bits);
            }
            Outcome::Uncorrectable => row.uncorrectable += 1,
            _ => {}
        }
        Ok(())
    })
    .map_err(|error| Error::of(&error))?;
    out.flush()?;
    drop(out);
    Ok((file, done))
}

/// Returns the statistics of each spare byte over written pages spread over the dump.
fn columns(dump: &File, recipe: &Recipe) -> Result<Vec<ColumnRow>, Error> {
    let (page, oob) = (u64::from(recipe.chip.page), u64::from(recipe.chip.oob));
    let pages = dump.size()? / (page + oob).max(1);
    let step = (pages / SAMPLE).max(1);
    let mut seen = vec![[0_u32; 256]; usize::try_from(oob).unwrap_or(0)];
    let mut raw = vec![0; usize::try_from(page + oob).unwrap_or(0)];
    let mut sampled = 0_u32;
    for number in (0..pages).step_by(usize::try_from(step).unwrap_or(1)) {
        dump.read_exact_at(&mut raw, number * (page + oob))?;
        if raw.iter().all(|byte| *byte == 0xFF) {
            continue;
        }
        sampled += 1;
        let spare = &raw[usize::try_from(page).unwrap_or(0)..];
        for (counts, byte) in seen.iter_mut().zip(spare) {
            counts[usize::from(*byte)] += 1;
        }
    }
    let row = |(number, counts): (usize, &[u32; 256])| ColumnRow {
        column: recipe.chip.page + u32::try_from(number).unwrap_or(0),
        erased: f64::from(counts[255]) / f64::from(sampled.max(1)),
        values: counts.iter().filter(|count| **count > 0).count(),
    };
    Ok(seen.iter().enumerate().map(row).collect())
}

impl<'a> DecodedRow<'a> {
    fn of(recipe: &'a Recipe, done: &'a Decoded) -> Self {
        Self {
            recipe: recipe.name(),
            pages: done.pages,
            codewords: done.codewords,
            erased: done.erased,
            corrected: done.corrected,
            corrected_bits: done.corrected_bits,
            corrected_most: done.corrected_most,
            leaked_bits: done.leaked_bits,
            uncorrectable: done.uncorrectable,
            unverified: done.unverified,
            bad_blocks: &done.bad_blocks,
        }
    }
}
