//! Why no image was made.

use eraseblock_base::ErrorClass;
use eraseblock_ubifs_format::layout::LayoutError;
use std::io;

/// Why no image was made. Paths are those inside the image, without a leading slash.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MkfsError {
    /// The areas cannot be laid out as asked.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// An option is out of its range.
    #[error("{option} is {found}, expected {expected}")]
    Option {
        /// The option at fault.
        option: &'static str,
        /// Its value.
        found: i64,
        /// What is allowed.
        expected: &'static str,
    },
    /// Something UBIFS cannot store.
    #[error("`/{}`: {problem}", String::from_utf8_lossy(path))]
    Node {
        /// The file.
        path: Vec<u8>,
        /// What is wrong with it.
        problem: NodeProblem,
    },
    /// A file could not be read.
    #[error("`/{}`: cannot read: {error}", String::from_utf8_lossy(path))]
    Read {
        /// The file.
        path: Vec<u8>,
        /// Why.
        error: io::Error,
    },
    /// A file did not have the length it had when the tree was made.
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
    /// A compressor failed, which none does on a block of a file.
    #[error("{compressor} compressor failed: {message}")]
    Compressor {
        /// Which one.
        compressor: &'static str,
        /// Its own words.
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
        /// LEBs it must be allowed.
        needed: u32,
    },
    /// The sink could not take a LEB.
    #[error("cannot write image: {0}")]
    Sink(#[source] io::Error),
    /// A worker thread died; its panic says why.
    #[error("a worker thread died")]
    Worker,
}

impl MkfsError {
    /// How the error is to be answered.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TooFewLebs { .. } => ErrorClass::NoSpace,
            Self::Read { .. } | Self::Sink(_) => ErrorClass::Media,
            Self::Node { .. } | Self::TooManyInodes => ErrorClass::Unsupported,
            _ => ErrorClass::Caller,
        }
    }
}

/// What UBIFS cannot store about a node.
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
    /// An attribute's name of 0 or more than 255 bytes, or with a NUL.
    #[error("attribute name `{0}` is not 1 to 255 bytes without NUL")]
    AttributeName(String),
    /// An attribute whose name occurs twice.
    #[error("attribute `{0}` occurs twice")]
    AttributeTwice(String),
    /// An attribute's value of more than 4096 bytes.
    #[error("attribute `{0}` has {1} bytes, expected at most 4096")]
    AttributeValue(String, usize),
    /// Attribute names of more than 65536 bytes altogether.
    #[error("attribute names of {0} bytes altogether, expected at most 65536")]
    AttributeNames(u64),
    /// More attributes than can be deleted at once.
    #[error("{0} attributes, expected at most {1} for LEBs of this size")]
    AttributeCount(usize, u32),
}
