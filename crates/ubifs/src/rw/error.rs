//! Errors inside a mounted file system (layer 1).

use crate::error::UbifsError;
use eraseblock_base::{Code, ErrorClass, Leb, Location};
use eraseblock_mtd::MtdError;
use eraseblock_ubifs_format::FormatError;
use eraseblock_ubifs_format::lpt::LptError;
use eraseblock_vfs::{FsError, FsErrorKind};

/// A step that could not be done.
#[derive(Debug)]
pub(super) enum Fault {
    /// An error of the flash or of its content.
    Ubifs(UbifsError),
    /// A commit is required first; then the step can be repeated.
    CommitFirst,
    /// A refusal that is returned to the caller unchanged.
    Fs(FsError),
}

/// The result of a step.
pub(super) type Step<T> = Result<T, Fault>;

impl Fault {
    /// No space is left.
    pub(super) fn no_space() -> Self {
        Self::Ubifs(UbifsError::NoSpace)
    }

    pub(super) fn is_no_space(&self) -> bool {
        matches!(self, Self::Ubifs(UbifsError::NoSpace))
    }

    /// Creates an error for an impossible state on flash or in memory.
    pub(super) fn refused(at: Location, code: impl Into<Code>, message: impl Into<String>) -> Self {
        Self::Ubifs(UbifsError::Refused { at, code: code.into(), message: message.into() })
    }

    /// Returns a refused operation.
    pub(super) fn fs(kind: FsErrorKind, message: impl Into<String>) -> Self {
        Self::Fs(FsError::new(kind, message))
    }

    /// Describes the error.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Ubifs(error) => error.to_string(),
            Self::CommitFirst => "the journal is full".to_owned(),
            Self::Fs(error) => error.to_string(),
        }
    }

    /// Converts the error for mounting.
    pub(super) fn into_ubifs(self) -> UbifsError {
        match self {
            Self::Ubifs(error) => error,
            Self::CommitFirst => UbifsError::NoSpace,
            Self::Fs(error) => UbifsError::Operation(error),
        }
    }

    /// Converts the error for the file-system interface.
    pub(super) fn into_fs(self) -> FsError {
        match self {
            Self::Fs(error) => error,
            Self::CommitFirst => FsError::new(FsErrorKind::NoSpace, "the journal is full"),
            Self::Ubifs(error) => {
                let kind = match (&error, error.class()) {
                    (
                        UbifsError::ReadOnly { .. } | UbifsError::Device(MtdError::ReadOnly { .. }),
                        _,
                    ) => FsErrorKind::ReadOnly,
                    (_, ErrorClass::NoSpace) => FsErrorKind::NoSpace,
                    (_, ErrorClass::Media | ErrorClass::TornByPowerCut) => FsErrorKind::Io,
                    (_, ErrorClass::Unsupported) => FsErrorKind::Unsupported,
                    _ => FsErrorKind::Corrupted,
                };
                FsError::from_source(kind, error)
            }
        }
    }
}

impl From<UbifsError> for Fault {
    fn from(error: UbifsError) -> Self {
        Self::Ubifs(error)
    }
}

impl From<MtdError> for Fault {
    fn from(error: MtdError) -> Self {
        Self::Ubifs(error.into())
    }
}

impl From<FormatError> for Fault {
    fn from(error: FormatError) -> Self {
        Self::Ubifs(error.into())
    }
}

impl From<LptError> for Fault {
    fn from(error: LptError) -> Self {
        Self::Ubifs(error.into())
    }
}

impl From<FsError> for Fault {
    fn from(error: FsError) -> Self {
        Self::Fs(error)
    }
}

/// Returns a location in a LEB given by numbers.
pub(super) fn at(leb: u32, offset: u32) -> Location {
    Location::Leb(Leb::new(leb), offset)
}
