//! Errors of UBI operations.

use crate::attach::Refusal;
use crate::runtime::ReadOnlyReason;
use eraseblock_base::{ErrorClass, Location, VolumeId};
use eraseblock_mtd::MtdError;
use eraseblock_ubi_format::{FormatError, LayoutError};

/// A UBI operation that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UbiError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] MtdError),
    /// A structure on flash cannot be accepted.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The header offsets are impossible.
    #[error("impossible UBI layout: {0}")]
    Layout(#[from] LayoutError),
    /// Device and layout do not match.
    #[error("{field} of the device is {found}, expected {expected}")]
    Geometry {
        /// The parameter that does not match.
        field: &'static str,
        /// The device's.
        found: u32,
        /// The layout's.
        expected: u32,
    },
    /// The volume does not exist.
    #[error("no volume {wanted}")]
    NoVolume {
        /// Its name or number.
        wanted: String,
    },
    /// A LEB of a static volume does not have the checksum its header states.
    #[error("{at}: data CRC mismatch: stored {stored:#010x}, computed {computed:#010x}")]
    DataCrc {
        /// The place.
        at: Location,
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the data.
        computed: u32,
    },
    /// Linux would refuse the device.
    #[error("{}: the device cannot be attached for writing: {} [{}]", .0.at, .0.message, .0.code)]
    Refused(Refusal),
    /// The device is read-only.
    #[error("the device is read-only: {reason}")]
    ReadOnly {
        /// The reason.
        reason: ReadOnlyReason,
    },
    /// Not enough eraseblocks.
    #[error("{wanted} eraseblocks wanted, {available} available")]
    NoSpace {
        /// The number requested.
        wanted: u64,
        /// The number available.
        available: u64,
    },
    /// The name or number already exists.
    #[error("volume {what} exists already")]
    Exists {
        /// Its name or number.
        what: String,
    },
    /// The volume is already open.
    #[error("volume {id} is in use")]
    Busy {
        /// Its number.
        id: VolumeId,
    },
    /// The volume was being updated during a power cut: only a new update helps.
    #[error("volume {id} is damaged: an update was interrupted")]
    Damaged {
        /// Its number.
        id: VolumeId,
    },
    /// The caller asked for something impossible.
    #[error("{field} is {found}, expected {expected}")]
    Request {
        /// The requested parameter.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What would have been possible.
        expected: &'static str,
    },
    /// The content of a volume could not be read from its source.
    #[error("reading the new content: {0}")]
    Content(std::io::Error),
}

impl UbiError {
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
