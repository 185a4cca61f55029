//! Replays recordings in a directory of this machine, on a file system of its kernel.
//!
//! # Invariants
//! 1. Nothing outside of the directory is touched, even if a recording says so: directories are opened below
//!    it without following a link (openat2), and every other call takes one name in an open directory.
//! 2. A file is held open from its `open` to its `release`, so that it can be used after its last name is
//!    gone; at other times it is found by its path.

use crate::content::Transfers;
use crate::op::{How, Kind, Name, Op, Step};
use crate::paths::Paths;
use crate::replay::Counts;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    self, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps,
    XattrFlags,
};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What the owner may do with files and directories of a replay, even if the recording says otherwise.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A replay in a directory.
#[derive(Debug)]
pub struct FolderReplay {
    root: OwnedFd,
    paths: Paths,
    content: Transfers,
    /// Files that are open, and how often.
    open: HashMap<u64, (File, u64)>,
    /// Links and devices that were opened, which no call can hold: they may have lost their names.
    not_held: HashSet<u64>,
}

/// An open directory, and a name in it.
struct Place<'a> {
    dir: OwnedFd,
    name: &'a [u8],
}

impl FolderReplay {
    /// Starts a replay, which makes content from a seed. Nothing may be in the directory but `lost+found`.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be opened or has something in it.
    pub fn new(folder: &Path, seed: u64) -> io::Result<Self> {
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name();
            if name != "lost+found" {
                let text = format!("it has {} in it, expected an empty one", name.display());
                return Err(io::Error::other(text));
            }
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::openat(CWD, folder, flags, Mode::empty())?;
        let (paths, content) = (Paths::default(), Transfers::new(seed));
        Ok(Self { root, paths, content, open: HashMap::new(), not_held: HashSet::new() })
    }

    /// Replays a step. Files that existed before the recording are made when it first uses them.
    ///
    /// # Errors
    ///
    /// Fails if the file system refuses it for another reason than that it has no such operation, or
    /// if the recording has not named a file that the step is about.
    pub fn step(&mut self, step: &Step) -> io::Result<()> {
        match self.perform(&step.op) {
            Err(error) if is_unsupported(&step.op, &error) => {
                self.content.counts.unsupported += 1;
                if let Op::Open { file } = step.op {
                    self.not_held.insert(file);
                }
            }
            done => {
                *self.content.counts.steps.entry(step.op.name()).or_default() += 1;
                done?;
            }
        }
        self.paths.follow(&step.op);
        Ok(())
    }

    /// Closes what is open, and makes everything durable.
    ///
    /// # Errors
    ///
    /// Fails if the medium fails.
    pub fn finish(mut self) -> io::Result<Counts> {
        self.open.clear();
        self.sync()?;
        Ok(self.content.counts)
    }

    fn perform(&mut self, op: &Op) -> io::Result<()> {
        match op {
            Op::Found { path, kind, size, .. } => self.find(&bytes(path)?, *kind, *size),
            Op::Create { dir, name, kind, mode, target, .. } => {
                let target = target.as_ref().map(bytes).transpose()?;
                let name = self.path_in(*dir, name)?;
                self.create(&name, *kind, *mode, target.as_deref())
            }
            Op::CreateUnnamed { file, dir, mode } => self.create_unnamed(*file, *dir, *mode),
            Op::Link { file, dir, name } => self.link(*file, &self.path_in(*dir, name)?),
            Op::Unlink { dir, name } => self.remove(*dir, name, AtFlags::empty()),
            Op::RemoveDir { dir, name } => self.remove(*dir, name, AtFlags::REMOVEDIR),
            Op::Rename { dir, name, to, new, how } => {
                self.rename(&self.path_in(*dir, name)?, &self.path_in(*to, new)?, *how)
            }
            Op::Write { file, offset, len, dense } => {
                let file = self.file(*file, OFlags::RDWR)?;
                self.write(&file, *offset, *len, *dense)
            }
            Op::Read { file, offset, len } => {
                let file = self.file(*file, OFlags::RDONLY)?;
                self.content.read(*offset, *len, |at, buf| file.read_at(buf, at))
            }
            Op::Resize { file, size } => self.file(*file, OFlags::RDWR)?.set_len(*size),
            Op::SetAttr { file, mode } => self.set_attr(*file, *mode),
            Op::SetXattr { file, name, len } => self.set_xattr(*file, name, *len),
            Op::RemoveXattr { file, name } => {
                let file = self.file(*file, OFlags::RDONLY)?;
                Ok(fs::fremovexattr(&file, &*bytes(name)?)?)
            }
            Op::Open { file } => self.hold(*file),
            Op::Release { file } => {
                self.release(*file);
                Ok(())
            }
            Op::SyncFile { file } => self.file(*file, OFlags::RDONLY)?.sync_all(),
            Op::Sync => self.sync(),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(fs::syncfs(fs::openat(&self.root, ".", flags, Mode::empty())?)?)
    }

    /// Returns the path of a name in a directory of the recording.
    fn path_in(&self, dir: u64, name: &Name) -> io::Result<Vec<u8>> {
        bytes(name)?;
        self.paths.in_dir(dir, name).ok_or_else(|| unknown(dir))
    }

    fn path(&self, file: u64) -> io::Result<&[u8]> {
        let lacks = || {
            if self.not_held.contains(&file) { Errno::LOOP.into() } else { unknown(file) }
        };
        self.paths.of(file).ok_or_else(lacks)
    }

    fn directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let path = if path.is_empty() { b"." } else { path };
        Ok(fs::openat2(&self.root, path, flags, Mode::empty(), resolve)?)
    }

