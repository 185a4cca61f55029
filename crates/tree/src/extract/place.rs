//! The only access to the destination: every call is relative to a directory descriptor, takes one
//! checked name, and follows no link.
//!
//! # Invariants
//! 1. A descriptor in [`Dir`] was reached from the destination by [`Name`]s alone, without
//!    following a symbolic link, so everything created in it lies in the destination.
//! 2. New entries are created exclusively; existing ones are removed first, and only if overwriting
//!    was requested.
//! 3. Owner, mode and attributes are set through functions of the C library, which fakeroot and
//!    pseudo replace. rustix makes the system call itself for `fchown` and `fchmod`.

use eraseblock_vfs::source::check_name;
use eraseblock_vfs::{FileKind, Timestamp};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// One component of a path that cannot lead out of its directory.
#[derive(Clone, Debug)]
pub(super) struct Name(CString);

impl Name {
    /// Checks a name from the image.
    pub(super) fn new(name: &[u8]) -> Result<Self, String> {
        check_name(name).map_err(|error| error.to_string())?;
        CString::new(name).map(Self).map_err(|error| error.to_string())
    }
}

/// Whether to replace existing entries: `None` for no, otherwise the device and inode numbers of
/// the files to keep.
pub(super) type Force<'a> = Option<&'a [(u64, u64)]>;

/// A directory in the destination.
#[derive(Debug)]
pub(super) struct Dir(OwnedFd);

const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits)
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn timestamps(atime: Timestamp, mtime: Timestamp) -> Timestamps {
    let time = |time: Timestamp| Timespec {
        tv_sec: time.seconds,
        tv_nsec: i64::from(time.nanoseconds.min(999_999_999)),
    };
    Timestamps { last_access: time(atime), last_modification: time(mtime) }
}

impl Dir {
    /// Opens the destination itself and creates it if missing. Links in its own path, which the
    /// user gives, are followed. Returns whether it contains anything.
    pub(super) fn destination(path: &Path) -> Result<(Self, bool), Errno> {
        match rustix::fs::mkdir(path, mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let mut is_occupied = false;
        for entry in rustix::fs::Dir::read_from(&fd)? {
            let entry = entry?;
            is_occupied |= entry.file_name() != c"." && entry.file_name() != c"..";
        }
        Ok((Self(fd), is_occupied))
    }

    /// Creates a directory, private until its attributes are set, and opens it. With `force`, uses
    /// an existing directory and removes anything else with this name.
    pub(super) fn make_dir(&self, name: &Name, force: Force<'_>) -> Result<Self, Errno> {
        match rustix::fs::mkdirat(&self.0, &name.0, mode(0o700)) {
            Err(Errno::EXIST) if force.is_some() => {
                let stat = rustix::fs::statat(&self.0, &name.0, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                    self.make_way(name, force)?;
                    rustix::fs::mkdirat(&self.0, &name.0, mode(0o700))?;
                }
            }
            made => made?,
        }
        self.open_dir(name)
    }

    /// Opens a directory in this one.
    pub(super) fn open_dir(&self, name: &Name) -> Result<Self, Errno> {
        rustix::fs::openat(&self.0, &name.0, OPEN_DIR, Mode::empty()).map(Self)
    }

    /// Removes an entry that is not a directory.
    pub(super) fn remove(&self, name: &Name) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.0, &name.0, AtFlags::empty())
    }

    /// Removes an existing entry; fails with EBUSY if it is a file that is being read.
    fn make_way(&self, name: &Name, force: Force<'_>) -> Result<(), Errno> {
        let stat = rustix::fs::statat(&self.0, &name.0, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_kept = force.is_some_and(|kept| kept.contains(&(stat.st_dev, stat.st_ino)));
        if is_kept { Err(Errno::BUSY) } else { self.remove(name) }
    }

    /// Creates an entry exclusively; with `force`, removes an existing one first.
    fn exclusively<T>(
        &self,
        name: &Name,
        force: Force<'_>,
        make: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match make() {
            Err(Errno::EXIST) if force.is_some() => {
                self.make_way(name, force)?;
                make()
            }
            made => made,
        }
    }

    /// Creates an empty regular file, private until its attributes are set.
    pub(super) fn make_file(&self, name: &Name, force: Force<'_>) -> Result<File, Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.exclusively(name, force, || {
            rustix::fs::openat(&self.0, &name.0, flags, mode(0o600)).map(File::from)
        })
    }

    /// Creates a symbolic link.
    pub(super) fn make_symlink(
        &self,
        name: &Name,
        target: &[u8],
        force: Force<'_>,
    ) -> Result<(), Errno> {
        self.exclusively(name, force, || rustix::fs::symlinkat(target, &self.0, &name.0))
    }

    /// Creates a device node, fifo or socket, private until its attributes are set.
    pub(super) fn make_node(
        &self,
        name: &Name,
        kind: FileKind,
        device: (u32, u32),
        force: Force<'_>,
    ) -> Result<(), Errno> {
        let file_type = FileType::from_raw_mode(kind.mode_bits());
        let device = rustix::fs::makedev(device.0, device.1);
        self.exclusively(name, force, || {
            rustix::fs::mknodat(&self.0, &name.0, file_type, mode(0o600), device)
        })
    }

    /// Adds one more name here for a file of another directory.
    pub(super) fn make_link(
        &self,
        name: &Name,
        from: &Self,
        old: &Name,
        force: Force<'_>,
    ) -> Result<(), Errno> {
        self.exclusively(name, force, || {
            rustix::fs::linkat(&from.0, &old.0, &self.0, &name.0, AtFlags::empty())
        })
    }

    /// Returns access to the attributes of this directory itself.
    pub(super) fn this(&self) -> Handle<'_> {
        Handle::Open(self.0.as_fd())
    }

    /// Returns access to the attributes of an entry that cannot be opened: a link, device, fifo or
    /// socket.
    pub(super) fn entry<'a>(&'a self, name: &'a Name) -> Handle<'a> {
        Handle::Entry(self, name)
    }
}

