//! What goes wrong with a card.

use eraseblock_base::ErrorClass;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A card that cannot be used, or an operation that it refuses.
#[derive(Debug)]
#[non_exhaustive]
pub enum CardError {
    /// The host failed.
    Io {
        /// The file.
        path: PathBuf,
        /// The attempted operation.
        operation: &'static str,
        /// The host's reason.
        source: io::Error,
    },
    /// Another process has the card open.
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Not a card file, or one of another version.
    Header {
        /// The offset in the file.
        at: u64,
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What it must be.
        expected: String,
    },
    /// A card that cannot exist.
    Parameter {
        /// The parameter.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What it must be.
        expected: &'static str,
    },
    /// No preset of that name.
    Preset {
        /// The name.
        name: String,
    },
    /// Neither copy of the state is valid.
    State,
    /// Bytes outside the card.
    Range {
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// The bytes of the card.
        capacity: u64,
    },
    /// The card was opened for reading only.
    ReadOnly,
    /// The armed power cut fired.
    PowerOff,
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, operation, source } => {
                write!(f, "{}: {operation} failed: {source}", path.display())
            }
            Self::InUse { path } => {
                write!(f, "{}: the card is in use by another process", path.display())
            }
            Self::Header { at, field, found, expected } => {
                write!(f, "byte {at}: {field} is {found:#x}, expected {expected}")
            }
            Self::Parameter { field, found, expected } => {
                write!(f, "{field}: {found}, expected {expected}")
            }
            Self::Preset { name } => write!(f, "no card is called `{name}`"),
            Self::State => f.write_str(
                "both copies of the card's state are damaged: expected one with a matching checksum",
            ),
            Self::Range { offset, length, capacity } => {
                write!(f, "bytes {offset}+{length}: outside the card's {capacity} bytes")
            }
            Self::ReadOnly => f.write_str("the card was opened for reading only"),
            Self::PowerOff => f.write_str("power is off"),
        }
    }
}

impl Error for CardError {}

impl CardError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Io { .. } | Self::PowerOff => ErrorClass::Media,
            Self::Header { field: "version", .. } => ErrorClass::Unsupported,
            Self::Header { .. } | Self::State => ErrorClass::Corruption,
            Self::InUse { .. }
            | Self::Parameter { .. }
            | Self::Preset { .. }
            | Self::Range { .. }
            | Self::ReadOnly => ErrorClass::Caller,
        }
    }

    pub(crate) fn io(path: &Path, operation: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), operation, source }
    }
}
