//! Errors of building an image.

use crate::error::YaffsError;
use eraseblock_base::ErrorClass;
use std::error::Error;
use std::fmt;
use std::io;

/// An image that could not be built. Paths are those inside the image, without a leading slash.
#[derive(Debug)]
#[non_exhaustive]
pub enum MkfsError {
    /// A layout that no page can have.
    Layout(YaffsError),
    /// Pages that YAFFS2 does not support.
    Small {
        /// Bytes of a page.
        page: u32,
        /// Spare bytes.
        spare: u32,
    },
    /// Something YAFFS2 cannot store.
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
    /// More objects than numbers.
    TooManyObjects(usize),
    /// The image is too large for its destination.
    TooLarge {
        /// Blocks available.
        most: u32,
    },
    /// The output could not be written.
    Output(io::Error),
}

impl fmt::Display for MkfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = String::from_utf8_lossy;
        match self {
            Self::Layout(error) => fmt::Display::fmt(error, f),
            Self::Small { page, spare } => write!(
                f,
                "pages of {page} and {spare} spare bytes, expected at least 1024 and, unless tags \
                 are in band, 32"
            ),
            Self::Node { path, problem } => write!(f, "`/{}`: {problem}", shown(path)),
            Self::Read { path, error } => write!(f, "`/{}`: cannot read: {error}", shown(path)),
            Self::Changed { path, expected } => write!(
                f,
                "`/{}`: changed while it was read, expected {expected} bytes",
                shown(path)
            ),
            Self::TooManyObjects(count) => write!(f, "{count} objects, expected at most 261887"),
            Self::TooLarge { most } => write!(f, "image of more than {most} eraseblocks"),
            Self::Output(error) => write!(f, "cannot write image: {error}"),
        }
    }
}

impl Error for MkfsError {}

impl MkfsError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read { error, .. } | Self::Output(error) => Some(error),
            Self::Layout(error) => error.get_ref(),
            _ => None,
        }
    }

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
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NodeProblem {
    /// A name of 255 bytes, which the reference cuts.
    Name(usize),
    /// More chunks than numbers.
    FileSize(u64),
    /// A link target of 0 or more than 159 bytes.
    Target(usize),
    /// A device number beyond 8 bits.
    Device(u32, u32),
    /// The xattrs do not fit into the header's page.
    Attributes(usize),
}

impl fmt::Display for NodeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(len) => write!(f, "a name of {len} bytes, expected at most 254"),
            Self::FileSize(size) => write!(f, "{size} bytes are more than the largest file has"),
            Self::Target(len) => write!(f, "a link target of {len} bytes, expected 1 to 159"),
            Self::Device(major, minor) => {
                write!(f, "device {major}:{minor}, expected at most 255:255")
            }
            Self::Attributes(room) => {
                write!(f, "extended attributes that do not fit into {room} bytes")
            }
        }
    }
}

impl Error for NodeProblem {}
