//! Whole images and dumps, page by page: memory does not grow with their size.

use crate::engine::{Damaged, Outcome, PageCodec};
use crate::error::RecipeError;
use crate::recipe::Recipe;
use eraseblock_base::{Findings, Location};
use eraseblock_mtd::ReadAt;
use std::io::{self, Write};

/// Bytes read at once, at least a page.
const BATCH: usize = 1 << 20;

/// A codeword of a dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The block, from 0.
    pub block: u64,
    /// The page in the block, from 0.
    pub page: u32,
    /// The codeword in the page, from 0.
    pub codeword: usize,
}

/// How to decode.
#[derive(Clone, Copy, Debug)]
pub struct DecodeOptions {
    /// Treatment of data that cannot be corrected.
    pub damaged: Damaged,
}

/// What was decoded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decoded {
    /// Pages in the dump.
    pub pages: u64,
    /// Codewords outside of bad blocks.
    pub codewords: u64,
    /// Erased codewords.
    pub erased: u64,
    /// Codewords with corrected bits.
    pub corrected: u64,
    /// Corrected bits in all of them.
    pub corrected_bits: u64,
    /// The largest number of corrected bits in a codeword.
    pub corrected_most: u32,
    /// Zeros in erased codewords.
    pub leaked_bits: u64,
    /// Codewords that could not be corrected.
    pub uncorrectable: u64,
    /// Codewords without a code.
    pub unverified: u64,
    /// Bits outside of bad blocks about which the dumps disagree, spare bytes included.
    pub differing_bits: u64,
    /// Blocks with a bad-block marker, which are delivered as erased.
    pub bad_blocks: Vec<u64>,
}

impl Decoded {
    fn count(&mut self, outcome: Outcome) {
        self.codewords += 1;
        match outcome {
            Outcome::Clean => {}
            Outcome::Corrected(bits) => {
                self.corrected += 1;
                self.corrected_bits += u64::from(bits);
                self.corrected_most = self.corrected_most.max(bits);
            }
            Outcome::Erased(bits) => {
                self.erased += 1;
                self.leaked_bits += u64::from(bits);
            }
            Outcome::Uncorrectable => self.uncorrectable += 1,
            Outcome::Unverified => self.unverified += 1,
        }
    }
}

/// What was encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Encoded {
    /// Pages that were written.
    pub pages: u64,
    /// Those that stay erased.
    pub erased: u64,
}

fn codecs(recipe: &Recipe) -> Result<Vec<PageCodec>, RecipeError> {
    recipe.check()?;
    recipe.regions.iter().map(|region| PageCodec::new(recipe, region)).collect()
}

fn pages_of(size: u64, unit: usize, what: &'static str) -> Result<u64, RecipeError> {
    let unit = unit as u64;
    if size.is_multiple_of(unit) {
        Ok(size / unit)
    } else {
        Err(RecipeError::Size { size, unit, what })
    }
}

/// Decodes a dump as [`decode_reads`] does.
///
/// # Errors
///
/// Fails as that does.
pub fn decode(
    dump: &dyn ReadAt,
    recipe: &Recipe,
    options: DecodeOptions,
    out: &mut dyn Write,
    findings: &mut Findings,
    each: &mut dyn FnMut(Place, Outcome) -> io::Result<()>,
) -> Result<Decoded, RecipeError> {
    decode_reads(&[dump], recipe, options, out, findings, each)
}

/// Decodes one or more dumps of a chip. For each codeword the first dump counts in which it can be corrected; if
/// it can in none, that of which each bit is what most dumps say. Data of codewords that cannot be corrected is zeros or, if asked for, as read;
/// each of them is a finding. Blocks with a bad-block marker are delivered as erased, so that all
/// others keep their place. `each` is called for every codeword.
///
/// # Errors
///
/// Fails if the recipe is no recipe, if the dump is not made of its pages, or if reading or writing
/// fails, or if the dumps have different sizes.
pub fn decode_reads(
    dumps: &[&dyn ReadAt],
    recipe: &Recipe,
    options: DecodeOptions,
    out: &mut dyn Write,
    findings: &mut Findings,
    each: &mut dyn FnMut(Place, Outcome) -> io::Result<()>,
) -> Result<Decoded, RecipeError> {
    let Some((&dump, others)) = dumps.split_first() else { return Ok(Decoded::default()) };
    let mut codecs = codecs(recipe)?;
    let raw_page = recipe.raw_page();
    let pages = pages_of(dump.size()?, raw_page, "a page with its spare bytes")?;
    for other in others {
        let (size, expected) = (other.size()?, dump.size()?);
        if size != expected {
            return Err(RecipeError::Sizes { size, expected });
        }
    }
    let per_block = u64::from(recipe.chip.pages_per_block);
    let per_batch = (BATCH / raw_page).max(1) as u64;
    let mut decoded = Decoded { pages, ..Decoded::default() };
    let mut data = vec![0; recipe.chip.page as usize];
    let mut batch = vec![0; raw_page * usize::try_from(per_batch.min(pages)).unwrap_or(0)];
    let mut copies = vec![vec![0; raw_page]; others.len()];
    for block in 0..pages.div_ceil(per_block) {
        let (first, end) = (block * per_block, (block * per_block + per_block).min(pages));
        if is_bad_in_most(dumps, recipe, first, end)? {
            note_bad(&mut decoded, block, first * raw_page as u64, findings);
            data.fill(0xFF);
            (first..end).try_for_each(|_| out.write_all(&data))?;
            continue;
        }
        let codec = &mut codecs[recipe.region_of(block)];
        let mut page = first;
        while page < end {
            let count = per_batch.min(end - page);
            let bytes = &mut batch[..usize::try_from(count).unwrap_or(0) * raw_page];
            dump.read_exact_at(bytes, page * raw_page as u64)?;
            for raw in bytes.chunks_exact_mut(raw_page) {
                let at = page * raw_page as u64;
                for (copy, other) in copies.iter_mut().zip(others) {
                    other.read_exact_at(copy, at)?;
                }
                decoded.differing_bits += differing(raw, &copies);
                let (mut failed, damaged) = (Ok(()), options.damaged);
                codec.decode_copies(
                    page,
                    raw,
                    &mut copies,
                    &mut data,
                    damaged,
                    |codeword, outcome| {
                        decoded.count(outcome);
                        let page = u32::try_from(page - first).unwrap_or(u32::MAX);
                        let place = Place { block, page, codeword };
                        if outcome == Outcome::Uncorrectable {
                            note_lost(place, at, options.damaged, findings);
                        }
                        if failed.is_ok() {
                            failed = each(place, outcome);
                        }
                    },
                );
                failed?;
                out.write_all(&data)?;
                page += 1;
            }
        }
    }
    Ok(decoded)
}

