//! Errors of opening a volume.

use eraseblock_base::{Code, ErrorClass, Location};
use eraseblock_mtd::MtdError;
use eraseblock_ubifs_format::FormatError;
use eraseblock_ubifs_format::lpt::LptError;

/// A volume that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UbifsError {
    /// A required node is not valid.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] MtdError),
    /// A node of the LEB properties tree is not valid.
    #[error(transparent)]
    Lpt(#[from] LptError),
    /// No space is left on the volume.
    #[error("no space left on the volume")]
    NoSpace,
    /// The file system is, or has turned, read-only.
    #[error("the file system is read-only: {reason}")]
    ReadOnly {
        /// The reason.
        reason: String,
    },
    /// Linux would refuse the volume here (strict opening only).
    #[error("{at}: {message}")]
    Refused {
        /// The place.
        at: Location,
        /// The code of the finding that salvaging would have made.
        code: Code,
        /// What was found and expected.
        message: String,
    },
    /// The volume contains nothing of a UBIFS file system.
    #[error("no UBIFS node on a volume of {lebs} LEBs of {leb_size} bytes")]
    NotUbifs {
        /// Number of LEBs examined.
        lebs: u32,
        /// Usable bytes in a LEB.
        leb_size: u32,
    },
}

impl UbifsError {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Format(error) => error.class(),
            Self::Device(error) => error.class(),
            Self::Lpt(error) => error.class(),
            Self::NoSpace => ErrorClass::NoSpace,
            Self::ReadOnly { .. } => ErrorClass::Caller,
            Self::Refused { .. } | Self::NotUbifs { .. } => ErrorClass::Corruption,
        }
    }
}
