//! Errors of decoding.

use eraseblock_base::{ErrorClass, Location};

/// Bytes that are not the expected node.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes are not the start of a node.
    #[error("{at}: no node: magic is {found:#06x}, expected 0x1985")]
    Magic {
        /// The place.
        at: Location,
        /// The first 16 bits.
        found: u16,
    },
    /// Fewer bytes than the node needs.
    #[error("{at}: {what}: {found} bytes, expected at least {expected}")]
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
    #[error("{at}: {what} CRC mismatch: stored {stored:#010x}, computed {computed:#010x}")]
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
    #[error("{at}: {what}: {field} is {found}, expected {expected}")]
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
