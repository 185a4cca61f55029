//! Errors of building an image.

use eraseblock_base::ErrorClass;
use eraseblock_ubifs_format::layout::LayoutError;
use std::error::Error;
use std::fmt;
use std::io;

/// An image that could not be built. Paths are those inside the image, without a leading slash.
#[derive(Debug)]
#[non_exhaustive]
pub enum MkfsError {
    /// The requested areas are impossible.
    Layout(LayoutError),
    /// An option is out of its range.
    Option {
        /// The invalid option.
        option: &'static str,
        /// Its value.
        found: i64,
        /// The valid values.
        expected: &'static str,
    },
    /// Something UBIFS cannot store.
    Node {
        /// The file.
        path: Vec<u8>,
        /// The problem.
        problem: NodeProblem,
    },
    /// A file could not be read.
    Read {
        /// The file.
        path: Vec<u8>,
        /// The reason.
        error: io::Error,
    },
    /// A file did not have the length it had when the tree was created.
    Changed {
        /// The file.
        path: Vec<u8>,
        /// Its length in the tree.
        expected: u64,
    },
    /// A compressor failed, which does not happen for a block of a file.
    Compressor {
        /// The compressor.
        compressor: &'static str,
        /// Its message.
        message: String,
    },
    /// More inodes than inode numbers.
    TooManyInodes,
    /// The content needs more LEBs than the volume may have.
    TooFewLebs {
        /// LEBs the volume may have.
        available: u32,
        /// The required maximum LEB count.
        needed: u32,
    },
    /// The sink could not store a LEB.
    Sink(io::Error),
    /// A worker thread panicked; its panic message has the reason.
    Worker,
}

impl fmt::Display for MkfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout(error) => fmt::Display::fmt(error, f),
            Self::Option { option, found, expected } => {
                write!(f, "{option} is {found}, expected {expected}")
            }
            Self::Node { path, problem } => {
                write!(f, "`/{}`: {problem}", String::from_utf8_lossy(path))
            }
            Self::Read { path, error } => {
                write!(f, "`/{}`: cannot read: {error}", String::from_utf8_lossy(path))
            }
            Self::Changed { path, expected } => write!(
                f,
                "`/{}`: changed while it was read, expected {expected} bytes",
                String::from_utf8_lossy(path)
            ),
            Self::Compressor { compressor, message } => {
                write!(f, "{compressor} compressor failed: {message}")
            }
            Self::TooManyInodes => write!(f, "more than {} inodes", u32::MAX - 0x1000),
            Self::TooFewLebs { available, needed } => {
                write!(f, "max_leb_cnt too low: {available} LEBs, {needed} needed")
            }
            Self::Sink(error) => write!(f, "cannot write image: {error}"),
            Self::Worker => f.write_str("a worker thread died"),
        }
    }
}

impl Error for MkfsError {}

impl From<LayoutError> for MkfsError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

impl MkfsError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read { error, .. } | Self::Sink(error) => Some(error),
            _ => None,
        }
    }

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
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NodeProblem {
    /// Longer than 2^41 bytes.
    FileSize(u64),
    /// A link target of 0 or more than 4096 bytes.
    Target(usize),
    /// A device number beyond 12 bits of major and 20 bits of minor.
    Device(u32, u32),
    /// An xattr name of 0 or more than 255 bytes, or with a NUL.
    AttributeName(String),
    /// An xattr name that occurs twice.
    AttributeTwice(String),
    /// An xattr value of more than 4096 bytes.
    AttributeValue(String, usize),
    /// Xattr names of more than 65536 bytes altogether.
    AttributeNames(u64),
    /// More xattrs than can be deleted at once.
    AttributeCount(usize, u32),
}

impl fmt::Display for NodeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileSize(length) => {
                write!(f, "{length} bytes are more than the 2^41 of the largest file")
            }
            Self::Target(length) => {
                write!(f, "a link target of {length} bytes, expected 1 to 4096")
            }
            Self::Device(major, minor) => {
                write!(f, "device {major}:{minor}, expected at most 4095:1048575")
            }
            Self::AttributeName(name) => {
                write!(f, "attribute name `{name}` is not 1 to 255 bytes without NUL")
            }
            Self::AttributeTwice(name) => write!(f, "attribute `{name}` occurs twice"),
            Self::AttributeValue(name, length) => {
                write!(f, "attribute `{name}` has {length} bytes, expected at most 4096")
            }
            Self::AttributeNames(length) => {
                write!(f, "attribute names of {length} bytes altogether, expected at most 65536")
            }
            Self::AttributeCount(count, limit) => {
                write!(f, "{count} attributes, expected at most {limit} for LEBs of this size")
            }
        }
    }
}

impl Error for NodeProblem {}
