//! Errors of the run time, and why writing has ended.
//!
//! Layer: data. Uses nothing else of the run time.

use eraseblock_jffs2_format::FormatError;
use eraseblock_mtd::MtdError;
use eraseblock_vfs::{FsError, FsErrorKind};
use std::fmt;

/// Why writing has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    /// It has been unmounted.
    Unmounted,
    /// Data was lost, or a node forbids writing: the reason and the place.
    Because(String),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmounted => f.write_str("the file system has been unmounted"),
            Self::Because(reason) => write!(f, "the file system is read-only: {reason}"),
        }
    }
}

/// Converts a device error to one of the file system.
pub(crate) fn io(error: MtdError) -> FsError {
    let kind = match error {
        MtdError::ReadOnly { .. } => FsErrorKind::ReadOnly,
        _ => FsErrorKind::Io,
    };
    FsError::from_source(kind, error)
}

/// Converts the damage of a node to an error of the file system.
pub(crate) fn corrupted(error: FormatError) -> FsError {
    FsError::from_source(FsErrorKind::Corrupted, error)
}

pub(crate) fn no_space(what: &str) -> FsError {
    FsError::new(FsErrorKind::NoSpace, format!("no space for {what}"))
}

/// Returns the error for a request that an inode does not allow.
pub(crate) fn refuse(kind: FsErrorKind, ino: u32, message: &str) -> FsError {
    FsError::new(kind, format!("inode {ino}: {message}"))
}

/// Returns the error for a damaged inode.
pub(crate) fn damaged(ino: u32, message: &str) -> FsError {
    refuse(FsErrorKind::Corrupted, ino, message)
}
