//! The rules of POSIX and Linux that apply before an operation changes anything: refusals in the
//! order of Linux, and what a new inode inherits. Every file system uses these functions, so that
//! all of them refuse alike.
//!
//! Permissions are not checked here, but in the front end.

pub mod acl;
mod names;
mod rename;

pub use acl::{check_acl_value, is_acl, is_acl_name};
pub use names::{
    XATTR_NAME_MAX, XattrUse, check_name, check_xattr_name, check_xattr_value, quoted,
};
pub use rename::{RenameCheck, RenameStep, check_rename};

use crate::attr::{Attr, FileKind, InodeFlags, Timestamp};
use crate::error::{FsError, FsErrorKind};
use crate::write::{NewInode, NewKind, SetAttr};

/// Shorthand for all functions below.
fn refuse<T>(kind: FsErrorKind, message: impl Into<String>) -> Result<T, FsError> {
    Err(FsError::new(kind, message))
}

/// Refuses an inode that is not a directory (ENOTDIR).
///
/// # Errors
///
/// Fails with ENOTDIR.
pub fn check_directory(attr: &Attr) -> Result<(), FsError> {
    match attr.kind {
        FileKind::Directory => Ok(()),
        _ => refuse(FsErrorKind::NotADirectory, format!("inode {}: not a directory", attr.ino)),
    }
}

/// Refuses an inode that is not a regular file: EISDIR for a directory, otherwise EINVAL.
///
/// # Errors
///
/// Fails with EISDIR or EINVAL.
pub fn check_regular(attr: &Attr) -> Result<(), FsError> {
    match attr.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => {
            refuse(FsErrorKind::IsADirectory, format!("inode {}: is a directory", attr.ino))
        }
        _ => refuse(FsErrorKind::Invalid, format!("inode {}: not a regular file", attr.ino)),
    }
}

/// Checks the creation of `name` in `dir`: the directory has not been removed (ENOENT), the name is
/// free (EEXIST), the directory may change (EPERM). Check the name first.
///
/// # Errors
///
/// Fails with the error given for the first condition that does not hold.
pub fn check_new_entry(dir: &Attr, name: &[u8], is_taken: bool) -> Result<(), FsError> {
    check_directory(dir)?;
    if is_taken {
        return refuse(FsErrorKind::Exists, format!("{} exists already", quoted(name)));
    }
    check_growth(dir)
}

/// Checks that a directory can get another entry: it has not been removed (ENOENT) and may change
/// (EPERM).
///
/// # Errors
///
/// Fails with the error given for the first condition that does not hold.
pub fn check_growth(dir: &Attr) -> Result<(), FsError> {
    check_directory(dir)?;
    if dir.nlink == 0 {
        return refuse(
            FsErrorKind::NotFound,
            format!("inode {}: the directory is removed", dir.ino),
        );
    }
    if dir.flags.immutable {
        return refuse(FsErrorKind::NotPermitted, format!("inode {}: is immutable", dir.ino));
    }
    Ok(())
}

/// Checks the removal of the entry of `victim` from `dir`: neither is immutable or append-only
/// (EPERM), and it is a directory exactly if `wants_directory` (ENOTDIR, EISDIR). Does not check
/// that a directory is empty.
///
/// # Errors
///
/// Fails with the error given for the first condition that does not hold.
pub fn check_removal(dir: &Attr, victim: &Attr, wants_directory: bool) -> Result<(), FsError> {
    check_directory(dir)?;
    check_changeable(dir)?;
    check_changeable(victim)?;
    match (wants_directory, victim.kind == FileKind::Directory) {
        (true, false) => {
            refuse(FsErrorKind::NotADirectory, format!("inode {}: not a directory", victim.ino))
        }
        (false, true) => {
            refuse(FsErrorKind::IsADirectory, format!("inode {}: is a directory", victim.ino))
        }
        _ => Ok(()),
    }
}

