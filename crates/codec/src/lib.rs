//! The compression algorithms of flash file systems, for one block at a time (spec: ubifs-format
//! 7).
//!
//! This crate does not depend on flash: it turns a block of bytes into a shorter one and back.
//! Every output is a pure function of the block and the [`CompressSpec`], so images are
//! reproducible regardless of which thread compresses which block. Invalid input causes an error,
//! never a panic, and memory is bounded by the output that the caller provides.

#![allow(
    clippy::inline_always,
    reason = "hot loops made of small functions, none of which may remain a call"
)]

mod compress;
mod decompress;
mod deflate;
mod error;
mod finder;
pub mod lzma;
pub mod lzo;
pub mod rtime;
pub mod rubin;
#[cfg(test)]
mod tests;
mod text;
pub mod zlib;

pub use compress::{CompressSpec, Compressor, favor_lzo};
pub use decompress::{Decompressor, decompress};
pub use error::{CodecError, LzoError};
pub use text::MAX_BLOCK;

/// An algorithm for data blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// No compression.
    None,
    /// LZO1X, a raw stream with its end marker (spec: ubifs-format 7.2).
    Lzo,
    /// Raw DEFLATE with distances of at most 2048.
    Zlib,
    /// One zstd frame with its content size, without checksum or dictionary.
    Zstd,
}

impl Codec {
    /// Returns the name used by tools: `none`, `lzo`, `zlib`, `zstd`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lzo => "lzo",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
}
