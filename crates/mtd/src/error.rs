//! Errors of device operations.

use eraseblock_base::{ErrorClass, Location};
use std::error::Error;
use std::fmt;

/// A device operation that failed. Corrected and uncorrectable bits are not errors;
/// [`crate::ReadOutcome`] reports them together with the bytes.
#[derive(Debug)]
#[non_exhaustive]
pub enum MtdError {
    /// The host failed to read or write the file or device that stores the flash.
    Io {
        /// The place.
        at: Location,
        /// `read`, `program`, `erase`, ...
        operation: &'static str,
        /// The host's reason.
        source: std::io::Error,
    },
    /// The chip reported that a program or erase operation failed (status bit).
    Failed {
        /// The place.
        at: Location,
        /// `program` or `erase`.
        operation: &'static str,
    },
    /// The range leaves the device or is not aligned to the unit of the operation.
    Range {
        /// The place.
        at: Location,
        /// The requested operation.
        operation: &'static str,
        /// The length in bytes.
        len: u64,
        /// The allowed range or alignment.
        expected: &'static str,
    },
    /// A rule of the chip was broken: a driver bug, reported with the address.
    Rule {
        /// The place.
        at: Location,
        /// The rule.
        rule: &'static str,
    },
    /// The device was opened read-only, or switched permanently to read-only.
    ReadOnly {
        /// The place.
        at: Location,
        /// The requested operation.
        operation: &'static str,
    },
    /// The simulated power went off at this operation; everything fails until the next power-on.
    PowerOff,
    /// No eraseblock is left.
    NoSpace {
        /// The place.
        at: Location,
        /// The requested operation.
        operation: &'static str,
    },
    /// The device does not support the operation.
    Unsupported {
        /// The requested operation.
        operation: &'static str,
    },
}

impl fmt::Display for MtdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { at, operation, source } => write!(f, "{at}: {operation} failed: {source}"),
            Self::Failed { at, operation } => {
                write!(f, "{at}: {operation} failed: the chip reports a failed operation")
            }
            Self::Range { at, operation, len, expected } => {
                write!(f, "{at}: {operation} of {len} bytes is not possible: expected {expected}")
            }
            Self::Rule { at, rule } => write!(f, "{at}: chip rule broken: {rule}"),
            Self::ReadOnly { at, operation } => {
                write!(f, "{at}: {operation} refused: the device is read-only")
            }
            Self::PowerOff => f.write_str("power is off"),
            Self::NoSpace { at, operation } => {
                write!(f, "{at}: no eraseblock is left for {operation}")
            }
            Self::Unsupported { operation } => {
                write!(f, "{operation} is not supported by this device")
            }
        }
    }
}

impl Error for MtdError {}

impl MtdError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Returns the class, which decides how to react to the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Io { .. } | Self::Failed { .. } | Self::PowerOff => ErrorClass::Media,
            Self::Range { .. } | Self::Rule { .. } | Self::ReadOnly { .. } => ErrorClass::Caller,
            Self::NoSpace { .. } => ErrorClass::NoSpace,
            Self::Unsupported { .. } => ErrorClass::Unsupported,
        }
    }
}
