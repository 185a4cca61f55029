//! Errors of decoding.

use core::error::Error;
use core::fmt;
use eraseblock_base::{ErrorClass, Location};

/// The value that a field should have had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Exactly this number.
    Number(u64),
    /// At most this number.
    AtMost(u64),
    /// A value described in words.
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
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FormatError {
    /// Too few bytes for the structure.
    Short {
        /// The place.
        at: Location,
        /// The structure.
        what: &'static str,
        /// Bytes available.
        found: usize,
        /// Bytes required.
        expected: usize,
    },
    /// A wrong magic number.
    Magic {
        /// The place.
        at: Location,
        /// The structure.
        what: &'static str,
        /// The number found.
        found: u32,
        /// The number expected.
        expected: u32,
    },
    /// The checksum does not match the bytes.
    Crc {
        /// The place.
        at: Location,
        /// The structure.
        what: &'static str,
        /// The checksum on flash.
        stored: u32,
        /// The checksum of the bytes on flash.
        computed: u32,
    },
    /// The checksum matches, but a field breaks a rule: no power cut explains this.
    Field {
        /// The place.
        at: Location,
        /// The structure.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// The value required by the rule.
        expected: Expected,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { at, what, found, expected } => {
                write!(f, "{at}: {what} has {found} bytes, expected {expected}")
            }
            Self::Magic { at, what, found, expected } => {
                write!(f, "{at}: {what} magic is {found:#010x}, expected {expected:#010x}")
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
    /// Returns the class, which decides how to react. A structure without its magic or with a wrong
    /// checksum may be the trace of an interrupted write; an illegal field never is (spec: ubi
    /// 8.2).
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Short { .. } => ErrorClass::Caller,
            Self::Magic { .. } | Self::Crc { .. } => ErrorClass::TornByPowerCut,
            Self::Field { .. } => ErrorClass::Corruption,
        }
    }

    /// Returns the place.
    pub fn location(&self) -> Location {
        match self {
            Self::Short { at, .. }
            | Self::Magic { at, .. }
            | Self::Crc { at, .. }
            | Self::Field { at, .. } => *at,
        }
    }
}
