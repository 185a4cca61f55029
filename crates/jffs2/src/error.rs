//! Errors of opening and mounting.

use eraseblock_base::{ErrorClass, Location};
use eraseblock_mtd::{MtdError, ReadError};
use std::error::Error;
use std::fmt;

/// An image that cannot be opened, or a medium that cannot be mounted.
#[derive(Debug)]
#[non_exhaustive]
pub enum Jffs2Error {
    /// No JFFS2 node was found.
    NotJffs2 {
        /// Number of bytes searched.
        bytes: u64,
    },
    /// The image cannot be read at all.
    Read(ReadError),
    /// An option is out of its range.
    Option {
        /// The invalid option.
        option: &'static str,
        /// Its value.
        found: u64,
        /// The valid values.
        expected: &'static str,
    },
    /// The medium failed while it was mounted.
    Device(MtdError),
    /// The medium contains data, but no JFFS2: mounting would erase it (spec: jffs2 12.6).
    Foreign {
        /// Blocks that are neither empty nor bad.
        blocks: u32,
    },
    /// A node of unknown type forbids the mount (spec: jffs2 4.2).
    Incompatible {
        /// The place.
        at: Location,
        /// Its type.
        node_type: u16,
        /// `mounting` or `mounting for writing`.
        what: &'static str,
    },
    /// The mount failed after it had started.
    FileSystem(eraseblock_vfs::FsError),
}

impl fmt::Display for Jffs2Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJffs2 { bytes } => write!(f, "no JFFS2 node in {bytes} bytes"),
            Self::Read(error) => write!(f, "cannot read image: {error}"),
            Self::Option { option, found, expected } => {
                write!(f, "{option} is {found}, expected {expected}")
            }
            Self::Device(error) => write!(f, "cannot mount: {error}"),
            Self::Foreign { blocks } => write!(
                f,
                "{blocks} blocks hold something that is not JFFS2: mounting would erase it"
            ),
            Self::Incompatible { at, node_type, what } => {
                write!(f, "{at}: node type {node_type:#06x} is unknown and forbids {what}")
            }
            Self::FileSystem(error) => write!(f, "cannot mount: {error}"),
        }
    }
}

impl Error for Jffs2Error {}

impl From<ReadError> for Jffs2Error {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<MtdError> for Jffs2Error {
    fn from(error: MtdError) -> Self {
        Self::Device(error)
    }
}

impl From<eraseblock_vfs::FsError> for Jffs2Error {
    fn from(error: eraseblock_vfs::FsError) -> Self {
        Self::FileSystem(error)
    }
}

impl Jffs2Error {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::FileSystem(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotJffs2 { .. } | Self::Foreign { .. } => ErrorClass::Corruption,
            Self::Read(_) | Self::FileSystem(_) => ErrorClass::Media,
            Self::Option { .. } => ErrorClass::Caller,
            Self::Device(error) => error.class(),
            Self::Incompatible { .. } => ErrorClass::Unsupported,
        }
    }
}
