//! Errors of opening a volume.

#[cfg(feature = "write")]
use crate::mkfs::MkfsError;
use eraseblock_base::{Code, ErrorClass, Location};
use eraseblock_mtd::MtdError;
use eraseblock_ubifs_format::FormatError;
use eraseblock_ubifs_format::lpt::LptError;
use eraseblock_vfs::FsError;
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
    /// Linux would refuse the volume here (strict opening only), or a structure on flash or in memory
    /// is impossible.
    ///
    /// This is a finding that ends the work: salvaging reports the same place, code and text as an
    /// [`eraseblock_base::Finding`] and goes on. `code` says what it is, never changes, and carries
    /// the remedy; `message` says it for people, with the values found. A variant for each of the
    /// texts would repeat the codes, and nothing decides by more than the code.
    Refused {
        /// The place.
        at: Location,
        /// The code of the finding that salvaging would have made.
        code: Code,
        /// What was found and expected.
        message: String,
    },
    /// An empty volume cannot get a file system.
    #[cfg(feature = "write")]
    Make(Box<MkfsError>),
    /// An operation of the file system failed while it was mounted.
    Operation(FsError),
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
            #[cfg(feature = "write")]
            Self::Make(error) => write!(f, "{}: {error}", Location::Whole),
            Self::Operation(error) => write!(f, "{}: {error}", Location::Whole),
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
            #[cfg(feature = "write")]
            Self::Make(error) => Some(&**error),
            Self::Operation(error) => Some(error),
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
            #[cfg(feature = "write")]
            Self::Make(_) => ErrorClass::Corruption,
            Self::Refused { .. } | Self::Operation(_) | Self::NotUbifs { .. } => {
                ErrorClass::Corruption
            }
        }
    }
}
