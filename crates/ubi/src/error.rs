//! What can go wrong above the device.

use eraseblock_base::{ErrorClass, Location};
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
    /// Device and layout do not fit each other.
    #[error("{field} of the device is {found}, expected {expected}")]
    Geometry {
        /// What does not fit.
        field: &'static str,
        /// The device's.
        found: u32,
        /// The layout's.
        expected: u32,
    },
    /// There is no such volume.
    #[error("no volume {wanted}")]
    NoVolume {
        /// Its name or number.
        wanted: String,
    },
    /// A LEB of a static volume does not have the checksum its header states.
    #[error("{at}: data CRC mismatch: stored {stored:#010x}, computed {computed:#010x}")]
    DataCrc {
        /// Where.
        at: Location,
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the data.
        computed: u32,
    },
}

impl UbiError {
    /// How the error is to be answered.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Device(error) => error.class(),
            Self::Format(error) => error.class(),
            Self::Layout(_) | Self::Geometry { .. } | Self::NoVolume { .. } => ErrorClass::Caller,
            Self::DataCrc { .. } => ErrorClass::Corruption,
        }
    }
}
