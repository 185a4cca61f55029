//! Errors of compression and decompression.

use eraseblock_base::ErrorClass;
use thiserror::Error;

/// A block that could not be decompressed, or a compressor that could not be created.
///
/// This crate does not depend on flash: callers add the place of the node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The length of a stored block differs from that of its data.
    #[error("stored block of {found} bytes, expected {expected}")]
    StoredLength {
        /// Bytes stored.
        found: usize,
        /// Bytes of data.
        expected: usize,
    },
    /// The LZO1X stream is invalid.
    #[error("lzo: {0}")]
    Lzo(#[from] LzoError),
    /// The DEFLATE stream is invalid.
    #[error("zlib: {0}")]
    Deflate(&'static str),
    /// The zstd frame is invalid.
    #[error("zstd: {0}")]
    Zstd(&'static str),
    /// A stream of one of JFFS2's own codecs is invalid.
    #[error("{codec}: {problem}")]
    Stream {
        /// The codec.
        codec: &'static str,
        /// The problem.
        problem: &'static str,
    },
    /// The stream ended before the data was complete.
    #[error("data ends after {produced} bytes, expected {expected}")]
    OutputShort {
        /// Bytes decompressed.
        produced: usize,
        /// Bytes of data.
        expected: usize,
    },
    /// Bytes follow the compressed stream.
    #[error("{count} bytes after the end of the stream")]
    BytesAfterEnd {
        /// The number.
        count: usize,
    },
    /// The block is too large for the compressor.
    #[error("block of {found} bytes, expected at most {limit}")]
    BlockTooLarge {
        /// Bytes given.
        found: usize,
        /// The largest block.
        limit: usize,
    },
    /// The codec has no such level.
    #[error("compression level {found}, expected {lowest} to {highest}")]
    Level {
        /// The requested level.
        found: i32,
        /// The lowest of the codec.
        lowest: i32,
        /// The highest of the codec.
        highest: i32,
    },
}

impl CodecError {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::BlockTooLarge { .. } | Self::Level { .. } => ErrorClass::Caller,
            _ => ErrorClass::Corruption,
        }
    }
}

/// A stream that is not LZO1X, or not of this data (spec: ubifs-format 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LzoError {
    /// The stream is shorter than its end marker.
    #[error("stream of {found} bytes, expected at least 3")]
    TooShort {
        /// Bytes given.
        found: usize,
    },
    /// The stream ends within an instruction or its literals.
    #[error("stream ends before its end marker")]
    InputEnds,
    /// The stream produces more than the expected data.
    #[error("output exceeds {limit} bytes")]
    OutputOverrun {
        /// Bytes of data.
        limit: usize,
    },
    /// A match refers to a position before the start of the data.
    #[error("match distance {distance} after {produced} bytes of output")]
    Distance {
        /// Distance of the match.
        distance: usize,
        /// Bytes produced before it.
        produced: usize,
    },
    /// The end marker has the wrong length.
    #[error("end marker of length {length}, expected 3")]
    EndMarker {
        /// The length found.
        length: usize,
    },
    /// Bytes follow the end marker.
    #[error("{count} bytes after the end marker")]
    BytesAfterEnd {
        /// The number.
        count: usize,
    },
    /// The stream ended before the data was complete.
    #[error("stream ends after {produced} bytes of output, expected {expected}")]
    OutputShort {
        /// Bytes produced.
        produced: usize,
        /// Bytes of data.
        expected: usize,
    },
}
