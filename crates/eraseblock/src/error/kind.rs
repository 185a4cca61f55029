//! What kind of failure an error is.

use super::cause::{AnyError, causes, is_host_full};
use super::layers::facts;
use eraseblock_base::ErrorClass;
use eraseblock_vfs::{FsError, FsErrorKind};
use std::io;

/// The kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments contradict each other, or the target.
    Usage,
    /// What was asked for is impossible: no such file, a name in use and the like.
    Refused,
    /// Bytes that are not what the format demands.
    Corruption,
    /// The flash failed to read, program or erase.
    Media,
    /// The image or the flash is full.
    FlashFull,
    /// A valid format that is not supported.
    Unsupported,
    /// A disk of the host is full.
    HostFull,
    /// The host refused an operation on a file.
    Host,
    /// Anything else.
    Other,
}

impl ErrorKind {
    /// Returns its name in `--json` documents (docs/json.md).
    pub fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Refused => "refused",
            Self::Corruption => "corruption",
            Self::Media => "media",
            Self::FlashFull => "flash-full",
            Self::Unsupported => "unsupported",
            Self::HostFull => "host-full",
            Self::Host => "host",
            Self::Other => "other",
        }
    }

    /// The class of an error, or else that of its first cause that has one.
    pub(super) fn of(error: &AnyError) -> Self {
        // A full disk decides what the user does next, however deep it lies.
        if is_host_full(error) {
            return Self::HostFull;
        }
        causes(error).find_map(own).unwrap_or(Self::Other)
    }

    fn of_class(class: ErrorClass) -> Self {
        match class {
            ErrorClass::TornByPowerCut | ErrorClass::Corruption => Self::Corruption,
            ErrorClass::Media => Self::Media,
            ErrorClass::NoSpace => Self::FlashFull,
            ErrorClass::Unsupported => Self::Unsupported,
            ErrorClass::Caller => Self::Refused,
        }
    }

    fn of_kind(kind: FsErrorKind) -> Self {
        match kind {
            FsErrorKind::Corrupted => Self::Corruption,
            FsErrorKind::Io => Self::Media,
            FsErrorKind::NoSpace => Self::FlashFull,
            FsErrorKind::Unsupported | FsErrorKind::NoKey => Self::Unsupported,
            _ => Self::Refused,
        }
    }
}

/// The class of an error by its type alone.
fn own(error: &AnyError) -> Option<ErrorKind> {
    if let Some(class) = facts(error).class {
        return Some(ErrorKind::of_class(class));
    }
    if let Some(error) = error.downcast_ref::<FsError>() {
        return Some(ErrorKind::of_kind(error.kind()));
    }
    error.is::<io::Error>().then_some(ErrorKind::Host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_decide_where_an_error_has_no_class() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let full = FsError::from_source(FsErrorKind::Io, full);
        assert_eq!(ErrorKind::of(&full), ErrorKind::HostFull);
        let missing = FsError::new(FsErrorKind::NotFound, "x");
        assert_eq!(ErrorKind::of(&missing), ErrorKind::Refused);
        let device = FsError::from_source(FsErrorKind::Io, io::Error::other("x"));
        assert_eq!(ErrorKind::of(&device), ErrorKind::Media);
        assert_eq!(ErrorKind::of(&io::Error::other("x")), ErrorKind::Host);
        assert_eq!(ErrorKind::of(&std::fmt::Error), ErrorKind::Other);
    }
}