/// Checks a change of xattrs: neither immutable nor append-only (EPERM).
///
/// # Errors
///
/// Fails with EPERM.
pub fn check_changeable(attr: &Attr) -> Result<(), FsError> {
    if attr.flags.immutable || attr.flags.append {
        let message = format!("inode {}: is immutable or append-only", attr.ino);
        return refuse(FsErrorKind::NotPermitted, message);
    }
    Ok(())
}

/// Whether an inode that gets a name has had one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkOrigin {
    /// It was created with a name.
    Named,
    /// It was created by [`crate::WritableFileSystem::create_unnamed`] and never had a name.
    Unnamed,
}

/// Checks that `inode` may get one more name, after the new entry has been checked: neither
/// immutable nor append-only nor a directory (EPERM), it has a name or was created without one
/// (ENOENT), fewer than `max_links` names (EMLINK).
///
/// # Errors
///
/// Fails with the error given for the first condition that does not hold.
pub fn check_link(inode: &Attr, origin: LinkOrigin, max_links: u32) -> Result<(), FsError> {
    let ino = inode.ino;
    check_changeable(inode)?;
    if inode.kind == FileKind::Directory {
        let message = format!("inode {ino}: a directory cannot have a second name");
        return refuse(FsErrorKind::NotPermitted, message);
    }
    if inode.nlink == 0 && origin == LinkOrigin::Named {
        return refuse(FsErrorKind::NotFound, format!("inode {ino}: its last name is gone"));
    }
    if inode.nlink >= max_links {
        let message = format!("inode {ino}: has {} names, the most there can be", inode.nlink);
        return refuse(FsErrorKind::TooManyLinks, message);
    }
    Ok(())
}

/// Checks a write of `len` bytes at `offset`: a regular file (EISDIR, EINVAL) that is not immutable
/// (EPERM) and, if append-only, is written at its end (EPERM); an end of at most `max_size` bytes
/// (EFBIG). An empty write is always allowed and changes nothing.
///
/// # Errors
///
/// Fails with the error given for the first condition that does not hold.
pub fn check_write(attr: &Attr, offset: u64, len: usize, max_size: u64) -> Result<(), FsError> {
    check_regular(attr)?;
    if len == 0 {
        return Ok(());
    }
    let ino = attr.ino;
    if attr.flags.immutable || (attr.flags.append && offset != attr.size) {
        let message = format!("inode {ino}: is immutable or append-only");
        return refuse(FsErrorKind::NotPermitted, message);
    }
    if offset.checked_add(len as u64).is_none_or(|end| end > max_size) {
        let message = format!(
            "inode {ino}: a write of {len} bytes at {offset} would go beyond {max_size} bytes"
        );
        return refuse(FsErrorKind::TooBig, message);
    }
    Ok(())
}

/// Checks a change of attributes: immutable and append-only inodes keep all but their flags
/// (EPERM), but append-only ones can be touched; only regular files have a size to set (EISDIR,
/// EINVAL), of at most `max_size` bytes (EFBIG); `encrypted` cannot be changed (EOPNOTSUPP).
///
/// # Errors
///
/// Fails with the error given for the first condition that does not hold.
pub fn check_set_attr(attr: &Attr, changes: &SetAttr, max_size: u64) -> Result<(), FsError> {
    let ino = attr.ino;
    let frozen = attr.flags.immutable || attr.flags.append;
    let touch = changes.touch && !attr.flags.immutable;
    let allowed = SetAttr { flags: changes.flags, touch, ..SetAttr::default() };
    if frozen && *changes != allowed {
        let message = format!("inode {ino}: is immutable or append-only");
        return refuse(FsErrorKind::NotPermitted, message);
    }
    if let Some(size) = changes.size {
        check_regular(attr)?;
        if size > max_size {
            let message = format!("inode {ino}: a size of {size} bytes is above {max_size}");
            return refuse(FsErrorKind::TooBig, message);
        }
    }
    if changes.flags.is_some_and(|flags| flags.encrypted != attr.flags.encrypted) {
        let message = format!("inode {ino}: encryption cannot be switched");
        return refuse(FsErrorKind::Unsupported, message);
    }
    Ok(())
}

