//! Chooses a compressor for file data (spec: jffs2 9.2).
//!
//! Layer: data. Uses only `options`.

use super::options::Compression;
use eraseblock_codec::zlib::Encoder;
use eraseblock_codec::{Codec, CompressSpec, Compressor, rtime};
use eraseblock_jffs2_format::constants::compression;
use std::fmt;

/// Level of zlib, as Linux has it.
const ZLIB_LEVEL: u8 = 3;
/// Shorter data is stored uncompressed: no compressor makes it shorter.
const MIN_LEN: usize = 8;

/// The compressors; each is created on first use.
#[derive(Default)]
pub(crate) struct Compress {
    mode: Compression,
    lzo: Option<Compressor>,
    zlib: Option<Encoder>,
    out: Vec<u8>,
}

impl fmt::Debug for Compress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compress").finish_non_exhaustive()
    }
}

impl Compress {
    pub(crate) fn new(mode: Compression) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Compresses `data` into at most `room` bytes. Returns the compressor's number and the number
    /// of bytes of `data` covered: all of them, or with [`compression::NONE`] as many as fit.
    pub(crate) fn run(&mut self, data: &[u8], room: u32) -> (u8, usize) {
        let room = room as usize;
        let most = room.min(data.len().saturating_sub(1));
        let candidates: &[u8] = match self.mode {
            _ if data.len() < MIN_LEN => &[],
            Compression::Priority => &[compression::LZO, compression::ZLIB, compression::RTIME],
            Compression::Lzo => &[compression::LZO],
            Compression::Zlib => &[compression::ZLIB],
            Compression::Rtime => &[compression::RTIME],
            Compression::None => &[],
        };
        for number in candidates {
            if self.try_one(*number, data, most) {
                return (*number, data.len());
            }
        }
        (compression::NONE, data.len().min(room))
    }

    fn try_one(&mut self, number: u8, data: &[u8], most: usize) -> bool {
        match number {
            compression::LZO => {
                if self.lzo.is_none() {
                    self.lzo = Compressor::new(CompressSpec::runtime(Codec::Lzo)).ok();
                }
                let lzo = self.lzo.as_mut();
                lzo.is_some_and(|lzo| lzo.compress(data, &mut self.out).is_ok())
                    && self.out.len() <= most
            }
            compression::ZLIB => {
                if self.zlib.is_none() {
                    self.zlib = Encoder::new(ZLIB_LEVEL).ok();
                }
                let zlib = self.zlib.as_mut();
                zlib.is_some_and(|zlib| zlib.compress(data, most, &mut self.out))
            }
            _ => {
                rtime::compress(data, &mut self.out);
                self.out.len() <= most
            }
        }
    }

    /// Returns the output of the last successful [`Self::run`].
    pub(crate) fn output(&self) -> &[u8] {
        &self.out
    }
}
