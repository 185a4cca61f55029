//! The writing half of the seam: everything that changes a mounted file system.
//!
//! Time and owners are passed in, permissions are the caller's business: a front end that serves
//! several users checks them before it calls (FUSE lets its kernel do it).

use crate::attr::{InodeFlags, Timestamp};
use crate::error::{FsError, FsErrorKind};
use crate::fs::{FileSystem, Ino};

/// What a new inode is.
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

/// A new inode: what it is, and whose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewInode<'a> {
    /// What it is.
    pub kind: NewKind<'a>,
    /// Permission bits, set-id bits and the sticky bit (0o7777), umask already applied. Symbolic
    /// links have 0o777 whatever stands here.
    pub permissions: u32,
    /// Owner.
    pub uid: u32,
    /// Group; a directory with the set-group-id bit hands down its own group instead, and the bit
    /// to new directories.
    pub gid: u32,
}

/// What [`WritableFileSystem::rename`] does with a name that exists at the new place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RenameMode {
    /// Replaces it, as rename(2).
    #[default]
    Replace,
    /// Refuses with EEXIST (`RENAME_NOREPLACE`).
    NoReplace,
    /// Exchanges both names, which must exist (`RENAME_EXCHANGE`).
    Exchange,
    /// Replaces it and leaves a whiteout, a character device 0:0, at the old place
    /// (`RENAME_WHITEOUT`).
    Whiteout,
}

/// What [`WritableFileSystem::set_xattr`] expects of the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum XattrMode {
    /// Makes or replaces the attribute.
    #[default]
    Either,
    /// Refuses with EEXIST when it exists (`XATTR_CREATE`).
    Create,
    /// Refuses with ENODATA when it does not (`XATTR_REPLACE`).
    Replace,
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// Permission bits, set-id bits and the sticky bit (0o7777).
    pub permissions: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length of a regular file in bytes: cuts it off or lengthens it by a hole.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<Timestamp>,
    /// Last change of content.
    pub mtime: Option<Timestamp>,
    /// Both times become the moment of the change, as utimes(2) without times does it. Append-only
    /// inodes allow this and refuse explicit times, even if they are the same.
    pub touch: bool,
    /// The flags of chattr; `encrypted` cannot be changed.
    pub flags: Option<InodeFlags>,
}

/// What is left to do after a [`WritableFileSystem::background_step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Background {
    /// Nothing until the next operation.
    Idle,
    /// Another step has work.
    More,
}

/// A file system mounted for writing.
///
/// All methods take `&self`; each is atomic to the others. `now` becomes the ctime (and mtime) of
/// what an operation changes. A file system that is mounted, or has turned, read-only refuses all
/// of them but the syncs with [`crate::FsErrorKind::ReadOnly`]. Immutable and append-only inodes
/// refuse with [`crate::FsErrorKind::NotPermitted`].
///
/// An operation that returned is seen by every later one; it is durable after the next `sync`, and
/// for one file after its [`Self::sync_file`].
pub trait WritableFileSystem: FileSystem {
    /// Makes a new inode named `name` in `dir` and returns its number.
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        now: Timestamp,
    ) -> Result<Ino, FsError>;

    /// Makes a regular file without a name (`O_TMPFILE`) on the file system of `dir`. It lives as
    /// long as it is open, once as if [`Self::open`] had been called, or until a
    /// [`Self::link`] names it.
    fn create_unnamed(
        &self,
        dir: Ino,
        inode: &NewInode<'_>,
        now: Timestamp,
    ) -> Result<Ino, FsError>;

    /// Gives `ino`, anything but a directory, another name.
    fn link(&self, ino: Ino, dir: Ino, name: &[u8], now: Timestamp) -> Result<(), FsError>;

    /// Takes away a name of anything but a directory. The inode goes with its last name and its
    /// last [`Self::release`].
    fn unlink(&self, dir: Ino, name: &[u8], now: Timestamp) -> Result<(), FsError>;

    /// Takes away an empty directory.
    fn remove_dir(&self, dir: Ino, name: &[u8], now: Timestamp) -> Result<(), FsError>;

    /// Moves `from` = (directory, name) to `to`.
    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        now: Timestamp,
    ) -> Result<(), FsError>;

    /// Writes all of `data` to a regular file at `offset`, which may lie behind its end. Where data
    /// goes to flash at once, its beginning may be there when it is refused for want of space.
    fn write(&self, ino: Ino, offset: u64, data: &[u8], now: Timestamp) -> Result<(), FsError>;

    /// Writes as much of `data` as there is space for, as write(2) does, and says how many bytes
    /// from its start on that is. For want of space only that is refused of which not one byte fits.
    fn write_some(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        now: Timestamp,
    ) -> Result<usize, FsError> {
        match self.write(ino, offset, data, now) {
            Ok(()) => Ok(data.len()),
            Err(error) if error.kind() == FsErrorKind::NoSpace => {
                write_pages(|offset, page| self.write(ino, offset, page, now), offset, data, error)
            }
            Err(error) => Err(error),
        }
    }

    /// Changes attributes, all of them or none.
    fn set_attr(&self, ino: Ino, changes: &SetAttr, now: Timestamp) -> Result<(), FsError>;

    /// Sets an extended attribute; the name carries its namespace prefix.
    fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: Timestamp,
    ) -> Result<(), FsError>;

    /// Takes away an extended attribute.
    fn remove_xattr(&self, ino: Ino, name: &[u8], now: Timestamp) -> Result<(), FsError>;

    /// Keeps the inode alive without names until as many [`Self::release`]s.
    fn open(&self, ino: Ino) -> Result<(), FsError>;

    /// Undoes one [`Self::open`]; the last one of an inode without names deletes it.
    fn release(&self, ino: Ino) -> Result<(), FsError>;

    /// Makes content and attributes of one inode durable (fsync; of a directory: its entries).
    fn sync_file(&self, ino: Ino) -> Result<(), FsError>;

    /// Makes everything durable.
    fn sync(&self) -> Result<(), FsError>;

    /// Makes everything durable and no more: what the next mount has to repair for it may be left
    /// to it. For those who ask after every operation.
    fn flush(&self) -> Result<(), FsError> {
        self.sync()
    }

    /// Does one bounded piece of background work: write-back, commit, garbage collection.
    fn background_step(&self) -> Result<Background, FsError>;

    /// Gives back space that only waits for work the file system would otherwise do later, if that is
    /// worth what it writes. For moments when nothing has changed for a while; bounded.
    fn give_back(&self) -> Result<(), FsError> {
        Ok(())
    }

    /// Turns read-only after making everything durable and leaving the medium as a clean unmount
    /// does, or turns writable again.
    fn remount(&self, read_only: bool) -> Result<(), FsError>;

    /// Leaves the medium as a clean unmount does; afterwards every changing operation is refused.
    fn unmount(&self) -> Result<(), FsError>;

    /// Why nothing can be written any more although nobody asked for that: what failed, and where.
    /// What was made durable before is; the next mount starts from there.
    fn why_read_only(&self) -> Option<String> {
        None
    }
}

/// Writes page by page what was refused as a whole, and says how many bytes; nothing fits is
/// `refused` again.
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
