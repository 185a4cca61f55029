//! The write interface: everything that changes a mounted file system.
//!
//! Time and owners are parameters. Callers check permissions: a front end that serves several users
//! checks them before each call (FUSE lets the kernel do it).

use crate::attr::{InodeFlags, Timestamp};
use crate::caller::Caller;
use crate::error::{FsError, FsErrorKind};
use crate::fs::{FileSystem, Ino};

/// The kind of a new inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewKind<'a> {
    /// An empty regular file.
    Regular,
    /// An empty directory.
    Directory,
    /// A symbolic link with this target: any bytes but NUL, not empty.
    Symlink(&'a [u8]),
    /// A block device node, (major, minor).
    BlockDevice(u32, u32),
    /// A character device node, (major, minor).
    CharDevice(u32, u32),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// A new inode: its kind and owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewInode<'a> {
    /// Its kind.
    pub kind: NewKind<'a>,
    /// Permission bits, set-id bits and the sticky bit (0o7777), with the umask applied. Symbolic
    /// links always have 0o777.
    pub permissions: u32,
    /// Owner.
    pub uid: u32,
    /// Group; in a directory with the set-group-id bit, new inodes get the group of the directory
    /// instead, and new directories also the bit.
    pub gid: u32,
}

/// What [`WritableFileSystem::rename`] does if the new name exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RenameMode {
    /// Replaces it, like rename(2).
    #[default]
    Replace,
    /// Refuses with EEXIST (`RENAME_NOREPLACE`).
    NoReplace,
    /// Exchanges both names, which must exist (`RENAME_EXCHANGE`).
    Exchange,
    /// Replaces it and leaves a whiteout, a character device 0:0, with the old name
    /// (`RENAME_WHITEOUT`).
    Whiteout,
}

/// What [`WritableFileSystem::set_xattr`] expects of the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum XattrMode {
    /// Creates or replaces the xattr.
    #[default]
    Either,
    /// Refuses with EEXIST if it exists (`XATTR_CREATE`).
    Create,
    /// Refuses with ENODATA if it does not exist (`XATTR_REPLACE`).
    Replace,
}

/// Attributes to change; `None` leaves one unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// Permission bits, set-id bits and the sticky bit (0o7777).
    pub permissions: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length of a regular file in bytes: truncates it or extends it by a hole.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<Timestamp>,
    /// Last change of content.
    pub mtime: Option<Timestamp>,
    /// Sets both times to the time of the change, like utimes(2) without times. Append-only inodes
    /// allow this and refuse explicit times, even if they are the same.
    pub touch: bool,
    /// The flags of chattr; `encrypted` cannot be changed.
    pub flags: Option<InodeFlags>,
}

/// The work left after a [`WritableFileSystem::background_step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Background {
    /// Nothing until the next operation.
    Idle,
    /// Another step has work.
    More,
}

