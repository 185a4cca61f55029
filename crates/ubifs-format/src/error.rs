//! Errors of decoding, with place, found and expected.

use crate::constants::NodeType;
use core::error::Error;
use core::fmt;
use eraseblock_base::{ErrorClass, Location};

/// The value that a field should have had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Exactly this value.
    Value(u64),
    /// At most this value.
    AtMost(u64),
    /// At least this value.
    AtLeast(u64),
    /// First to last, both included.
    Range(u64, u64),
    /// A multiple of this.
    MultipleOf(u64),
    /// A value described in words.
    Words(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            Self::AtMost(value) => write!(f, "at most {value}"),
            Self::AtLeast(value) => write!(f, "at least {value}"),
            Self::Range(first, last) => write!(f, "{first} to {last}"),
            Self::MultipleOf(value) => write!(f, "a multiple of {value}"),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// Bytes that are not the expected node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes are not the start of a node.
    Magic {
        /// The place.
        at: Location,
        /// The first four bytes.
        found: u32,
    },
    /// Fewer bytes than a node needs.
    Short {
        /// The place.
        at: Location,
        /// Bytes available.
        found: u64,
        /// Bytes needed.
        expected: u64,
    },
    /// The node type does not exist or is not the expected one.
    Type {
        /// The place.
        at: Location,
        /// The number found.
        found: u8,
        /// The expected type.
        expected: &'static str,
    },
    /// The checksum does not match.
    Crc {
        /// The place.
        at: Location,
        /// The kind of node.
        what: NodeType,
        /// The checksum in the node.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// A field has an illegal value.
    Field {
        /// The place.
        at: Location,
        /// The kind of node.
        what: NodeType,
        /// The invalid field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What was expected.
        expected: Expected,
    },
    /// Programmed bytes follow the end of the nodes.
    NotErased {
        /// The first such byte.
        at: Location,
    },
    /// The nodes of a LEB do not end at a multiple of the minimum I/O unit.
    Misaligned {
        /// The end.
        at: Location,
        /// The minimum I/O unit.
        unit: u32,
    },
    /// A valid format that is not supported.
    Unsupported {
        /// The place.
        at: Location,
        /// The kind of node.
        what: NodeType,
        /// The invalid field.
        field: &'static str,
        /// Its value.
        found: u64,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic { at, found } => {
                write!(f, "{at}: no node: magic is {found:#010x}, expected 0x06101831")
            }
            Self::Short { at, found, expected } => {
                write!(f, "{at}: {found} bytes, too short for a node of {expected} bytes")
            }
            Self::Type { at, found, expected } => {
                write!(f, "{at}: node type is {found}, expected {expected}")
            }
            Self::Crc { at, what, stored, computed } => write!(
                f,
                "{at}: {} CRC mismatch: stored {stored:#010x}, computed {computed:#010x}",
                what.name()
            ),
            Self::Field { at, what, field, found, expected } => {
                write!(f, "{at}: {}: {field} is {found}, expected {expected}", what.name())
            }
            Self::NotErased { at } => {
                write!(f, "{at}: programmed bytes after the last node, expected erased flash")
            }
            Self::Misaligned { at, unit } => {
                write!(f, "{at}: the last node ends here, expected a multiple of {unit}")
            }
            Self::Unsupported { at, what, field, found } => {
                write!(f, "{at}: {}: {field} {found:#x} is not supported", what.name())
            }
        }
    }
}

impl Error for FormatError {}

impl FormatError {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unsupported { .. } => ErrorClass::Unsupported,
            _ => ErrorClass::Corruption,
        }
    }

    /// Returns the place.
    pub fn at(&self) -> Location {
        match self {
            Self::Magic { at, .. }
            | Self::Short { at, .. }
            | Self::Type { at, .. }
            | Self::Crc { at, .. }
            | Self::Field { at, .. }
            | Self::NotErased { at }
            | Self::Misaligned { at, .. }
            | Self::Unsupported { at, .. } => *at,
        }
    }
}