/// A way to set attributes.
#[derive(Debug)]
pub(super) enum Handle<'a> {
    /// Those of an open file.
    Open(std::os::fd::BorrowedFd<'a>),
    /// Those of an entry that is neither opened nor followed.
    Entry(&'a Dir, &'a Name),
}

impl Handle<'_> {
    pub(super) fn set_owner(&self, uid: u32, gid: u32) -> Result<(), Errno> {
        match self {
            // Not rustix's `fchown`: see invariant 3.
            Self::Open(fd) => {
                std::os::unix::fs::fchown(fd, Some(uid), Some(gid)).map_err(|e| errno(&e))
            }
            Self::Entry(dir, name) => {
                let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
                rustix::fs::chownat(&dir.0, &name.0, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
            }
        }
    }

    /// Sets the mode of anything but a symbolic link, which has none.
    pub(super) fn set_mode(&self, permissions: u32) -> Result<(), Errno> {
        match self {
            // Not rustix's `fchmod`: see invariant 3.
            Self::Open(fd) => {
                let file = fd.try_clone_to_owned().map(File::from).map_err(|e| errno(&e))?;
                let permissions = std::fs::Permissions::from_mode(permissions);
                file.set_permissions(permissions).map_err(|e| errno(&e))
            }
            Self::Entry(dir, name) => {
                // Not all kernels have a call that changes a mode without following links, but a
                // descriptor always refers to the same file.
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let fd = rustix::fs::openat(&dir.0, &name.0, flags, Mode::empty())?;
                let stat = rustix::fs::fstat(&fd)?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                    return Err(Errno::LOOP);
                }
                rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), mode(permissions))
            }
        }
    }

    pub(super) fn set_times(&self, atime: Timestamp, mtime: Timestamp) -> Result<(), Errno> {
        let times = timestamps(atime, mtime);
        match self {
            Self::Open(fd) => rustix::fs::futimens(fd, &times),
            Self::Entry(dir, name) => {
                rustix::fs::utimensat(&dir.0, &name.0, &times, AtFlags::SYMLINK_NOFOLLOW)
            }
        }
    }

    pub(super) fn set_xattr(&self, attribute: &[u8], value: &[u8]) -> Result<(), Errno> {
        let flags = XattrFlags::empty();
        match self {
            Self::Open(fd) => rustix::fs::fsetxattr(fd, attribute, value, flags),
            Self::Entry(dir, name) => {
                let path = format!("/proc/self/fd/{}/", dir.0.as_raw_fd());
                let path = [path.as_bytes(), name.0.as_bytes()].concat();
                rustix::fs::lsetxattr(path, attribute, value, flags)
            }
        }
    }
}
