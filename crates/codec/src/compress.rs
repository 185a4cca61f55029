//! Compression with any codec and level, with reusable tables.

use crate::deflate::Deflate;
use crate::lzo::{Dense, Fast};
use crate::{Codec, CodecError, MAX_BLOCK};
use std::fmt;
use zstd_safe::{CCtx, CParameter};

/// The lowest level of the dense LZO1X encoder; lower ones use the fast encoder.
const LZO_DENSE: i32 = 5;

/// The lowest level at which the dense LZO1X encoder searches deeply.
const LZO_DEEP: i32 = 8;

/// A codec and its effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompressSpec {
    /// The algorithm.
    pub codec: Codec,
    /// LZO: 1 to 4 the fast encoder, 5 to 7 the dense one, 8 and 9 the dense one with a deep
    /// search. zlib: 1 to 3 greedy, 4 to 9 lazy with an increasingly deep search. zstd: 1 to 22.
    /// None: 0.
    pub level: i32,
}

impl CompressSpec {
    /// Returns the setting for images, which are built once: LZO dense, zlib 6, zstd 3.
    pub const fn image(codec: Codec) -> Self {
        let level = match codec {
            Codec::None => 0,
            Codec::Lzo => 7,
            Codec::Zlib => 6,
            Codec::Zstd => 3,
        };
        Self { codec, level }
    }

    /// Returns the setting for file systems in use: as for images, but LZO fast.
    pub const fn runtime(codec: Codec) -> Self {
        match codec {
            Codec::Lzo => Self { codec, level: 1 },
            _ => Self::image(codec),
        }
    }

    fn check(self) -> Result<(), CodecError> {
        let (lowest, highest) = match self.codec {
            Codec::None => (0, 0),
            Codec::Lzo | Codec::Zlib => (1, 9),
            Codec::Zstd => (1, 22),
        };
        if (lowest..=highest).contains(&self.level) {
            return Ok(());
        }
        Err(CodecError::Level { found: self.level, lowest, highest })
    }
}

/// A compressor with its tables; one per thread.
///
/// # Invariants
/// 1. The output depends only on the block and the specification, not on earlier blocks.
pub struct Compressor {
    spec: CompressSpec,
    engine: Engine,
}

enum Engine {
    Store,
    LzoFast(Box<Fast>),
    LzoDense(Box<Dense<false>>),
    LzoDeep(Box<Dense<true>>),
    Deflate(Box<Deflate>),
    Zstd(CCtx<'static>),
}

impl Compressor {
    /// Creates a compressor with its tables.
    ///
    /// # Errors
    ///
    /// Fails if the codec has no such level.
    pub fn new(spec: CompressSpec) -> Result<Self, CodecError> {
        spec.check()?;
        let engine = match spec.codec {
            Codec::None => Engine::Store,
            Codec::Lzo if spec.level < LZO_DENSE => Engine::LzoFast(Box::new(Fast::new())),
            Codec::Lzo if spec.level < LZO_DEEP => Engine::LzoDense(Box::new(Dense::new())),
            Codec::Lzo => Engine::LzoDeep(Box::new(Dense::new())),
            Codec::Zlib => Engine::Deflate(Box::new(Deflate::new(spec.level.unsigned_abs()))),
            Codec::Zstd => Engine::Zstd(zstd_context(spec.level)?),
        };
        Ok(Self { spec, engine })
    }

    /// Returns the specification of the compressor.
    pub fn spec(&self) -> CompressSpec {
        self.spec
    }

    /// Replaces the content of `out` with the compressed form of `block`, which has at most
    /// [`MAX_BLOCK`] bytes.
    ///
    /// Incompressible data grows: if `out` is not shorter than `block`, the caller stores the block
    /// uncompressed (spec: ubifs-format 7.1). Nothing is allocated once `out` is large enough.
    ///
    /// # Errors
    ///
    /// Fails if the block is larger than [`MAX_BLOCK`], or if the compressor fails.
    pub fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.clear();
        if block.len() > MAX_BLOCK {
            return Err(CodecError::BlockTooLarge { found: block.len(), limit: MAX_BLOCK });
        }
        // More than any format needs for incompressible data.
        out.reserve(block.len() + block.len() / 8 + 128);
        match &mut self.engine {
            Engine::Store => out.extend_from_slice(block),
            Engine::LzoFast(engine) => engine.compress(block, out),
            Engine::LzoDense(engine) => engine.compress(block, out),
            Engine::LzoDeep(engine) => engine.compress(block, out),
            Engine::Deflate(engine) => engine.compress(block, out),
            Engine::Zstd(engine) => {
                engine
                    .compress2(out, block)
                    .map_err(|_| CodecError::Zstd("the compressor failed"))?;
            }
        }
        Ok(())
    }
}

fn zstd_context(level: i32) -> Result<CCtx<'static>, CodecError> {
    let mut context = CCtx::try_create().ok_or(CodecError::Zstd("no memory for a context"))?;
    context
        .set_parameter(CParameter::CompressionLevel(level))
        .map_err(|_| CodecError::Zstd("the level cannot be set"))?;
    Ok(context)
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Returns whether to choose LZO although zlib gives `zlib_len` bytes and LZO `lzo_len`: zlib must
/// be shorter by at least `percent` (spec: ubifs-format 7.1; the tools' default is 20).
pub const fn favor_lzo(lzo_len: usize, zlib_len: usize, percent: u32) -> bool {
    let kept = 100_u64.saturating_sub(percent as u64);
    zlib_len as u64 * 100 > lzo_len as u64 * kept
}
