//! Errors of detection and opening.

use eraseblock_base::ErrorClass;
use eraseblock_mtd::ReadError;
use eraseblock_vfs::FsError;
use std::error::Error;
use std::fmt;

/// An image that cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum YaffsError {
    /// No tags of YAFFS were found.
    NotYaffs {
        /// Number of bytes searched.
        bytes: u64,
    },
    /// The image cannot be read at all.
    Read(ReadError),
    /// The repair of what a power cut left failed.
    FileSystem(FsError),
    /// A layout is impossible.
    Layout {
        /// The invalid part.
        option: &'static str,
        /// Its value.
        found: u64,
        /// The valid values.
        expected: &'static str,
    },
}

impl fmt::Display for YaffsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYaffs { bytes } => {
                write!(f, "no YAFFS in {bytes} bytes: no page size for which the pages have tags")
            }
            Self::Read(error) => write!(f, "cannot read image: {error}"),
            Self::FileSystem(error) => write!(f, "cannot mount: {error}"),
            Self::Layout { option, found, expected } => {
                write!(f, "{option} is {found}, expected {expected}")
            }
        }
    }
}

impl Error for YaffsError {}

impl From<ReadError> for YaffsError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<FsError> for YaffsError {
    fn from(error: FsError) -> Self {
        Self::FileSystem(error)
    }
}

impl YaffsError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => error.get_ref(),
            Self::FileSystem(error) => Some(error),
            Self::NotYaffs { .. } | Self::Layout { .. } => None,
        }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotYaffs { .. } => ErrorClass::Corruption,
            Self::Read(_) | Self::FileSystem(_) => ErrorClass::Media,
            Self::Layout { .. } => ErrorClass::Caller,
        }
    }
}
