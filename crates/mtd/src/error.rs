//! What can go wrong between a driver and a device.

use eraseblock_base::{ErrorClass, Location};

/// A device operation that failed. Corrected and uncorrectable bits are not errors: they are part
/// of a [`crate::ReadOutcome`], next to the bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MtdError {
    /// The host failed to read or write what backs the device.
    #[error("{at}: {operation} failed: {source}")]
    Io {
        /// Where.
        at: Location,
        /// `read`, `program`, `erase`, ...
        operation: &'static str,
        /// The host's reason.
        source: std::io::Error,
    },
    /// The chip reported that a program or erase operation failed (status bit).
    #[error("{at}: {operation} failed: the chip reports a failed operation")]
    Failed {
        /// Where.
        at: Location,
        /// `program` or `erase`.
        operation: &'static str,
    },
    /// The range leaves the device or is not aligned to the unit of the operation.
    #[error("{at}: {operation} of {len} bytes is not possible: expected {expected}")]
    Range {
        /// Where.
        at: Location,
        /// The operation asked for.
        operation: &'static str,
        /// How many bytes.
        len: u64,
        /// What would have been allowed.
        expected: &'static str,
    },
    /// A rule of the chip was broken: a driver's fault, reported with the address.
    #[error("{at}: chip rule broken: {rule}")]
    Rule {
        /// Where.
        at: Location,
        /// The rule.
        rule: &'static str,
    },
    /// The device was opened read-only, or switched to read-only for good.
    #[error("{at}: {operation} refused: the device is read-only")]
    ReadOnly {
        /// Where.
        at: Location,
        /// The operation asked for.
        operation: &'static str,
    },
    /// The power went off at this operation (simulated); nothing works until it is back.
    #[error("power is off")]
    PowerOff,
    /// No eraseblock is left.
    #[error("{at}: no eraseblock is left for {operation}")]
    NoSpace {
        /// Where.
        at: Location,
        /// The operation asked for.
        operation: &'static str,
    },
    /// The operation does not exist on this device.
    #[error("{operation} is not supported by this device")]
    Unsupported {
        /// The operation asked for.
        operation: &'static str,
    },
}

impl MtdError {
    /// How the error is to be answered.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Io { .. } | Self::Failed { .. } | Self::PowerOff => ErrorClass::Media,
            Self::Range { .. } | Self::Rule { .. } | Self::ReadOnly { .. } => ErrorClass::Caller,
            Self::NoSpace { .. } => ErrorClass::NoSpace,
            Self::Unsupported { .. } => ErrorClass::Unsupported,
        }
    }
}