fn note_bad(decoded: &mut Decoded, block: u64, at: u64, findings: &mut Findings) {
    decoded.bad_blocks.push(block);
    let message = format!("block {block} has a bad-block marker: delivered as erased");
    findings.note(Location::Byte(at), "bad-block", message);
}

fn note_lost(place: Place, at: u64, damaged: Damaged, findings: &mut Findings) {
    let Place { block, page, codeword } = place;
    let what = match damaged {
        Damaged::Zeros => "zeros",
        Damaged::AsRead => "its bytes as read",
    };
    let message = format!(
        "block {block}, page {page}, codeword {codeword}: more bits are wrong than the code corrects; {what} delivered"
    );
    findings.error(Location::Byte(at), "codeword-uncorrectable", message);
}

/// Returns the number of bits about which not all reads of a page say the same.
fn differing(first: &[u8], others: &[Vec<u8>]) -> u64 {
    let Some((last, rest)) = others.split_last() else { return 0 };
    if rest.is_empty() && first == &last[..] {
        return 0;
    }
    let differs = |(at, byte): (usize, &u8)| {
        others.iter().fold(0, |bits, other| bits | (byte ^ other[at])).count_ones()
    };
    first.iter().enumerate().map(differs).map(u64::from).sum()
}

/// Returns whether most dumps have a bad-block marker there; the first one decides between as many.
fn is_bad_in_most(
    dumps: &[&dyn ReadAt],
    recipe: &Recipe,
    first: u64,
    end: u64,
) -> io::Result<bool> {
    let mut marks = Vec::new();
    for dump in dumps {
        marks.push(is_bad(*dump, recipe, first, end)?);
    }
    let bad = marks.iter().filter(|is_bad| **is_bad).count();
    let is_first = marks.first().is_some_and(|is_bad| *is_bad);
    Ok(2 * bad + usize::from(is_first) > dumps.len())
}

/// Returns whether the block of pages `first..end` has a bad-block marker.
pub(crate) fn is_bad(dump: &dyn ReadAt, recipe: &Recipe, first: u64, end: u64) -> io::Result<bool> {
    let Some(marker) = recipe.chip.bad else { return Ok(false) };
    let count = recipe.chip.pages_per_block;
    for number in marker.pages.numbers(count) {
        let page = first + u64::from(number);
        if page >= end {
            continue;
        }
        let mut byte = [0xFF];
        dump.read_exact_at(&mut byte, page * recipe.raw_page() as u64 + u64::from(marker.byte))?;
        if byte[0].count_ones() < 5 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Encodes an image. Pages without zeros stay erased; an incomplete last page is filled with 0xFF.
///
/// # Errors
///
/// Fails if the recipe is no recipe, if a seed of its scrambler is unknown, or if reading or writing
/// fails.
pub fn encode(
    image: &dyn ReadAt,
    recipe: &Recipe,
    out: &mut dyn Write,
) -> Result<Encoded, RecipeError> {
    let mut codecs = codecs(recipe)?;
    let size = image.size()?;
    let page_size = recipe.chip.page as usize;
    let mut data = vec![0xFF; page_size];
    let mut raw = vec![0xFF; recipe.raw_page()];
    let mut encoded = Encoded::default();
    for page in 0..size.div_ceil(page_size as u64) {
        let at = page * page_size as u64;
        let count = usize::try_from(size - at).unwrap_or(page_size).min(page_size);
        image.read_exact_at(&mut data[..count], at)?;
        data[count..].fill(0xFF);
        let block = page / u64::from(recipe.chip.pages_per_block);
        let codec = &mut codecs[recipe.region_of(block)];
        codec.encode(page, &data, &mut raw).map_err(|page| {
            RecipeError::recipe(recipe.name(), format!("page {page} has no seed of the scrambler"))
        })?;
        encoded.pages += 1;
        encoded.erased += u64::from(raw.iter().all(|byte| *byte == 0xFF));
        out.write_all(&raw)?;
    }
    Ok(encoded)
}
