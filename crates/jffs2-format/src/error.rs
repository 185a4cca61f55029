//! Errors of decoding.

use core::error::Error;
use core::fmt;
use eraseblock_base::{ErrorClass, Location};

/// Bytes that are not the expected node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes are not the start of a node.
    Magic {
        /// The place.
        at: Location,
        /// The first 16 bits.
        found: u16,
    },
    /// Fewer bytes than the node needs.
    Short {
        /// The place.
        at: Location,
        /// The structure to be read.
        what: &'static str,
        /// Bytes available.
        found: u64,
        /// Bytes needed.
        expected: u64,
    },
    /// A checksum does not match.
    Crc {
        /// The place.
        at: Location,
        /// Which checksum.
        what: &'static str,
        /// The checksum in the node.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// A field has a value it cannot have.
    Field {
        /// The place.
        at: Location,
        /// The kind of node.
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
            Self::Magic { at, found } => {
                write!(f, "{at}: no node: magic is {found:#06x}, expected 0x1985")
            }
            Self::Short { at, what, found, expected } => {
                write!(f, "{at}: {what}: {found} bytes, expected at least {expected}")
            }
            Self::Crc { at, what, stored, computed } => write!(
                f,
                "{at}: {what} CRC mismatch: stored {stored:#010x}, computed {computed:#010x}"
            ),
            Self::Field { at, what, field, found, expected } => {
                write!(f, "{at}: {what}: {field} is {found}, expected {expected}")
            }
        }
    }
}

impl Error for FormatError {}

impl FormatError {
    /// Returns the class, which decides how to react. A torn write is a node with a wrong CRC, so
    /// it cannot be distinguished from other damage.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::Corruption
    }

    /// Where it is.
    pub fn at(&self) -> Location {
        match self {
            Self::Magic { at, .. }
            | Self::Short { at, .. }
            | Self::Crc { at, .. }
            | Self::Field { at, .. } => *at,
        }
    }
}