/// Returns the attributes after a change that [`check_set_attr`] allowed. Setting the size, even to
/// the same value, changes mtime; any change sets ctime; an empty change has no effect. `dirsync`
/// stays off except on directories.
pub fn changed_attr(attr: &Attr, changes: &SetAttr, now: Timestamp) -> Attr {
    let mut next = attr.clone();
    if *changes == SetAttr::default() {
        return next;
    }
    next.ctime = now;
    if let Some(size) = changes.size {
        next.size = size;
        next.mtime = now;
    }
    if changes.touch {
        (next.atime, next.mtime) = (now, now);
    }
    next.permissions = changes.permissions.map_or(next.permissions, |bits| bits & 0o7777);
    next.uid = changes.uid.unwrap_or(next.uid);
    next.gid = changes.gid.unwrap_or(next.gid);
    next.atime = changes.atime.unwrap_or(next.atime);
    next.mtime = changes.mtime.unwrap_or(next.mtime);
    if let Some(flags) = changes.flags {
        let dirsync = flags.dirsync && attr.kind == FileKind::Directory;
        next.flags = InodeFlags { dirsync, ..flags };
    }
    next
}

/// The attributes of a new inode, derived from its directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inherited {
    /// Permission bits, set-id bits and the sticky bit.
    pub permissions: u32,
    /// Group.
    pub gid: u32,
    /// `compress` and `sync` of the directory, and its `dirsync` for a directory.
    pub flags: InodeFlags,
}

/// Returns the attributes of a new inode: it inherits the group of a set-group-id directory, and a
/// new directory also the bit; symbolic links have mode 0o777.
pub fn inherit(dir: &Attr, inode: &NewInode<'_>) -> Inherited {
    let is_directory = inode.kind == NewKind::Directory;
    let hands_down = dir.permissions & 0o2000 != 0;
    let permissions = match inode.kind {
        NewKind::Symlink(_) => 0o777,
        NewKind::Directory if hands_down => inode.permissions & 0o7777 | 0o2000,
        _ => inode.permissions & 0o7777,
    };
    let flags = InodeFlags {
        compress: dir.flags.compress,
        sync: dir.flags.sync,
        dirsync: dir.flags.dirsync && is_directory,
        ..InodeFlags::default()
    };
    Inherited { permissions, gid: if hands_down { dir.gid } else { inode.gid }, flags }
}

/// Refuses the target of a symbolic link if it is empty (ENOENT), has a NUL byte (EINVAL) or more
/// than `max` bytes (ENAMETOOLONG).
///
/// # Errors
///
/// Fails with ENOENT, EINVAL or ENAMETOOLONG.
pub fn check_target(target: &[u8], max: usize) -> Result<(), FsError> {
    if target.is_empty() {
        return refuse(FsErrorKind::NotFound, "the target of a symbolic link is empty");
    }
    if target.contains(&0) {
        return refuse(FsErrorKind::Invalid, "the target of a symbolic link has a NUL byte");
    }
    if target.len() > max {
        let message = format!("a target of {} bytes is longer than {max}", target.len());
        return refuse(FsErrorKind::NameTooLong, message);
    }
    Ok(())
}

/// Rounds a time down to steps of `granularity_ns` nanoseconds.
pub fn round_time(time: Timestamp, granularity_ns: u32) -> Timestamp {
    let step = granularity_ns.clamp(1, 1_000_000_000);
    let nanoseconds = time.nanoseconds - time.nanoseconds % step;
    Timestamp { nanoseconds, ..time }
}

/// Returns the error of every changing operation on a read-only file system (EROFS).
pub fn read_only() -> FsError {
    FsError::new(FsErrorKind::ReadOnly, "the file system is read-only")
}
