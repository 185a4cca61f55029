//! What lies beneath an error: its causes, and what they mean for the user.
//!
//! The message of an error of ours contains those of its causes, so `source` returns nothing and
//! `get_ref` the cause, as with [`io::Error::get_ref`].

use super::layers::facts;
use eraseblock_mtd::MtdError;
use eraseblock_vfs::{FsError, FsErrorKind};
use std::error::Error;
use std::io;
use std::iter::successors;

/// An error of any layer.
pub(super) type AnyError = dyn Error + 'static;

/// Returns an error and its causes, outermost first.
pub(super) fn causes(error: &AnyError) -> impl Iterator<Item = &AnyError> {
    successors(Some(error), |error| cause(*error))
}

/// Returns the cause of an error, whether its message contains that of the cause or not.
fn cause(error: &AnyError) -> Option<&AnyError> {
    facts(error).cause.or_else(|| error.source())
}

/// Returns the message of an error with those of its causes.
pub(super) fn message(error: &AnyError) -> String {
    let messages: Vec<String> =
        successors(Some(error), |error| (*error).source()).map(ToString::to_string).collect();
    messages.join(": ")
}

/// Returns the kind of the first cause that is an error of the host, or means what one would.
pub(super) fn io_kind(error: &AnyError) -> Option<io::ErrorKind> {
    causes(error).find_map(|error| match error.downcast_ref::<FsError>().map(FsError::kind) {
        Some(FsErrorKind::NotFound) => Some(io::ErrorKind::NotFound),
        Some(FsErrorKind::Exists) => Some(io::ErrorKind::AlreadyExists),
        Some(FsErrorKind::NotADirectory) => Some(io::ErrorKind::NotADirectory),
        Some(FsErrorKind::IsADirectory) => Some(io::ErrorKind::IsADirectory),
        _ => error.downcast_ref::<io::Error>().map(io::Error::kind),
    })
}

/// Returns whether the reader of a pipe has left.
pub(super) fn is_broken_pipe(error: &AnyError) -> bool {
    host_kinds(error).any(|kind| kind == io::ErrorKind::BrokenPipe)
}

/// Returns whether a disk of the host is full.
pub(super) fn is_host_full(error: &AnyError) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    host_kinds(error).any(|kind| matches!(kind, StorageFull | QuotaExceeded | FileTooLarge))
}

/// Returns whether a simulated chip has lost its power.
pub(super) fn is_power_off(error: &AnyError) -> bool {
    causes(error).any(|error| matches!(error.downcast_ref(), Some(MtdError::PowerOff)))
}

fn host_kinds(error: &AnyError) -> impl Iterator<Item = io::ErrorKind> {
    causes(error).filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_base::Location;
    use eraseblock_ubi::UbiError;
    use eraseblock_ubifs::UbifsError;

    /// A full disk below a device, below UBI, below a file system.
    fn deep(kind: io::ErrorKind) -> FsError {
        let source = io::Error::new(kind, "no room");
        let device = MtdError::Io { at: Location::Whole, operation: "program", source };
        let through_io = io::Error::other(UbiError::Device(device));
        let again = MtdError::Io { at: Location::Whole, operation: "write", source: through_io };
        FsError::from_source(FsErrorKind::Io, UbifsError::Device(again))
    }

    #[test]
    fn the_host_is_found_however_deep_it_lies() {
        assert!(is_host_full(&deep(io::ErrorKind::StorageFull)));
        assert!(!is_host_full(&deep(io::ErrorKind::BrokenPipe)));
        assert!(is_broken_pipe(&deep(io::ErrorKind::BrokenPipe)));
        assert!(is_power_off(&FsError::from_source(
            FsErrorKind::Io,
            UbifsError::Device(MtdError::PowerOff)
        )));
    }

    #[test]
    fn each_cause_is_named_once() {
        let error = deep(io::ErrorKind::StorageFull);
        let expected = format!("{0}: write failed: {0}: program failed: no room", Location::Whole);
        assert_eq!((message(&error), error.to_string()), (expected.clone(), expected));
        assert!(error.source().is_none());
    }

    /// The causes of other crates' errors are not part of their messages.
    #[test]
    fn causes_of_other_crates_are_appended() {
        #[derive(Debug)]
        struct Outer(std::num::ParseIntError);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("line 3")
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&AnyError> {
                Some(&self.0)
            }
        }
        let error = Outer("x".parse::<u32>().unwrap_err());
        assert_eq!(message(&error), "line 3: invalid digit found in string");
    }
}
