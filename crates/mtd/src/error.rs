//! Errors of device operations.

use eraseblock_base::{ErrorClass, Location};

/// A device operation that failed. Corrected and uncorrectable bits are not errors;
/// [`crate::ReadOutcome`] reports them together with the bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MtdError {
    /// The host failed to read or write the file or device that stores the flash.
    #[error("{at}: {operation} failed: {source}")]
    Io {
        /// The place.
        at: Location,
        /// `read`, `program`, `erase`, ...
        operation: &'static str,
        /// The host's reason.
        source: std::io::Error,
    },
    /// The chip reported that a program or erase operation failed (status bit).
    #[error("{at}: {operation} failed: the chip reports a failed operation")]
    Failed {
        /// The place.
        at: Location,
        /// `program` or `erase`.
        operation: &'static str,
    },
    /// The range leaves the device or is not aligned to the unit of the operation.
    #[error("{at}: {operation} of {len} bytes is not possible: expected {expected}")]
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
    #[error("{at}: chip rule broken: {rule}")]
    Rule {
        /// The place.
        at: Location,
        /// The rule.
        rule: &'static str,
    },
    /// The device was opened read-only, or switched permanently to read-only.
    #[error("{at}: {operation} refused: the device is read-only")]
    ReadOnly {
        /// The place.
        at: Location,
        /// The requested operation.
        operation: &'static str,
    },
    /// The simulated power went off at this operation; everything fails until the next power-on.
    #[error("power is off")]
    PowerOff,
    /// No eraseblock is left.
    #[error("{at}: no eraseblock is left for {operation}")]
    NoSpace {
        /// The place.
        at: Location,
        /// The requested operation.
        operation: &'static str,
    },
    /// The device does not support the operation.
    #[error("{operation} is not supported by this device")]
    Unsupported {
        /// The requested operation.
        operation: &'static str,
    },
}

impl MtdError {
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
