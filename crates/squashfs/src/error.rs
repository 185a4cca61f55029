//! Why an image cannot be opened, and how damage is described.

use eraseblock_base::ErrorClass;
use eraseblock_vfs::{FsError, FsErrorKind};
use std::error::Error;
use std::fmt;
use std::io;

/// An image that cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum SquashfsError {
    /// The superblock cannot be read.
    Read(io::Error),
    /// There is no magic number of SquashFS.
    NotSquashfs,
    /// Another version of the format.
    Version {
        /// Major and minor number.
        found: (u16, u16),
    },
    /// A field of the superblock is impossible.
    Field {
        /// Its name.
        field: &'static str,
        /// Its value.
        found: u64,
        /// The valid values.
        expected: &'static str,
    },
    /// The image ends before its file system does.
    CutShort {
        /// Bytes in the image.
        found: u64,
        /// Bytes in the file system.
        expected: u64,
    },
}

impl SquashfsError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Read(_) => ErrorClass::Media,
            Self::NotSquashfs | Self::Version { .. } => ErrorClass::Unsupported,
            Self::Field { .. } | Self::CutShort { .. } => ErrorClass::Corruption,
        }
    }

    /// Returns the cause, whose message is part of the message of this error.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for SquashfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "byte 0: cannot read the superblock: {error}"),
            Self::NotSquashfs => f.write_str("byte 0: no superblock of SquashFS"),
            Self::Version { found: (major, minor) } => {
                write!(f, "byte 28: SquashFS {major}.{minor}, expected 4.0")
            }
            Self::Field { field, found, expected } => {
                write!(f, "superblock: {field} is {found}, expected {expected}")
            }
            Self::CutShort { found, expected } => {
                write!(f, "the image is cut short: {found} bytes, its superblock says {expected}")
            }
        }
    }
}

impl Error for SquashfsError {}

/// Damage at a byte of the image.
pub(crate) fn damaged(at: u64, what: impl fmt::Display) -> FsError {
    FsError::new(FsErrorKind::Corrupted, format!("byte {at}: {what}"))
}

/// A failure of what the image is on.
pub(crate) fn unreadable(at: u64, error: &io::Error) -> FsError {
    FsError::new(FsErrorKind::Io, format!("byte {at}: {error}"))
}