    /// Returns the directory of a path, open, and its last name.
    fn place<'a>(&self, path: &'a [u8]) -> io::Result<Place<'a>> {
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (dir, name) = slash.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
            let text = format!("{:?} is no name", String::from_utf8_lossy(name));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Place { dir: self.directory(dir)?, name })
    }

    fn opened(&self, path: &[u8], flags: OFlags) -> io::Result<File> {
        // Does not wait for the other end of a pipe.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if path.is_empty() {
            return Ok(fs::openat(&self.root, ".", flags, Mode::empty())?.into());
        }
        let Place { dir, name } = self.place(path)?;
        Ok(fs::openat(dir, name, flags, Mode::empty())?.into())
    }

    /// Returns a file of the recording, open.
    fn file(&self, file: u64, flags: OFlags) -> io::Result<File> {
        match self.open.get(&file) {
            Some((open, _)) => open.try_clone(),
            None => self.opened(self.path(file)?, flags),
        }
    }

    fn hold(&mut self, file: u64) -> io::Result<()> {
        if let Some((_, count)) = self.open.get_mut(&file) {
            *count += 1;
            return Ok(());
        }
        let path = self.path(file)?;
        let opened = match self.opened(path, OFlags::RDWR) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                self.opened(path, OFlags::RDONLY)?
            }
            opened => opened?,
        };
        self.open.insert(file, (opened, 1));
        Ok(())
    }

    /// Closes a file, unless it was opened before the recording began.
    fn release(&mut self, file: u64) {
        let Some((_, count)) = self.open.get_mut(&file) else { return };
        *count -= 1;
        if *count == 0 {
            self.open.remove(&file);
        }
    }

    /// Makes the file with a path and its directories.
    fn find(&mut self, path: &[u8], kind: Kind, size: u64) -> io::Result<()> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (end, _) in ends {
            self.create(&path[..end], Kind::Directory, 0o755, None)?;
        }
        self.create(path, kind, 0o755, None)?;
        if kind == Kind::File && size > 0 {
            let file = self.opened(path, OFlags::RDWR)?;
            if file.metadata()?.len() == 0 {
                self.write(&file, 0, size, 50)?;
            }
        }
        Ok(())
    }

    /// Makes a file; one that is there already serves as well.
    fn create(&self, path: &[u8], kind: Kind, mode: u32, target: Option<&[u8]>) -> io::Result<()> {
        let Place { dir, name } = self.place(path)?;
        let mode = mode & 0o7777;
        let made = match kind {
            Kind::File => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                fs::openat(&dir, name, flags, Mode::from_raw_mode(mode | FILE_MODE)).map(drop)
            }
            Kind::Directory => fs::mkdirat(&dir, name, Mode::from_raw_mode(mode | DIRECTORY_MODE)),
            Kind::Symlink => fs::symlinkat(target.unwrap_or(b"?"), &dir, name),
            Kind::Special => {
                let mode = Mode::from_raw_mode(mode | FILE_MODE);
                fs::mknodat(&dir, name, FileType::Fifo, mode, 0)
            }
        };
        match made {
            Err(Errno::EXIST) => Ok(()),
            made => Ok(made?),
        }
    }

    fn create_unnamed(&mut self, file: u64, dir: u64, mode: u32) -> io::Result<()> {
        let dir = self.directory(self.path(dir)?)?;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o7777 | FILE_MODE);
        let made = fs::openat(dir, ".", flags, mode)?;
        self.open.insert(file, (made.into(), 1));
        Ok(())
    }

    fn link(&self, file: u64, to: &[u8]) -> io::Result<()> {
        let Place { dir, name } = self.place(to)?;
        if let Some((open, _)) = self.open.get(&file) {
            let held = format!("/proc/self/fd/{}", open.as_raw_fd());
            return Ok(fs::linkat(CWD, held, dir, name, AtFlags::SYMLINK_FOLLOW)?);
        }
        let old = self.place(self.path(file)?)?;
        Ok(fs::linkat(old.dir, old.name, dir, name, AtFlags::empty())?)
    }

    fn remove(&self, dir: u64, name: &Name, flags: AtFlags) -> io::Result<()> {
        let path = self.path_in(dir, name)?;
        let Place { dir, name } = self.place(&path)?;
        Ok(fs::unlinkat(dir, name, flags)?)
    }

    fn rename(&self, old: &[u8], new: &[u8], how: How) -> io::Result<()> {
        let (old, new) = (self.place(old)?, self.place(new)?);
        let flags = match how {
            How::Replace => RenameFlags::empty(),
            How::NoReplace => RenameFlags::NOREPLACE,
            How::Exchange => RenameFlags::EXCHANGE,
            How::Whiteout => RenameFlags::WHITEOUT,
        };
        Ok(fs::renameat_with(old.dir, old.name, new.dir, new.name, flags)?)
    }

    fn write(&mut self, file: &File, offset: u64, len: u64, dense: u8) -> io::Result<()> {
        self.content.write(offset, len, dense, |at, data| file.write_all_at(data, at))
    }

    /// Sets permissions, or the time of now: which owners and times they are makes no difference to the
    /// flash.
    fn set_attr(&self, file: u64, mode: Option<u32>) -> io::Result<()> {
        if let Some(mode) = mode {
            let file = self.file(file, OFlags::RDONLY)?;
            let least = if file.metadata()?.is_dir() { DIRECTORY_MODE } else { FILE_MODE };
            return Ok(fs::fchmod(file, Mode::from_raw_mode(mode & 0o7777 | least))?);
        }
        let now = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        match self.open.get(&file) {
            Some((open, _)) => Ok(fs::futimens(open.as_fd(), &times)?),
            None if file == 0 => Ok(fs::futimens(self.file(0, OFlags::RDONLY)?, &times)?),
            None => {
                let Place { dir, name } = self.place(self.path(file)?)?;
                Ok(fs::utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
            }
        }
    }

    fn set_xattr(&mut self, file: u64, name: &Name, len: u32) -> io::Result<()> {
        let file = self.file(file, OFlags::RDONLY)?;
        let value = self.content.value(len);
        Ok(fs::fsetxattr(file, &*bytes(name)?, value, XattrFlags::empty())?)
    }
}

/// Returns whether the kernel or its file system has no form for an operation. What a file system takes as an
/// attribute depends on it, and no call opens a symbolic link itself, or the device that a whiteout is.
fn is_unsupported(op: &Op, error: &io::Error) -> bool {
    let Some(errno) = Errno::from_io_error(error) else { return false };
    match op {
        Op::SetXattr { .. } | Op::RemoveXattr { .. } => errno != Errno::IO,
        Op::SyncFile { .. } => [Errno::INVAL, Errno::LOOP, Errno::NXIO].contains(&errno),
        Op::Rename { how, .. } => *how != How::Replace && errno == Errno::INVAL,
        Op::CreateUnnamed { .. } => errno == Errno::OPNOTSUPP || errno == Errno::ISDIR,
        _ => [Errno::OPNOTSUPP, Errno::LOOP, Errno::NXIO].contains(&errno),
    }
}

fn unknown(file: u64) -> io::Error {
    let text = format!("file {file}: the recording has not named it, or it has no name any more");
    io::Error::new(io::ErrorKind::NotFound, text)
}

fn bytes(name: &Name) -> io::Result<Vec<u8>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?}: wrong digits"));
    name.bytes().ok_or_else(wrong)
}
