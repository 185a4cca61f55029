//! Errors of UBI operations.

use crate::attach::Refusal;
use crate::runtime::ReadOnlyReason;
use eraseblock_base::{ErrorClass, Location, VolumeId};
use eraseblock_mtd::MtdError;
use eraseblock_ubi_format::{FormatError, LayoutError};
use std::error::Error;
use std::fmt;

/// A UBI operation that failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum UbiError {
    /// The device failed.
    Device(MtdError),
    /// A structure on flash cannot be accepted.
    Format(FormatError),
    /// The header offsets are impossible.
    Layout(LayoutError),
    /// Device and layout do not match.
    Geometry {
        /// The parameter that does not match.
        field: &'static str,
        /// The device's.
        found: u32,
        /// The layout's.
        expected: u32,
    },
    /// The volume does not exist.
    NoVolume {
        /// Its name or number.
        wanted: String,
    },
    /// A LEB of a static volume does not have the checksum its header states.
    DataCrc {
        /// The place.
        at: Location,
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the data.
        computed: u32,
    },
    /// Linux would refuse the device.
    Refused(Refusal),
    /// The device is read-only.
    ReadOnly {
        /// The reason.
        reason: ReadOnlyReason,
    },
    /// Not enough eraseblocks.
    NoSpace {
        /// The number requested.
        wanted: u64,
        /// The number available.
        available: u64,
    },
    /// The name or number already exists.
    Exists {
        /// Its name or number.
        what: String,
    },
    /// The volume is already open.
    Busy {
        /// Its number.
        id: VolumeId,
    },
    /// The volume was being updated during a power cut: only a new update helps.
    Damaged {
        /// Its number.
        id: VolumeId,
    },
    /// The caller asked for something impossible.
    Request {
        /// The requested parameter.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What would have been possible.
        expected: &'static str,
    },
    /// The content of a volume could not be read from its source.
    Content(std::io::Error),
}

impl fmt::Display for UbiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => fmt::Display::fmt(error, f),
            Self::Format(error) => fmt::Display::fmt(error, f),
            Self::Layout(error) => write!(f, "impossible UBI layout: {error}"),
            Self::Geometry { field, found, expected } => {
                write!(f, "{field} of the device is {found}, expected {expected}")
            }
            Self::NoVolume { wanted } => write!(f, "no volume {wanted}"),
            Self::DataCrc { at, stored, computed } => write!(
                f,
                "{at}: data CRC mismatch: stored {stored:#010x}, computed {computed:#010x}"
            ),
            Self::Refused(refusal) => write!(
                f,
                "{}: the device cannot be attached for writing: {} [{}]",
                refusal.at, refusal.message, refusal.code
            ),
            Self::ReadOnly { reason } => write!(f, "the device is read-only: {reason}"),
            Self::NoSpace { wanted, available } => {
                write!(f, "{wanted} eraseblocks wanted, {available} available")
            }
            Self::Exists { what } => write!(f, "volume {what} exists already"),
            Self::Busy { id } => write!(f, "volume {id} is in use"),
            Self::Damaged { id } => write!(f, "volume {id} is damaged: an update was interrupted"),
            Self::Request { field, found, expected } => {
                write!(f, "{field} is {found}, expected {expected}")
            }
            Self::Content(error) => write!(f, "reading the new content: {error}"),
        }
    }
}

impl Error for UbiError {}

impl From<MtdError> for UbiError {
    fn from(error: MtdError) -> Self {
        Self::Device(error)
    }
}

impl From<FormatError> for UbiError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<LayoutError> for UbiError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

impl UbiError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            Self::Content(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Device(error) => error.class(),
            Self::Format(error) => error.class(),
            Self::Layout(_)
            | Self::Geometry { .. }
            | Self::NoVolume { .. }
            | Self::ReadOnly { .. }
            | Self::Exists { .. }
            | Self::Busy { .. }
            | Self::Request { .. } => ErrorClass::Caller,
            Self::DataCrc { .. } | Self::Damaged { .. } | Self::Refused(_) => {
                ErrorClass::Corruption
            }
            Self::NoSpace { .. } => ErrorClass::NoSpace,
            Self::Content(_) => ErrorClass::Media,
        }
    }
}

/// Converts an error for volume handles that act as a device ([`eraseblock_mtd::LebDevice`]).
pub(crate) fn to_mtd(error: UbiError, at: Location, operation: &'static str) -> MtdError {
    match error {
        // The requested LEB, and inside, the eraseblock that failed.
        UbiError::Device(error @ (MtdError::Io { .. } | MtdError::Failed { .. })) => {
            MtdError::Io { at, operation, source: std::io::Error::other(error) }
        }
        UbiError::Device(error) => error,
        UbiError::ReadOnly { .. } => MtdError::ReadOnly { at, operation },
        UbiError::NoSpace { .. } => MtdError::NoSpace { at, operation },
        UbiError::Request { expected, found, .. } => {
            MtdError::Range { at, operation, len: found, expected }
        }
        other => MtdError::Io { at, operation, source: std::io::Error::other(other) },
    }
}
