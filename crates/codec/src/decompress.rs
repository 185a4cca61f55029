//! Decompression of any codec, with reusable contexts.

use crate::{Codec, CodecError, lzo};
use std::cell::RefCell;
use std::fmt;
use zstd_safe::DCtx;

/// The contexts of the algorithms that need one; created on first use.
#[derive(Default)]
pub struct Decompressor {
    deflate: Option<libdeflater::Decompressor>,
    zstd: Option<DCtx<'static>>,
}

impl Decompressor {
    /// Creates a decompressor without contexts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decompresses `input` into `out`, which it must fill exactly.
    ///
    /// After an error, the content of `out` is unspecified. Nothing is allocated once the context
    /// of the codec exists.
    ///
    /// # Errors
    ///
    /// Fails if `input` is not a valid stream of exactly `out.len()` bytes.
    pub fn decompress(
        &mut self,
        codec: Codec,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<(), CodecError> {
        let expected = out.len();
        let produced = match codec {
            Codec::None if input.len() == expected => {
                out.copy_from_slice(input);
                return Ok(());
            }
            Codec::None => {
                return Err(CodecError::StoredLength { found: input.len(), expected });
            }
            Codec::Lzo => return Ok(lzo::decompress(input, out)?),
            Codec::Zlib => self.inflate(input, out)?,
            Codec::Zstd => self.unzstd(input, out)?,
        };
        if produced == expected {
            return Ok(());
        }
        Err(CodecError::OutputShort { produced, expected })
    }

    /// Decompresses one zlib stream (RFC 1950) and verifies its checksum; returns how many bytes of
    /// `out` it fills.
    ///
    /// # Errors
    ///
    /// Fails if `input` is not a valid stream of at most `out.len()` bytes.
    pub fn unzlib_up_to(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
        let context = self.deflate.get_or_insert_with(libdeflater::Decompressor::new);
        context.zlib_decompress(input, out).map_err(|error| {
            CodecError::Deflate(match error {
                libdeflater::DecompressionError::BadData => "not a zlib stream",
                libdeflater::DecompressionError::InsufficientSpace => "output exceeds its size",
            })
        })
    }

    /// Decompresses one zstd frame; returns how many bytes of `out` it fills.
    ///
    /// # Errors
    ///
    /// Fails if `input` is not a valid frame of at most `out.len()` bytes.
    pub fn unzstd_up_to(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
        self.unzstd(input, out)
    }

    fn inflate(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
        let context = self.deflate.get_or_insert_with(libdeflater::Decompressor::new);
        context.deflate_decompress(input, out).map_err(|error| {
            CodecError::Deflate(match error {
                libdeflater::DecompressionError::BadData => "not a DEFLATE stream",
                libdeflater::DecompressionError::InsufficientSpace => "output exceeds its size",
            })
        })
    }

    fn unzstd(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
        let context = match &mut self.zstd {
            Some(context) => context,
            empty => {
                let made = DCtx::try_create().ok_or(CodecError::Zstd("no memory for a context"))?;
                empty.insert(made)
            }
        };
        context
            .decompress(out, input)
            .map_err(|_| CodecError::Zstd("not a zstd frame of this size"))
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor")
            .field("deflate", &self.deflate.is_some())
            .field("zstd", &self.zstd.is_some())
            .finish()
    }
}

/// Calls [`Decompressor::decompress`] with the contexts of the current thread.
///
/// # Errors
///
/// Fails if `input` is not a valid stream of exactly `out.len()` bytes.
pub fn decompress(codec: Codec, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    thread_local! {
        static CONTEXTS: RefCell<Decompressor> = RefCell::new(Decompressor::new());
    }
    CONTEXTS.with_borrow_mut(|contexts| contexts.decompress(codec, input, out))
}
