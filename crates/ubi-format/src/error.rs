//! Why bytes are not what they claim to be.

use core::fmt;
use eraseblock_base::{ErrorClass, Location};

/// What a field should have held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Exactly this number.
    Number(u64),
    /// At most this number.
    AtMost(u64),
    /// Whatever the words say.
    Words(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::AtMost(number) => write!(f, "at most {number}"),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// A UBI structure that cannot be accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Too few bytes for the structure.
    #[error("{at}: {what} has {found} bytes, expected {expected}")]
    Short {
        /// Where.
        at: Location,
        /// Which structure.
        what: &'static str,
        /// Bytes there are.
        found: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// Another magic number.
    #[error("{at}: {what} magic is {found:#010x}, expected {expected:#010x}")]
    Magic {
        /// Where.
        at: Location,
        /// Which structure.
        what: &'static str,
        /// The number there.
        found: u32,
        /// The number there should be.
        expected: u32,
    },
    /// The checksum does not fit the bytes.
    #[error("{at}: {what} CRC mismatch: stored {stored:#010x}, computed {computed:#010x}")]
    Crc {
        /// Where.
        at: Location,
        /// Which structure.
        what: &'static str,
        /// The checksum on flash.
        stored: u32,
        /// The checksum of the bytes on flash.
        computed: u32,
    },
    /// The checksum fits, but a field breaks a rule: no power cut explains this.
    #[error("{at}: {what}: {field} is {found}, expected {expected}")]
    Field {
        /// Where.
        at: Location,
        /// Which structure.
        what: &'static str,
        /// Which field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What the rule demands.
        expected: Expected,
    },
}

impl FormatError {
    /// How the error is to be answered. A structure without its magic or with a wrong checksum may
    /// be the trace of an interrupted write; an illegal field never is (spec: ubi 8.2).
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Short { .. } => ErrorClass::Caller,
            Self::Magic { .. } | Self::Crc { .. } => ErrorClass::TornByPowerCut,
            Self::Field { .. } => ErrorClass::Corruption,
        }
    }

    /// Where it is.
    pub fn location(&self) -> Location {
        match self {
            Self::Short { at, .. }
            | Self::Magic { at, .. }
            | Self::Crc { at, .. }
            | Self::Field { at, .. } => *at,
        }
    }
}
