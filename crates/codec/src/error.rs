//! Errors of compression and decompression.

use eraseblock_base::ErrorClass;
use std::error::Error;
use std::fmt;

/// A block that could not be decompressed, or a compressor that could not be created.
///
/// This crate does not depend on flash: callers add the place of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// The length of a stored block differs from that of its data.
    StoredLength {
        /// Bytes stored.
        found: usize,
        /// Bytes of data.
        expected: usize,
    },
    /// The LZO1X stream is invalid.
    Lzo(LzoError),
    /// The DEFLATE stream is invalid.
    Deflate(&'static str),
    /// The zstd frame is invalid.
    Zstd(&'static str),
    /// A stream of one of JFFS2's own codecs is invalid.
    Stream {
        /// The codec.
        codec: &'static str,
        /// The problem.
        problem: &'static str,
    },
    /// The crate was built without the feature of this codec.
    LeftOut {
        /// The codec, and the name of its feature.
        codec: &'static str,
    },
    /// The stream ended before the data was complete.
    OutputShort {
        /// Bytes decompressed.
        produced: usize,
        /// Bytes of data.
        expected: usize,
    },
    /// Bytes follow the compressed stream.
    BytesAfterEnd {
        /// The number.
        count: usize,
    },
    /// The block is too large for the compressor.
    BlockTooLarge {
        /// Bytes given.
        found: usize,
        /// The largest block.
        limit: usize,
    },
    /// The codec has no such level.
    Level {
        /// The requested level.
        found: i32,
        /// The lowest of the codec.
        lowest: i32,
        /// The highest of the codec.
        highest: i32,
    },
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StoredLength { found, expected } => {
                write!(f, "stored block of {found} bytes, expected {expected}")
            }
            Self::Lzo(error) => write!(f, "lzo: {error}"),
            Self::Deflate(problem) => write!(f, "zlib: {problem}"),
            Self::Zstd(problem) => write!(f, "zstd: {problem}"),
            Self::Stream { codec, problem } => write!(f, "{codec}: {problem}"),
            Self::LeftOut { codec } => write!(
                f,
                "{codec}: this program was built without it: expected the feature `{codec}`"
            ),
            Self::OutputShort { produced, expected } => {
                write!(f, "data ends after {produced} bytes, expected {expected}")
            }
            Self::BytesAfterEnd { count } => write!(f, "{count} bytes after the end of the stream"),
            Self::BlockTooLarge { found, limit } => {
                write!(f, "block of {found} bytes, expected at most {limit}")
            }
            Self::Level { found, lowest, highest } => {
                write!(f, "compression level {found}, expected {lowest} to {highest}")
            }
        }
    }
}

impl Error for CodecError {}

impl From<LzoError> for CodecError {
    fn from(error: LzoError) -> Self {
        Self::Lzo(error)
    }
}

impl CodecError {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::BlockTooLarge { .. } | Self::Level { .. } => ErrorClass::Caller,
            Self::LeftOut { .. } => ErrorClass::Unsupported,
            _ => ErrorClass::Corruption,
        }
    }
}

/// A stream that is not LZO1X, or not of this data (spec: ubifs-format 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LzoError {
    /// The stream is shorter than its end marker.
    TooShort {
        /// Bytes given.
        found: usize,
    },
    /// The stream ends within an instruction or its literals.
    InputEnds,
    /// The stream produces more than the expected data.
    OutputOverrun {
        /// Bytes of data.
        limit: usize,
    },
    /// A match refers to a position before the start of the data.
    Distance {
        /// Distance of the match.
        distance: usize,
        /// Bytes produced before it.
        produced: usize,
    },
    /// The end marker has the wrong length.
    EndMarker {
        /// The length found.
        length: usize,
    },
    /// Bytes follow the end marker.
    BytesAfterEnd {
        /// The number.
        count: usize,
    },
    /// The stream ended before the data was complete.
    OutputShort {
        /// Bytes produced.
        produced: usize,
        /// Bytes of data.
        expected: usize,
    },
}

impl fmt::Display for LzoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { found } => write!(f, "stream of {found} bytes, expected at least 3"),
            Self::InputEnds => f.write_str("stream ends before its end marker"),
            Self::OutputOverrun { limit } => write!(f, "output exceeds {limit} bytes"),
            Self::Distance { distance, produced } => {
                write!(f, "match distance {distance} after {produced} bytes of output")
            }
            Self::EndMarker { length } => write!(f, "end marker of length {length}, expected 3"),
            Self::BytesAfterEnd { count } => write!(f, "{count} bytes after the end marker"),
            Self::OutputShort { produced, expected } => {
                write!(f, "stream ends after {produced} bytes of output, expected {expected}")
            }
        }
    }
}

impl Error for LzoError {}
