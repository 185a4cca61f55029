//! Why bytes are not a node, with place, found and expected.

use crate::constants::NodeType;
use core::fmt;
use eraseblock_base::{ErrorClass, Location};

/// What a field should have been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Exactly this.
    Value(u64),
    /// This or less.
    AtMost(u64),
    /// This or more.
    AtLeast(u64),
    /// First to last, both included.
    Range(u64, u64),
    /// A multiple of this.
    MultipleOf(u64),
    /// Something that takes words.
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

/// Bytes that are not the node they should be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// No node starts here.
    #[error("{at}: no node: magic is {found:#010x}, expected 0x06101831")]
    Magic {
        /// Where.
        at: Location,
        /// The first four bytes.
        found: u32,
    },
    /// Fewer bytes than a node needs.
    #[error("{at}: {found} bytes, too short for a node of {expected} bytes")]
    Short {
        /// Where.
        at: Location,
        /// Bytes there are.
        found: u64,
        /// Bytes needed.
        expected: u64,
    },
    /// The node type does not exist or is not the one looked for.
    #[error("{at}: node type is {found}, expected {expected}")]
    Type {
        /// Where.
        at: Location,
        /// The number found.
        found: u8,
        /// What was looked for.
        expected: &'static str,
    },
    /// The checksum does not match.
    #[error("{at}: {} CRC mismatch: stored {stored:#010x}, computed {computed:#010x}", what.name())]
    Crc {
        /// Where.
        at: Location,
        /// The kind of node.
        what: NodeType,
        /// The checksum in the node.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// A field has a value it cannot have.
    #[error("{at}: {}: {field} is {found}, expected {expected}", what.name())]
    Field {
        /// Where.
        at: Location,
        /// The kind of node.
        what: NodeType,
        /// The field at fault.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What was expected.
        expected: Expected,
    },
    /// Something is programmed behind the end of the nodes.
    #[error("{at}: programmed bytes behind the last node, expected erased flash")]
    NotErased {
        /// The first such byte.
        at: Location,
    },
    /// The nodes of a LEB end off the grid on which it is written.
    #[error("{at}: the last node ends here, expected a multiple of {unit}")]
    Misaligned {
        /// The end.
        at: Location,
        /// The minimum I/O unit.
        unit: u32,
    },
    /// A valid format that is not understood here.
    #[error("{at}: {}: {field} {found:#x} is not supported", what.name())]
    Unsupported {
        /// Where.
        at: Location,
        /// The kind of node.
        what: NodeType,
        /// The field at fault.
        field: &'static str,
        /// Its value.
        found: u64,
    },
}

impl FormatError {
    /// How the error is to be answered.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unsupported { .. } => ErrorClass::Unsupported,
            _ => ErrorClass::Corruption,
        }
    }

    /// Where it is.
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
