//! Errors of opening and of reading objects.

use eraseblock_base::ErrorClass;
use eraseblock_codec::CodecError;
use eraseblock_vfs::{FsError, FsErrorKind};
use std::error::Error;
use std::fmt;
use std::io;

/// An image that cannot be opened, or a part of it that cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum LogfsError {
    /// Neither copy of the superblock is valid.
    NotLogfs(Box<LogfsError>),
    /// No commit of the journal is valid.
    NoCommit {
        /// Segments that the journal may be in.
        segments: Vec<u32>,
        /// Why the newest commit that was found cannot be read.
        reason: Option<Box<LogfsError>>,
    },
    /// Bytes cannot be read.
    Read {
        /// What was read.
        what: &'static str,
        /// Its place.
        offset: u64,
        /// The reason.
        error: io::Error,
    },
    /// A checksum is wrong.
    Crc {
        /// What it is of.
        what: &'static str,
        /// Its place.
        offset: u64,
        /// The checksum as stored.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A value that is not valid there.
    Field {
        /// The structure and the field.
        field: &'static str,
        /// The place of the structure.
        offset: u64,
        /// Its value.
        found: u64,
        /// The valid values.
        expected: String,
    },
    /// A feature that is not supported.
    Unsupported {
        /// The feature.
        what: &'static str,
        /// Its value.
        found: u64,
    },
    /// A payload cannot be decompressed.
    Stream {
        /// What it is of.
        what: &'static str,
        /// Its place.
        offset: u64,
        /// The reason.
        error: CodecError,
    },
}

impl fmt::Display for LogfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLogfs(error) => write!(f, "no valid superblock of LogFS: {error}"),
            Self::NoCommit { segments, reason } => {
                write!(f, "no readable commit in the journal segments {segments:?}")?;
                reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
            }
            Self::Read { what, offset, error } => {
                write!(f, "byte {offset}: cannot read {what}: {error}")
            }
            Self::Crc { what, offset, stored, computed } => write!(
                f,
                "byte {offset}: {what} CRC mismatch: stored {stored:#010x}, computed \
                 {computed:#010x}"
            ),
            Self::Field { field, offset, found, expected } => {
                write!(f, "byte {offset}: {field} is {found}, expected {expected}")
            }
            Self::Unsupported { what, found } => write!(f, "{what} {found:#x} is not supported"),
            Self::Stream { what, offset, error } => write!(f, "byte {offset}: {what}: {error}"),
        }
    }
}

impl Error for LogfsError {}

impl LogfsError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read { error, .. } => Some(error),
            Self::Stream { error, .. } => Some(error),
            Self::NotLogfs(error) => Some(error.as_ref()),
            Self::NoCommit { reason: Some(reason), .. } => Some(reason.as_ref()),
            _ => None,
        }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Read { .. } => ErrorClass::Media,
            Self::Unsupported { .. } => ErrorClass::Unsupported,
            Self::NotLogfs(error) => error.class(),
            _ => ErrorClass::Corruption,
        }
    }

    /// Returns the failure of an operation on an inode.
    pub(crate) fn of(self, ino: u64) -> FsError {
        let kind = match self.class() {
            ErrorClass::Media => FsErrorKind::Io,
            ErrorClass::Unsupported => FsErrorKind::Unsupported,
            _ => FsErrorKind::Corrupted,
        };
        FsError::new(kind, format!("inode {ino}: {self}"))
    }
}