/// A file system mounted for writing.
///
/// All methods take `&self`; each is atomic with respect to the others. The caller's time becomes the
/// ctime (and mtime) of the inodes that an operation changes. Every later operation sees the result of a
/// completed one; the result is durable after the next `sync`, and for one file after its
/// [`Self::sync_file`].
///
/// # Errors
///
/// If the file system is mounted read-only, or has turned read-only, all methods but the syncs fail
/// with [`crate::FsErrorKind::ReadOnly`]. For immutable and append-only inodes they fail with
/// [`crate::FsErrorKind::NotPermitted`], and if no space is left with
/// [`crate::FsErrorKind::NoSpace`].
pub trait WritableFileSystem: FileSystem {
    /// Creates an inode named `name` in `dir` and returns its number.
    ///
    /// # Errors
    ///
    /// Fails with EEXIST if the name exists, or if the name, the directory or the kind does not
    /// allow it.
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        by: &Caller,
    ) -> Result<Ino, FsError>;

    /// Creates a regular file without a name (`O_TMPFILE`) on the file system of `dir`. It exists
    /// while it is open, as if [`Self::open`] had been called once, or until a [`Self::link`] names
    /// it.
    ///
    /// # Errors
    ///
    /// Fails with EOPNOTSUPP if the file system has no such files.
    fn create_unnamed(&self, dir: Ino, inode: &NewInode<'_>, by: &Caller) -> Result<Ino, FsError>;

    /// Adds another name for `ino`, which must not be a directory.
    ///
    /// # Errors
    ///
    /// Fails with EEXIST if the name exists, with EPERM for a directory, or as described in
    /// [`crate::rules`].
    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError>;

    /// Removes a name of an inode that is not a directory. The inode is deleted with its last name
    /// and its last [`Self::release`].
    ///
    /// # Errors
    ///
    /// Fails with EISDIR for a directory, or as described in [`crate::rules`].
    fn unlink(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError>;

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// Fails with ENOTEMPTY if the directory has entries, or as described in [`crate::rules`].
    fn remove_dir(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError>;

    /// Moves `from` = (directory, name) to `to`.
    ///
    /// # Errors
    ///
    /// Fails as [`crate::rules::check_rename`] does.
    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        by: &Caller,
    ) -> Result<(), FsError>;

    /// Writes all of `data` to a regular file at `offset`, which may lie after its end. On file
    /// systems that write data to flash at once, the beginning may have been written when the call
    /// fails for lack of space.
    ///
    /// # Errors
    ///
    /// Fails if the inode is not a writable regular file, if the end exceeds the largest file, or
    /// if no space is left.
    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: &Caller) -> Result<(), FsError>;

    /// Writes as much of `data` as fits, like write(2), and returns the number of bytes. Fails for
    /// lack of space only if not one byte fits.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::write`] does.
    fn write_some(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        by: &Caller,
    ) -> Result<usize, FsError> {
        match self.write(ino, offset, data, by) {
            Ok(()) => Ok(data.len()),
            Err(error) if error.kind() == FsErrorKind::NoSpace => {
                write_pages(|offset, page| self.write(ino, offset, page, by), offset, data, error)
            }
            Err(error) => Err(error),
        }
    }

    /// Changes attributes, all of them or none.
    ///
    /// # Errors
    ///
    /// Fails as [`crate::rules::check_set_attr`] does, or if no space is left.
    fn set_attr(&self, ino: Ino, changes: &SetAttr, by: &Caller) -> Result<(), FsError>;

    /// Sets an xattr; the name includes its namespace prefix.
    ///
    /// # Errors
    ///
    /// Fails as `mode` describes, if name or value is invalid, or if no space is left.
    fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        by: &Caller,
    ) -> Result<(), FsError>;

    /// Removes an xattr.
    ///
    /// # Errors
    ///
    /// Fails with ENODATA if the xattr does not exist.
    fn remove_xattr(&self, ino: Ino, name: &[u8], by: &Caller) -> Result<(), FsError>;

    /// Keeps the inode alive without names until the same number of [`Self::release`]s.
    ///
    /// # Errors
    ///
    /// Fails if the inode does not exist.
    fn open(&self, ino: Ino) -> Result<(), FsError>;

    /// Undoes one [`Self::open`]; the last release of an inode without names deletes it.
    ///
    /// # Errors
    ///
    /// Fails if the inode is not open or cannot be deleted.
    fn release(&self, ino: Ino) -> Result<(), FsError>;

    /// Makes content and attributes of one inode durable (fsync; of a directory: its entries).
    ///
    /// # Errors
    ///
    /// Fails if the medium fails.
    fn sync_file(&self, ino: Ino) -> Result<(), FsError>;

    /// Makes everything durable.
    ///
    /// # Errors
    ///
    /// Fails if the medium fails.
    fn sync(&self) -> Result<(), FsError>;

    /// Makes everything durable, with as few writes as possible: repairs may be left to the next
    /// mount. For callers that flush after every operation.
    ///
    /// # Errors
    ///
    /// Fails if the medium fails.
    fn flush(&self) -> Result<(), FsError> {
        self.sync()
    }

    /// Performs one bounded piece of background work: write-back, commit, garbage collection.
    ///
    /// # Errors
    ///
    /// Fails if the medium fails.
    fn background_step(&self) -> Result<Background, FsError>;

    /// Frees space that waits for work which the file system would otherwise do later, if that is
    /// worth the writes. For moments without recent changes; bounded.
    ///
    /// # Errors
    ///
    /// Fails if the medium fails.
    fn free_waiting_space(&self) -> Result<(), FsError> {
        Ok(())
    }

    /// Turns read-only, after making everything durable and leaving the medium as a clean unmount
    /// does.
    ///
    /// # Errors
    ///
    /// Fails if the medium fails.
    fn become_read_only(&self) -> Result<(), FsError>;

    /// Turns writable again.
    ///
    /// # Errors
    ///
    /// Fails if the medium fails, or if a failure has ended all writing.
    fn become_writable(&self) -> Result<(), FsError>;

    /// Leaves the medium as a clean unmount does; afterwards every change is refused.
    ///
    /// # Errors
    ///
    /// Fails if the medium fails.
    fn unmount(&self) -> Result<(), FsError>;

    /// Returns why the file system turned read-only, if it did so by itself: what failed, and
    /// where. Data that was durable before stays durable; the next mount starts from there.
    fn why_read_only(&self) -> Option<String> {
        None
    }
}

/// Writes page by page after the whole write was refused, and returns the number of bytes; returns
/// the error `refused` if nothing fits.
fn write_pages(
    write: impl Fn(u64, &[u8]) -> Result<(), FsError>,
    offset: u64,
    data: &[u8],
    refused: FsError,
) -> Result<usize, FsError> {
    const PAGE: u64 = 4096;
    let mut done = 0;
    while done < data.len() {
        let at = offset + done as u64;
        let room = usize::try_from(PAGE - at % PAGE).unwrap_or(usize::MAX);
        let page = &data[done..data.len().min(done + room)];
        if page.len() == data.len() || write(at, page).is_err() {
            break;
        }
        done += page.len();
    }
    if done > 0 { Ok(done) } else { Err(refused) }
}
