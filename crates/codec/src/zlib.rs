//! zlib streams, DEFLATE with the two-byte header of RFC 1950, as JFFS2 stores them
//! (spec: jffs2 9.6).

use crate::{Codec, CodecError};
use std::fmt;

/// Decodes the stream `input` into `out`, which it must fill exactly. Like Linux, ignores the
/// checksum after the stream: nodes have their own.
///
/// # Errors
///
/// Fails if the stream is invalid or does not decode to exactly `out.len()` bytes.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    let Some((&[method, flags], deflate)) = input.split_first_chunk::<2>() else {
        return Err(CodecError::Deflate("no zlib header"));
    };
    let is_sane = method & 0x0F == 8 && flags & 0x20 == 0;
    if !is_sane || u16::from_be_bytes([method, flags]) % 31 != 0 {
        return Err(CodecError::Deflate("not a zlib header"));
    }
    crate::decompress(Codec::Zlib, deflate, out)
}

/// Decodes the stream `input` into the start of `out`, verifies the checksum after the stream, and
/// returns the number of bytes.
///
/// # Errors
///
/// Fails if the stream is invalid, its checksum is wrong or it decodes to more than `out.len()` bytes.
pub fn decompress_checked(input: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
    libdeflater::Decompressor::new().zlib_decompress(input, out).map_err(|error| {
        CodecError::Deflate(match error {
            libdeflater::DecompressionError::BadData => "not a zlib stream with its checksum",
            libdeflater::DecompressionError::InsufficientSpace => "output exceeds its size",
        })
    })
}

/// Creates zlib streams with a 32 KiB window.
pub struct Encoder(libdeflater::Compressor);

impl Encoder {
    /// Creates an encoder of level 1 (fast) to 12 (dense).
    ///
    /// # Errors
    ///
    /// Fails for any other level.
    pub fn new(level: u8) -> Result<Self, CodecError> {
        let wrong = CodecError::Level { found: level.into(), lowest: 1, highest: 12 };
        let level = libdeflater::CompressionLvl::new(level.into()).map_err(|_| wrong.clone())?;
        if level == libdeflater::CompressionLvl::new(0).unwrap_or_default() {
            return Err(wrong);
        }
        Ok(Self(libdeflater::Compressor::new(level)))
    }

    /// Replaces the content of `out` with the stream of `block` and returns true, or clears `out`
    /// and returns false if the stream would exceed `limit` bytes.
    pub fn compress(&mut self, block: &[u8], limit: usize, out: &mut Vec<u8>) -> bool {
        out.clear();
        out.resize(limit, 0);
        let len = self.0.zlib_compress(block, out).unwrap_or(0);
        out.truncate(len);
        len > 0
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_checksum_is_refused() {
        let mut stream = Vec::new();
        assert!(Encoder::new(6).unwrap().compress(&[7; 500], 500, &mut stream));
        let mut out = [0; 600];
        assert_eq!(decompress_checked(&stream, &mut out), Ok(500));
        assert_eq!(out[..500], [7; 500]);
        assert!(decompress_checked(&stream, &mut out[..499]).is_err());
        *stream.last_mut().unwrap() ^= 1;
        assert!(decompress_checked(&stream, &mut out).is_err());
    }

    #[test]
    fn streams_are_read_back() {
        let block: Vec<u8> = (0..4096_u32).map(|n| (n * n / 777).to_le_bytes()[0]).collect();
        let mut out = Vec::new();
        for level in [1, 6, 12] {
            assert!(Encoder::new(level).unwrap().compress(&block, 4096, &mut out));
            let mut back = vec![0; block.len()];
            decompress(&out, &mut back).unwrap();
            assert_eq!(back, block);
            assert!(decompress(&out, &mut back[1..]).is_err());
            // Decoders ignore the checksum at the end.
            let len = out.len();
            out[len - 1] ^= 1;
            decompress(&out, &mut back).unwrap();
        }
        assert!(!Encoder::new(6).unwrap().compress(&block, 10, &mut out));
        assert!(out.is_empty());
        assert!(Encoder::new(0).is_err());
        assert!(Encoder::new(13).is_err());
    }

    #[test]
    fn what_has_no_header_is_refused() {
        for input in [&[][..], &[0x78], &[0x78, 0x5F, 3, 0], &[0x78, 0x20 | 0x1C, 3, 0]] {
            assert!(decompress(input, &mut []).is_err());
        }
        // An empty stream from another writer, level 3.
        decompress(&[0x78, 0x5E, 3, 0, 0, 0, 0, 1], &mut []).unwrap();
    }
}
