//! Errors of building an image.

use eraseblock_base::ErrorClass;
use eraseblock_ubifs_format::layout::LayoutError;
use std::io;

/// An image that could not be built. Paths are those inside the image, without a leading slash.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MkfsError {
    /// The requested areas are impossible.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// An option is out of its range.
    #[error("{option} is {found}, expected {expected}")]
    Option {
        /// The invalid option.
        option: &'static str,
        /// Its value.
        found: i64,
        /// The valid values.
        expected: &'static str,
    },
    /// Something UBIFS cannot store.
    #[error("`/{}`: {problem}", String::from_utf8_lossy(path))]
    Node {
        /// The file.
        path: Vec<u8>,
        /// The problem.
        problem: NodeProblem,
    },
    /// A file could not be read.
    #[error("`/{}`: cannot read: {error}", String::from_utf8_lossy(path))]
    Read {
        /// The file.
        path: Vec<u8>,
        /// The reason.
        error: io::Error,
    },
    /// A file did not have the length it had when the tree was created.
    #[error(
        "`/{}`: changed while it was read, expected {expected} bytes",
        String::from_utf8_lossy(path)
    )]
    Changed {
        /// The file.
        path: Vec<u8>,
        /// Its length in the tree.
        expected: u64,
    },
    /// A compressor failed, which does not happen for a block of a file.
    #[error("{compressor} compressor failed: {message}")]
    Compressor {
        /// The compressor.
        compressor: &'static str,
        /// Its message.
        message: String,
    },
    /// More inodes than inode numbers.
    #[error("more than {} inodes", u32::MAX - 0x1000)]
    TooManyInodes,
    /// The content needs more LEBs than the volume may have.
    #[error("max_leb_cnt too low: {available} LEBs, {needed} needed")]
    TooFewLebs {
        /// LEBs the volume may have.
        available: u32,
        /// The required maximum LEB count.
        needed: u32,
    },
    /// The sink could not store a LEB.
    #[error("cannot write image: {0}")]
    Sink(#[source] io::Error),
    /// A worker thread panicked; its panic message has the reason.
    #[error("a worker thread died")]
    Worker,
}

impl MkfsError {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TooFewLebs { .. } => ErrorClass::NoSpace,
            Self::Read { .. } | Self::Sink(_) => ErrorClass::Media,
            Self::Node { .. } | Self::TooManyInodes => ErrorClass::Unsupported,
            _ => ErrorClass::Caller,
        }
    }
}

/// A property of a node that UBIFS cannot store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeProblem {
    /// Longer than 2^41 bytes.
    #[error("{0} bytes are more than the 2^41 of the largest file")]
    FileSize(u64),
    /// A link target of 0 or more than 4096 bytes.
    #[error("a link target of {0} bytes, expected 1 to 4096")]
    Target(usize),
    /// A device number beyond 12 bits of major and 20 bits of minor.
    #[error("device {0}:{1}, expected at most 4095:1048575")]
    Device(u32, u32),
    /// An xattr name of 0 or more than 255 bytes, or with a NUL.
    #[error("attribute name `{0}` is not 1 to 255 bytes without NUL")]
    AttributeName(String),
    /// An xattr name that occurs twice.
    #[error("attribute `{0}` occurs twice")]
    AttributeTwice(String),
    /// An xattr value of more than 4096 bytes.
    #[error("attribute `{0}` has {1} bytes, expected at most 4096")]
    AttributeValue(String, usize),
    /// Xattr names of more than 65536 bytes altogether.
    #[error("attribute names of {0} bytes altogether, expected at most 65536")]
    AttributeNames(u64),
    /// More xattrs than can be deleted at once.
    #[error("{0} attributes, expected at most {1} for LEBs of this size")]
    AttributeCount(usize, u32),
}
