//! Errors of decoding.

use eraseblock_base::{ErrorClass, Location};

/// Bytes that are not the expected structure.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Fewer bytes than the structure needs.
    #[error("{at}: {what}: {found} bytes, expected at least {expected}")]
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
    #[error("{at}: {what}: {field} is {found:#x}, expected {expected}")]
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

impl FormatError {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::Corruption
    }
}
