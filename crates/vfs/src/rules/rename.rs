//! Decides whether a rename is allowed.

use super::{check_growth, check_removal, quoted, refuse};
use crate::attr::{Attr, FileKind};
use crate::error::{FsError, FsErrorKind};
use crate::write::RenameMode;

/// The inputs of the decision about a rename. Both directories and both names have been checked
/// individually, and the source exists.
#[derive(Clone, Copy, Debug)]
pub struct RenameCheck<'a> {
    /// The directory of the old name.
    pub old_dir: &'a Attr,
    /// The renamed inode.
    pub source: &'a Attr,
    /// The directory of the new name.
    pub new_dir: &'a Attr,
    /// The new name.
    pub new_name: &'a [u8],
    /// The inode that has the new name now.
    pub target: Option<&'a Attr>,
    /// What to do with that inode.
    pub mode: RenameMode,
    /// Whether `source` is `new_dir` or an ancestor of it.
    pub into_itself: bool,
    /// Whether `target` is `old_dir` or an ancestor of it.
    pub onto_ancestor: bool,
    /// Whether `target` is a directory with entries.
    pub target_has_entries: bool,
}

/// What to do for an allowed rename.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameStep {
    /// Nothing: both names already refer to the same inode.
    Nothing,
    /// The requested rename.
    Go,
}

/// Decides about a rename.
///
/// # Errors
///
/// Refuses in the order of Linux: EEXIST (no-replace), ENOENT (exchange with nothing), EINVAL (into
/// itself), ENOTEMPTY (onto its own ancestor), then nothing to do, EPERM (immutable, append-only),
/// ENOTDIR, EISDIR, ENOENT (the new directory is removed), ENOTEMPTY.
pub fn check_rename(check: &RenameCheck<'_>) -> Result<RenameStep, FsError> {
    let name = quoted(check.new_name);
    let exchange = check.mode == RenameMode::Exchange;
    match (check.mode, check.target) {
        (RenameMode::NoReplace, Some(_)) => {
            return refuse(FsErrorKind::Exists, format!("{name} exists already"));
        }
        (RenameMode::Exchange, None) => {
            return refuse(FsErrorKind::NotFound, format!("{name} does not exist"));
        }
        _ => {}
    }
    if check.into_itself || (exchange && check.onto_ancestor) {
        return refuse(FsErrorKind::Invalid, "a directory cannot be moved into itself");
    }
    if check.onto_ancestor {
        return refuse(FsErrorKind::NotEmpty, format!("{name} contains what is renamed"));
    }
    if check.target.is_some_and(|target| target.ino == check.source.ino) {
        return Ok(RenameStep::Nothing);
    }
    let is_directory = check.source.kind == FileKind::Directory;
    check_removal(check.old_dir, check.source, is_directory)?;
    match check.target {
        None => check_growth(check.new_dir)?,
        Some(target) => {
            let wants = if exchange { target.kind == FileKind::Directory } else { is_directory };
            check_removal(check.new_dir, target, wants)?;
        }
    }
    if !exchange && check.target_has_entries {
        return refuse(FsErrorKind::NotEmpty, format!("{name} is a directory with entries"));
    }
    Ok(RenameStep::Go)
}
