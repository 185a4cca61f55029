//! Why a volume cannot be opened.

use eraseblock_base::{ErrorClass, Location};
use eraseblock_mtd::MtdError;
use eraseblock_ubifs_format::FormatError;
use eraseblock_ubifs_format::lpt::LptError;

/// A volume that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UbifsError {
    /// A node that is needed is not valid.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] MtdError),
    /// A node of the LEB properties tree is not valid.
    #[error(transparent)]
    Lpt(#[from] LptError),
    /// No room is left on the volume.
    #[error("no space left on the volume")]
    NoSpace,
    /// The file system is, or has turned, read-only.
    #[error("the file system is read-only: {reason}")]
    ReadOnly {
        /// Why.
        reason: String,
    },
    /// Linux would refuse the volume here (strict opening only).
    #[error("{at}: {message}")]
    Refused {
        /// Where.
        at: Location,
        /// The code of the finding that salvaging would have made.
        code: &'static str,
        /// What was found and expected.
        message: String,
    },
    /// There is nothing of a UBIFS file system on the volume.
    #[error("no UBIFS node on a volume of {lebs} LEBs of {leb_size} bytes")]
    NotUbifs {
        /// LEBs looked at.
        lebs: u32,
        /// Usable bytes in a LEB.
        leb_size: u32,
    },
}

impl UbifsError {
    /// How the error is to be answered.
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
