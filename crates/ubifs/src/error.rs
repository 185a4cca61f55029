//! Errors of opening a volume.

use eraseblock_base::{Code, ErrorClass, Location};
use eraseblock_mtd::MtdError;
use eraseblock_ubifs_format::FormatError;
use eraseblock_ubifs_format::lpt::LptError;
use std::error::Error;
use std::fmt;

/// A volume that cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum UbifsError {
    /// A required node is not valid.
    Format(FormatError),
    /// The device failed.
    Device(MtdError),
    /// A node of the LEB properties tree is not valid.
    Lpt(LptError),
    /// No space is left on the volume.
    NoSpace,
    /// The file system is, or has turned, read-only.
    ReadOnly {
        /// The reason.
        reason: String,
    },
    /// Linux would refuse the volume here (strict opening only).
    Refused {
        /// The place.
        at: Location,
        /// The code of the finding that salvaging would have made.
        code: Code,
        /// What was found and expected.
        message: String,
    },
    /// The volume contains nothing of a UBIFS file system.
    NotUbifs {
        /// Number of LEBs examined.
        lebs: u32,
        /// Usable bytes in a LEB.
        leb_size: u32,
    },
}

impl fmt::Display for UbifsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => fmt::Display::fmt(error, f),
            Self::Device(error) => fmt::Display::fmt(error, f),
            Self::Lpt(error) => fmt::Display::fmt(error, f),
            Self::NoSpace => f.write_str("no space left on the volume"),
            Self::ReadOnly { reason } => write!(f, "the file system is read-only: {reason}"),
            Self::Refused { at, message, .. } => write!(f, "{at}: {message}"),
            Self::NotUbifs { lebs, leb_size } => {
                write!(f, "no UBIFS node on a volume of {lebs} LEBs of {leb_size} bytes")
            }
        }
    }
}

impl Error for UbifsError {}

impl From<FormatError> for UbifsError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<MtdError> for UbifsError {
    fn from(error: MtdError) -> Self {
        Self::Device(error)
    }
}

impl From<LptError> for UbifsError {
    fn from(error: LptError) -> Self {
        Self::Lpt(error)
    }
}

impl UbifsError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Device(error) => Some(error),
            _ => None,
        }
    }

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
