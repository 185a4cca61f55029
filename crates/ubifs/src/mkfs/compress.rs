//! One block of a file, compressed or not (spec: ubifs-format 7.1).

use super::error::MkfsError;
use super::options::Compressor;
use eraseblock_base::align::align_up_usize;
use eraseblock_codec::{Codec, CodecError, CompressSpec, Compressor as Engine, favor_lzo};
use eraseblock_ubifs_format::Compression;
use eraseblock_ubifs_format::constants::{MIN_COMPRESS_LEN, NODE_ALIGN};
use eraseblock_ubifs_format::raw;

/// Compresses blocks for one thread; keeps the state of each algorithm used.
#[derive(Default)]
pub(super) struct BlockCompressor {
    engines: Vec<Engine>,
    first: Vec<u8>,
    second: Vec<u8>,
}

impl BlockCompressor {
    /// Returns the payload for a block and its compression: the block itself if compression would
    /// not save space on flash.
    pub(super) fn compress<'a>(
        &'a mut self,
        block: &'a [u8],
        compressor: Compressor,
    ) -> Result<(&'a [u8], Compression), MkfsError> {
        if block.len() < MIN_COMPRESS_LEN {
            return Ok((block, Compression::None));
        }
        let (spec, how) = match compressor {
            Compressor::None => return Ok((block, Compression::None)),
            Compressor::Lzo | Compressor::FavourLzo { .. } => {
                (CompressSpec::image(Codec::Lzo), Compression::Lzo)
            }
            Compressor::Zlib => (CompressSpec::image(Codec::Zlib), Compression::Zlib),
            Compressor::Zstd { level } => {
                (CompressSpec { codec: Codec::Zstd, level }, Compression::Zstd)
            }
        };
        run(&mut self.engines, spec, block, &mut self.first)?;
        let mut how = how;
        if let Compressor::FavourLzo { percent } = compressor {
            run(&mut self.engines, CompressSpec::image(Codec::Zlib), block, &mut self.second)?;
            if !favor_lzo(self.first.len(), self.second.len(), percent.into()) {
                std::mem::swap(&mut self.first, &mut self.second);
                how = Compression::Zlib;
            }
        }
        let on_flash = |len| align_up_usize(raw::DataNode::SIZE + len, NODE_ALIGN as usize);
        if on_flash(self.first.len()) < on_flash(block.len()) {
            Ok((&self.first, how))
        } else {
            Ok((block, Compression::None))
        }
    }
}

/// Compresses with the engine for `spec`, which is created on first use.
fn run(
    engines: &mut Vec<Engine>,
    spec: CompressSpec,
    block: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), MkfsError> {
    let error = |error: CodecError| MkfsError::Compressor {
        compressor: spec.codec.name(),
        message: error.to_string(),
    };
    let position = if let Some(position) = engines.iter().position(|made| made.spec() == spec) {
        position
    } else {
        engines.push(Engine::new(spec).map_err(error)?);
        engines.len() - 1
    };
    engines[position].compress(block, out).map_err(error)
}
