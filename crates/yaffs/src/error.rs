//! Errors of detection and opening.

use eraseblock_base::ErrorClass;
use eraseblock_mtd::MtdError;
use std::io;

/// A failure to read an image, with the message of its source.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum ReadError {
    /// A file, or bytes in memory.
    Image(io::Error),
    /// A flash device.
    Device(MtdError),
}

/// An image that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YaffsError {
    /// No tags of YAFFS were found.
    #[error("no YAFFS in {bytes} bytes: no page size for which the pages have tags")]
    NotYaffs {
        /// Number of bytes searched.
        bytes: u64,
    },
    /// The image cannot be read at all.
    #[error("cannot read image: {0}")]
    Read(#[from] ReadError),
    /// The repair of what a power cut left failed.
    #[error("cannot mount: {0}")]
    FileSystem(#[from] eraseblock_vfs::FsError),
    /// A layout is impossible.
    #[error("{option} is {found}, expected {expected}")]
    Layout {
        /// The invalid part.
        option: &'static str,
        /// Its value.
        found: u64,
        /// The valid values.
        expected: &'static str,
    },
}

impl YaffsError {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotYaffs { .. } => ErrorClass::Corruption,
            Self::Read(_) | Self::FileSystem(_) => ErrorClass::Media,
            Self::Layout { .. } => ErrorClass::Caller,
        }
    }
}
