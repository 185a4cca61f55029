//! One block of a file, compressed or not (spec: ubifs-format 7.1).

use super::error::MkfsError;
use super::options::Compressor;
use eraseblock_base::align::align_up_usize;
use eraseblock_ubifs_format::Compression;
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, MIN_COMPRESS_LEN, NODE_ALIGN};
use eraseblock_ubifs_format::raw;

/// log2 of the largest match distance in a deflate stream.
const ZLIB_WINDOW_BITS: u8 = 11;

/// Compresses blocks for one thread; keeps the state of each algorithm it was asked for.
#[derive(Default)]
pub(super) struct BlockCompressor {
    zlib: Option<flate2::Compress>,
    zstd: Option<(i32, zstd::bulk::Compressor<'static>)>,
    first: Vec<u8>,
    second: Vec<u8>,
}

impl BlockCompressor {
    /// The payload for a block and how it is compressed: the block itself where compression would
    /// not save space on flash.
    pub(super) fn compress<'a>(
        &'a mut self,
        block: &'a [u8],
        compressor: Compressor,
    ) -> Result<(&'a [u8], Compression), MkfsError> {
        if block.len() < MIN_COMPRESS_LEN {
            return Ok((block, Compression::None));
        }
        let how = match compressor {
            Compressor::None => return Ok((block, Compression::None)),
            Compressor::Lzo => {
                lzo(block, &mut self.first)?;
                Compression::Lzo
            }
            Compressor::Zlib => {
                zlib(&mut self.zlib, block, &mut self.first)?;
                Compression::Zlib
            }
            Compressor::Zstd { level } => {
                self.zstd(block, level)?;
                Compression::Zstd
            }
            Compressor::FavourLzo { percent } => self.favour_lzo(block, percent)?,
        };
        let on_flash = |len| align_up_usize(raw::DataNode::SIZE + len, NODE_ALIGN as usize);
        if on_flash(self.first.len()) < on_flash(block.len()) {
            Ok((&self.first, how))
        } else {
            Ok((block, Compression::None))
        }
    }

    /// LZO, or deflate where it is smaller by `percent`; the result is in `first`.
    fn favour_lzo(&mut self, block: &[u8], percent: u8) -> Result<Compression, MkfsError> {
        lzo(block, &mut self.first)?;
        zlib(&mut self.zlib, block, &mut self.second)?;
        if self.second.len() * 100 <= self.first.len() * (100 - usize::from(percent)) {
            std::mem::swap(&mut self.first, &mut self.second);
            return Ok(Compression::Zlib);
        }
        Ok(Compression::Lzo)
    }

    fn zstd(&mut self, block: &[u8], level: i32) -> Result<(), MkfsError> {
        let error = |error: std::io::Error| MkfsError::Compressor {
            compressor: "zstd",
            message: error.to_string(),
        };
        let compressor = match &mut self.zstd {
            Some((made_for, compressor)) if *made_for == level => compressor,
            other => {
                &mut other.insert((level, zstd::bulk::Compressor::new(level).map_err(error)?)).1
            }
        };
        self.first.resize(zstd::zstd_safe::compress_bound(BLOCK_SIZE as usize), 0);
        let len = compressor.compress_to_buffer(block, &mut self.first[..]).map_err(error)?;
        self.first.truncate(len);
        Ok(())
    }
}

fn lzo(_block: &[u8], _out: &mut Vec<u8>) -> Result<(), MkfsError> {
    Err(MkfsError::Compressor { compressor: "lzo", message: "not available".to_owned() })
}

fn zlib(
    state: &mut Option<flate2::Compress>,
    block: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), MkfsError> {
    let level = flate2::Compression::new(9);
    let compress = state.get_or_insert_with(|| {
        flate2::Compress::new_with_window_bits(level, false, ZLIB_WINDOW_BITS)
    });
    compress.reset();
    out.clear();
    out.reserve(BLOCK_SIZE as usize + 512);
    let error = |message: String| MkfsError::Compressor { compressor: "zlib", message };
    match compress.compress_vec(block, out, flate2::FlushCompress::Finish) {
        Ok(flate2::Status::StreamEnd) => Ok(()),
        Ok(status) => Err(error(format!("{status:?}"))),
        Err(problem) => Err(error(problem.to_string())),
    }
}
