//! Errors of building an image.

use crate::error::YaffsError;
use eraseblock_base::ErrorClass;
use std::io;

/// An image that could not be built. Paths are those inside the image, without a leading slash.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MkfsError {
    /// A layout that no page can have.
    #[error(transparent)]
    Layout(YaffsError),
    /// Pages that YAFFS2 does not support.
    #[error(
        "pages of {page} and {spare} spare bytes, expected at least 1024 and, unless tags are in \
         band, 32"
    )]
    Small {
        /// Bytes of a page.
        page: u32,
        /// Spare bytes.
        spare: u32,
    },
    /// Something YAFFS2 cannot store.
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
    /// More objects than numbers.
    #[error("{0} objects, expected at most 261887")]
    TooManyObjects(usize),
    /// The image is too large for its destination.
    #[error("image of more than {most} eraseblocks")]
    TooLarge {
        /// Blocks available.
        most: u32,
    },
    /// The output could not be written.
    #[error("cannot write image: {0}")]
    Output(#[source] io::Error),
}

impl MkfsError {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TooLarge { .. } => ErrorClass::NoSpace,
            Self::Read { .. } | Self::Output(_) => ErrorClass::Media,
            Self::Node { .. } | Self::TooManyObjects(_) => ErrorClass::Unsupported,
            Self::Layout(_) | Self::Small { .. } | Self::Changed { .. } => ErrorClass::Caller,
        }
    }
}

/// A property of a node that YAFFS2 cannot store.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeProblem {
    /// A name of 255 bytes, which the reference cuts.
    #[error("a name of {0} bytes, expected at most 254")]
    Name(usize),
    /// More chunks than numbers.
    #[error("{0} bytes are more than the largest file has")]
    FileSize(u64),
    /// A link target of 0 or more than 159 bytes.
    #[error("a link target of {0} bytes, expected 1 to 159")]
    Target(usize),
    /// A device number beyond 8 bits.
    #[error("device {0}:{1}, expected at most 255:255")]
    Device(u32, u32),
    /// The xattrs do not fit into the header's page.
    #[error("extended attributes that do not fit into {0} bytes")]
    Attributes(usize),
}
