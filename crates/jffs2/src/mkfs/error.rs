//! Errors of building an image.

use crate::error::Jffs2Error;
use eraseblock_base::ErrorClass;
use eraseblock_mtd::ReadError;
use std::error::Error;
use std::fmt;
use std::io;

/// An image that could not be built. Paths are those inside the image, without a leading slash.
#[derive(Debug)]
#[non_exhaustive]
pub enum MkfsError {
    /// An option is out of its range.
    Option {
        /// The invalid option.
        option: &'static str,
        /// Its value.
        found: u64,
        /// The valid values.
        expected: &'static str,
    },
    /// Something JFFS2 cannot store.
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
    /// A compressor failed, which does not happen for a page of a file.
    Compressor {
        /// The compressor.
        compressor: &'static str,
        /// Its message.
        message: String,
    },
    /// More inodes than inode numbers.
    TooManyInodes,
    /// The image is too large for its destination.
    TooLarge {
        /// Bytes available.
        limit: u64,
    },
    /// A node of the input cannot be put into a block of this size.
    NodeTooLarge {
        /// The offset in the input.
        at: u64,
        /// Its length in bytes.
        length: u32,
    },
    /// The input cannot be read.
    Input(ReadError),
    /// The shape of the input cannot be found.
    Shape(Jffs2Error),
    /// The output could not be written.
    Output(io::Error),
    /// Worker threads could not be started.
    Threads(String),
}

impl fmt::Display for MkfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
            Self::TooManyInodes => f.write_str("more inodes than numbers for them"),
            Self::TooLarge { limit } => write!(f, "image of more than {limit} bytes"),
            Self::NodeTooLarge { at, length } => {
                write!(f, "byte {at}: a node of {length} bytes does not fit into a block")
            }
            Self::Input(error) => write!(f, "cannot read image: {error}"),
            Self::Shape(error) => write!(f, "cannot read image: {error}"),
            Self::Output(error) => write!(f, "cannot write image: {error}"),
            Self::Threads(reason) => write!(f, "cannot start threads: {reason}"),
        }
    }
}

impl Error for MkfsError {}

impl From<ReadError> for MkfsError {
    fn from(error: ReadError) -> Self {
        Self::Input(error)
    }
}

impl From<Jffs2Error> for MkfsError {
    fn from(error: Jffs2Error) -> Self {
        Self::Shape(error)
    }
}

impl MkfsError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Input(error) => Some(error),
            Self::Shape(error) => Some(error),
            Self::Read { error, .. } | Self::Output(error) => Some(error),
            _ => None,
        }
    }

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
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NodeProblem {
    /// A name that Linux could not look up.
    Name(usize),
    /// 4 GiB or more.
    FileSize(u64),
    /// A link target of 0 or more than 254 bytes.
    Target(usize),
    /// A device number beyond 12 bits of major and 20 bits of minor.
    Device(u32, u32),
    /// An owner or group beyond 16 bits.
    Owner(u32, u32),
    /// An xattr outside the name spaces of JFFS2, or with a name that is too long.
    AttributeName(String),
    /// An xattr whose value does not fit.
    AttributeValue(String, usize),
    /// An invalid ACL.
    Acl(String),
}

impl fmt::Display for NodeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(length) => write!(f, "a name of {length} bytes, expected at most 254"),
            Self::FileSize(length) => {
                write!(f, "{length} bytes are more than the 4294967295 of the largest file")
            }
            Self::Target(length) => write!(f, "a link target of {length} bytes, expected 1 to 254"),
            Self::Device(major, minor) => {
                write!(f, "device {major}:{minor}, expected at most 4095:1048575")
            }
            Self::Owner(uid, gid) => {
                write!(f, "owner {uid}:{gid}, expected at most 65535:65535")
            }
            Self::AttributeName(name) => {
                write!(f, "attribute `{name}` is none that JFFS2 can store")
            }
            Self::AttributeValue(name, length) => write!(
                f,
                "attribute `{name}` has {length} bytes, which do not fit into an eraseblock or 65535 bytes"
            ),
            Self::Acl(name) => write!(f, "attribute `{name}` is not an access control list"),
        }
    }
}

impl Error for NodeProblem {}
