//! Errors of building an image.

use crate::error::{Jffs2Error, ReadError};
use eraseblock_base::ErrorClass;
use std::io;

/// An image that could not be built. Paths are those inside the image, without a leading slash.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MkfsError {
    /// An option is out of its range.
    #[error("{option} is {found}, expected {expected}")]
    Option {
        /// The invalid option.
        option: &'static str,
        /// Its value.
        found: u64,
        /// The valid values.
        expected: &'static str,
    },
    /// Something JFFS2 cannot store.
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
    /// A compressor failed, which does not happen for a page of a file.
    #[error("{compressor} compressor failed: {message}")]
    Compressor {
        /// The compressor.
        compressor: &'static str,
        /// Its message.
        message: String,
    },
    /// More inodes than inode numbers.
    #[error("more inodes than numbers for them")]
    TooManyInodes,
    /// The image is too large for its destination.
    #[error("image of more than {limit} bytes")]
    TooLarge {
        /// Bytes available.
        limit: u64,
    },
    /// A node of the input cannot be put into a block of this size.
    #[error("byte {at}: a node of {length} bytes does not fit into a block")]
    NodeTooLarge {
        /// The offset in the input.
        at: u64,
        /// Its length in bytes.
        length: u32,
    },
    /// The input cannot be read.
    #[error("cannot read image: {0}")]
    Input(#[from] ReadError),
    /// The shape of the input cannot be found.
    #[error("cannot read image: {0}")]
    Shape(#[from] Jffs2Error),
    /// The output could not be written.
    #[error("cannot write image: {0}")]
    Output(#[source] io::Error),
    /// Worker threads could not be started.
    #[error("cannot start threads: {0}")]
    Threads(String),
}

impl MkfsError {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TooLarge { .. } => ErrorClass::NoSpace,
            Self::Read { .. } | Self::Input(_) | Self::Shape(_) | Self::Output(_) => {
                ErrorClass::Media
            }
            Self::Node { .. } | Self::TooManyInodes | Self::NodeTooLarge { .. } => {
                ErrorClass::Unsupported
            }
            _ => ErrorClass::Caller,
        }
    }
}

/// A property of a node that JFFS2 cannot store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeProblem {
    /// A name that Linux could not look up.
    #[error("a name of {0} bytes, expected at most 254")]
    Name(usize),
    /// 4 GiB or more.
    #[error("{0} bytes are more than the 4294967295 of the largest file")]
    FileSize(u64),
    /// A link target of 0 or more than 254 bytes.
    #[error("a link target of {0} bytes, expected 1 to 254")]
    Target(usize),
    /// A device number beyond 12 bits of major and 20 bits of minor.
    #[error("device {0}:{1}, expected at most 4095:1048575")]
    Device(u32, u32),
    /// An owner or group beyond 16 bits.
    #[error("owner {0}:{1}, expected at most 65535:65535")]
    Owner(u32, u32),
    /// An xattr outside the name spaces of JFFS2, or with a name that is too long.
    #[error("attribute `{0}` is none that JFFS2 can store")]
    AttributeName(String),
    /// An xattr whose value does not fit.
    #[error("attribute `{0}` has {1} bytes, which do not fit into an eraseblock or 65535 bytes")]
    AttributeValue(String, usize),
    /// An invalid ACL.
    #[error("attribute `{0}` is not an access control list")]
    Acl(String),
}
