//! Errors of decoding.

use core::error::Error;
use core::fmt;
use eraseblock_base::{ErrorClass, Location};

/// Bytes that are not the expected structure.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FormatError {
    /// Fewer bytes than the structure needs.
    Short {
        /// The place.
        at: Location,
        /// The structure.
        what: &'static str,
        /// Bytes available.
        found: u64,
        /// Bytes needed.
        expected: u64,
    },
    /// A field has a value it cannot have.
    Field {
        /// The place.
        at: Location,
        /// The structure.
        what: &'static str,
        /// The invalid field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What was expected.
        expected: &'static str,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { at, what, found, expected } => {
                write!(f, "{at}: {what}: {found} bytes, expected at least {expected}")
            }
            Self::Field { at, what, field, found, expected } => {
                write!(f, "{at}: {what}: {field} is {found:#x}, expected {expected}")
            }
        }
    }
}

impl Error for FormatError {}

impl FormatError {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::Corruption
    }
}
