//! Errors of building an image.

use eraseblock_base::ErrorClass;
use std::error::Error;
use std::fmt;
use std::io;

/// An image that could not be built. Paths are those inside the image, without a leading slash.
#[derive(Debug)]
#[non_exhaustive]
pub enum MkfsError {
    /// Something AXFS cannot store.
    Node {
        /// The file.
        path: Vec<u8>,
        /// The problem.
        problem: NodeProblem,
    },
    /// A file for execution in place is not there, or not a regular file.
    NotAFile {
        /// The path.
        path: Vec<u8>,
    },
    /// A file could not be read.
    Read {
        /// The file.
        path: Vec<u8>,
        /// The reason.
        error: io::Error,
    },
    /// A file changed between two passes.
    Changed {
        /// The file.
        path: Vec<u8>,
    },
    /// More than places can express.
    TooLarge {
        /// Bytes of the image.
        bytes: u64,
    },
    /// The output could not be written.
    Output(io::Error),
}

impl fmt::Display for MkfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = String::from_utf8_lossy;
        match self {
            Self::Node { path, problem } => write!(f, "`/{}`: {problem}", shown(path)),
            Self::NotAFile { path } => {
                write!(
                    f,
                    "`/{}`: not a regular file of the image, cannot be executed in place",
                    shown(path)
                )
            }
            Self::Read { path, error } => write!(f, "`/{}`: cannot read: {error}", shown(path)),
            Self::Changed { path } => {
                write!(f, "`/{}`: changed while the image was made", shown(path))
            }
            Self::TooLarge { bytes } => {
                write!(f, "an image of {bytes} bytes, expected less than 4 GiB")
            }
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
            _ => None,
        }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TooLarge { .. } => ErrorClass::NoSpace,
            Self::Read { .. } | Self::Output(_) => ErrorClass::Media,
            Self::Node { .. } => ErrorClass::Unsupported,
            Self::NotAFile { .. } | Self::Changed { .. } => ErrorClass::Caller,
        }
    }
}

/// A property of a node that AXFS cannot store.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NodeProblem {
    /// A file of 4 GiB or more.
    FileSize(u64),
    /// A device number beyond 8 bits.
    Device(u32, u32),
}

impl fmt::Display for NodeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileSize(size) => write!(f, "{size} bytes, expected less than 4 GiB"),
            Self::Device(major, minor) => {
                write!(f, "device {major}:{minor}, expected at most 255:255")
            }
        }
    }
}

impl Error for NodeProblem {}
