//! Compresses one page according to the options (spec: jffs2 9.2).

use super::error::MkfsError;
use super::options::{Compression, CompressionMode, Compressor};
use eraseblock_codec::{Codec, CodecError, CompressSpec, rtime, zlib};
use eraseblock_jffs2_format::constants::compression;

/// The compressors of one thread, with their tables.
pub(super) struct Engines {
    /// The enabled compressors, by descending priority.
    order: Vec<Compressor>,
    mode: CompressionMode,
    /// The usual one, and one for pages of few different bytes.
    zlib: Option<(zlib::Encoder, zlib::Encoder)>,
    lzo: Option<eraseblock_codec::Compressor>,
    best: Vec<u8>,
    other: Vec<u8>,
}

fn failed(compressor: Compressor, error: &CodecError) -> MkfsError {
    MkfsError::Compressor { compressor: compressor.name(), message: error.to_string() }
}

impl Engines {
    pub(super) fn new(rules: &Compression) -> Result<Self, MkfsError> {
        let mut rows = rules.compressors.clone();
        rows.sort_by_key(|(one, priority)| {
            let usual = Compressor::ALL.iter().position(|other| other == one);
            (std::cmp::Reverse(*priority), usual)
        });
        let mut order: Vec<Compressor> = rows.into_iter().map(|row| row.0).collect();
        order.dedup();
        if rules.mode == CompressionMode::None {
            order.clear();
        }
        let wants = |one| order.contains(&one);
        let level = rules.zlib_level;
        let zlib = wants(Compressor::Zlib).then(|| {
            Ok((zlib::Encoder::new(level)?, zlib::Encoder::new(level.max(FEW_SYMBOLS_LEVEL))?))
        });
        let spec = CompressSpec { codec: Codec::Lzo, level: LZO_LEVEL };
        let lzo = wants(Compressor::Lzo).then(|| eraseblock_codec::Compressor::new(spec));
        Ok(Self {
            zlib: zlib.transpose().map_err(|error: CodecError| failed(Compressor::Zlib, &error))?,
            lzo: lzo.transpose().map_err(|error| failed(Compressor::Lzo, &error))?,
            order,
            mode: rules.mode,
            best: Vec::new(),
            other: Vec::new(),
        })
    }

    /// Returns the number of the compressor and its output of at most `limit` bytes, which takes
    /// less flash than `page`; `None` if no compressor achieves this.
    pub(super) fn compress(
        &mut self,
        page: &[u8],
        limit: usize,
    ) -> Result<Option<(u8, &[u8])>, MkfsError> {
        let limit = limit.min(page.len().next_multiple_of(4).saturating_sub(4));
        let mut found: Option<Compressor> = None;
        for index in 0..self.order.len() {
            let one = self.order[index];
            if !self.run(one, page, limit)? {
                continue;
            }
            if found.is_none_or(|best| self.is_better(one, best)) {
                std::mem::swap(&mut self.best, &mut self.other);
                found = Some(one);
            }
            if self.mode == CompressionMode::Priority {
                break;
            }
        }
        Ok(found.map(|one| (one.number(), &self.best[..])))
    }

    /// Runs a compressor into `other`; false when the result is too long.
    fn run(&mut self, one: Compressor, page: &[u8], limit: usize) -> Result<bool, MkfsError> {
        match one {
            Compressor::Zlib => {
                let Some((usual, dense)) = &mut self.zlib else { return Ok(false) };
                let zlib = if has_few_symbols(page) { dense } else { usual };
                return Ok(limit > 0 && zlib.compress(page, limit, &mut self.other));
            }
            Compressor::Lzo => {
                let Some(lzo) = &mut self.lzo else { return Ok(false) };
                lzo.compress(page, &mut self.other).map_err(|error| failed(one, &error))?;
            }
            Compressor::Rtime => rtime::compress(page, &mut self.other),
        }
        Ok(self.other.len() <= limit)
    }

    /// Returns whether the output of `one` in `other` is preferred to that of `best`.
    fn is_better(&self, one: Compressor, best: Compressor) -> bool {
        let (size, kept) = (self.other.len(), self.best.len());
        if self.mode != CompressionMode::FavourLzo {
            return size < kept;
        }
        let (is_lzo, was_lzo) = (one == Compressor::Lzo, best == Compressor::Lzo);
        ((is_lzo || !was_lzo) && kept > size)
            || (is_lzo && kept > size * 80 / 100)
            || kept * 80 / 100 > size
    }
}

/// LZO is requested for images no larger than those of the classic tool.
const LZO_LEVEL: i32 = 9;
/// The usual levels overlook short matches in pages of few different bytes, such as columns of
/// numbers: this one does not.
const FEW_SYMBOLS_LEVEL: u8 = 10;
/// Different bytes that are few.
const FEW_SYMBOLS: usize = 24;

fn has_few_symbols(page: &[u8]) -> bool {
    let mut seen = [false; 256];
    for byte in page {
        seen[usize::from(*byte)] = true;
    }
    seen.iter().filter(|seen| **seen).count() <= FEW_SYMBOLS
}

/// Maximum number of attempts to cut.
const TRIES: u32 = 4;

/// Returns the largest start of `page` that can be found quickly and fits into `limit` bytes: its
/// length, its compressor, the stored bytes. `whole` is the compressed length of the page, if it
/// can be compressed.
pub(super) fn cut(
    engines: &mut Engines,
    page: &[u8],
    whole: Option<usize>,
    limit: usize,
) -> Result<(usize, u8, Vec<u8>), MkfsError> {
    let plain = limit.min(page.len()) & !3;
    let mut best = (plain, compression::NONE, page[..plain].to_vec());
    let Some(whole) = whole else { return Ok(best) };
    let (mut low, mut high) = (plain, page.len());
    // A start of a page compresses a little worse than the page.
    let mut guess = page.len() * limit / whole.max(1) * 15 / 16;
    for _ in 0..TRIES {
        guess = guess.min(high.saturating_sub(4)) & !3;
        if guess <= low {
            break;
        }
        if let Some((number, stored)) = engines.compress(&page[..guess], limit)? {
            low = guess;
            best = (guess, number, stored.to_vec());
            if limit - best.2.len() < limit / 16 {
                break;
            }
            guess = guess * limit / best.2.len().max(1) * 63 / 64;
        } else {
            high = guess;
            guess = guess * 15 / 16;
        }
    }
    Ok(best)
}
