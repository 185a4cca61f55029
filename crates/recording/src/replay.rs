//! Replays recordings on any file system.

use crate::content::Transfers;
use crate::op::{Kind, Name, Op, Step};
use eraseblock_vfs::background::rest;
use eraseblock_vfs::{
    Caller, FsError, FsErrorKind, Ino, NewInode, NewKind, SetAttr, Timestamp, WritableFileSystem,
    XattrMode,
};
use std::collections::{BTreeMap, HashMap};

/// A pause in which a mount begins its background work, in nanoseconds.
pub const QUIET: u64 = 500_000_000;
/// Steps of background work in a pause.
const BACKGROUND_STEPS: u32 = 64;
/// The time at which replays begin, in seconds since 1970.
const START: i64 = 1_700_000_000;

/// What happens in the pauses of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pace {
    /// Nothing: the next step follows at once.
    #[default]
    Busy,
    /// The background work of a mount, if the pause is half a second or longer.
    Pauses,
}

/// What was replayed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Steps by the names of their operations.
    pub steps: BTreeMap<&'static str, u64>,
    /// Bytes written.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// Steps that this file system has no form for, such as extended attributes.
    pub unsupported: u64,
}

/// A replay.
#[derive(Debug)]
pub struct Replay<'a> {
    fs: &'a dyn WritableFileSystem,
    pace: Pace,
    content: Transfers,
    files: HashMap<u64, Ino>,
    /// Files that are open, and how often.
    open: HashMap<Ino, u64>,
    now: u64,
}

impl<'a> Replay<'a> {
    /// Starts a replay, which makes content from a seed.
    pub fn new(fs: &'a dyn WritableFileSystem, pace: Pace, seed: u64) -> Self {
        let (content, files) = (Transfers::new(seed), HashMap::from([(0, fs.root())]));
        Self { fs, pace, content, files, open: HashMap::new(), now: 0 }
    }

    /// Returns what was replayed so far.
    pub fn counts(&self) -> &Counts {
        &self.content.counts
    }

    /// Replays a step. Files that existed before the recording are made when it first uses them,
    /// unless they are there.
    ///
    /// # Errors
    ///
    /// Fails if the file system refuses it for another reason than that it has no such operation, or
    /// if the recording has not named a file that the step is about.
    pub fn step(&mut self, step: &Step) -> Result<(), FsError> {
        let pause = step.at.saturating_sub(self.now);
        self.now = self.now.max(step.at);
        if self.pace == Pace::Pauses && pause >= QUIET {
            rest(self.fs, BACKGROUND_STEPS)?;
        }
        match self.perform(&step.op) {
            Err(error) if error.kind() == FsErrorKind::Unsupported => {
                self.content.counts.unsupported += 1;
                Ok(())
            }
            done => {
                *self.content.counts.steps.entry(step.op.name()).or_default() += 1;
                done
            }
        }
    }

    /// Closes what is open, and makes everything durable.
    ///
    /// # Errors
    ///
    /// Fails if the medium fails.
    pub fn finish(mut self) -> Result<Counts, FsError> {
        for (ino, count) in std::mem::take(&mut self.open) {
            for _ in 0..count {
                self.fs.release(ino)?;
            }
        }
        self.fs.sync()?;
        Ok(self.content.counts)
    }

    fn by(&self) -> Caller {
        let seconds = i64::try_from(self.now / 1_000_000_000).unwrap_or(0);
        let nanoseconds = u32::try_from(self.now % 1_000_000_000).unwrap_or(0);
        Caller::owner(Timestamp { seconds: START + seconds, nanoseconds })
    }

    fn file(&self, number: u64) -> Result<Ino, FsError> {
        let unknown = || {
            let text = format!("file {number}: the recording has not named it");
            FsError::new(FsErrorKind::Invalid, text)
        };
        self.files.get(&number).copied().ok_or_else(unknown)
    }

    fn perform(&mut self, op: &Op) -> Result<(), FsError> {
        match op {
            Op::Found { file, path, kind, size } => {
                let ino = self.find(&bytes(path)?, *kind, *size)?;
                self.files.insert(*file, ino);
                Ok(())
            }
            Op::Create { file, dir, name, kind, mode, target } => {
                let target = target.as_ref().map(bytes).transpose()?;
                let ino = self.create(self.file(*dir)?, &bytes(name)?, *kind, *mode, target)?;
                self.files.insert(*file, ino);
                Ok(())
            }
            Op::CreateUnnamed { file, dir, mode } => {
                let (dir, inode) = (self.file(*dir)?, new(NewKind::Regular, *mode));
                let ino = self.fs.create_unnamed(dir, &inode, &self.by())?;
                self.files.insert(*file, ino);
                *self.open.entry(ino).or_default() += 1;
                Ok(())
            }
            Op::Link { file, dir, name } => {
                let (file, dir) = (self.file(*file)?, self.file(*dir)?);
                self.fs.link(file, dir, &bytes(name)?, &self.by())
            }
            Op::Unlink { dir, name } => self.fs.unlink(self.file(*dir)?, &bytes(name)?, &self.by()),
            Op::RemoveDir { dir, name } => {
                self.fs.remove_dir(self.file(*dir)?, &bytes(name)?, &self.by())
            }
            Op::Rename { dir, name, to, new, how } => {
                let (name, new) = (bytes(name)?, bytes(new)?);
                let (from, to) = ((self.file(*dir)?, &*name), (self.file(*to)?, &*new));
                self.fs.rename(from, to, (*how).into(), &self.by())
            }
            Op::Write { file, offset, len, dense } => {
                self.write(self.file(*file)?, *offset, *len, *dense)
            }
            Op::Read { file, offset, len } => self.read(self.file(*file)?, *offset, *len),
            Op::Resize { file, size } => {
                let changes = SetAttr { size: Some(*size), ..SetAttr::default() };
                self.fs.set_attr(self.file(*file)?, &changes, &self.by())
            }
            Op::SetAttr { file, mode } => {
                // Which owners and times they are makes no difference to the flash.
                let permissions = mode.map(|mode| mode & 0o7777);
                let changes =
                    SetAttr { permissions, touch: permissions.is_none(), ..SetAttr::default() };
                self.fs.set_attr(self.file(*file)?, &changes, &self.by())
            }
            Op::SetXattr { file, name, len } => {
                let file = self.file(*file)?;
                let by = self.by();
                let value = self.content.value(*len);
                self.fs.set_xattr(file, &bytes(name)?, value, XattrMode::Either, &by)
            }
            Op::RemoveXattr { file, name } => {
                self.fs.remove_xattr(self.file(*file)?, &bytes(name)?, &self.by())
            }
            Op::Open { file } => {
                let ino = self.file(*file)?;
                self.fs.open(ino)?;
                *self.open.entry(ino).or_default() += 1;
                Ok(())
            }
            Op::Release { file } => self.release(self.file(*file)?),
            Op::SyncFile { file } => self.fs.sync_file(self.file(*file)?),
            Op::Sync => self.fs.sync(),
        }
    }

    /// Returns the file with a path, made with its directories if it is missing.
    fn find(&mut self, path: &[u8], kind: Kind, size: u64) -> Result<Ino, FsError> {
        let mut ino = self.fs.root();
        let mut names = path.split(|it| *it == b'/').filter(|it| !it.is_empty()).peekable();
        while let Some(name) = names.next() {
            let kind = if names.peek().is_some() { Kind::Directory } else { kind };
            match self.fs.lookup(ino, name) {
                Ok(found) => ino = found,
                Err(error) if error.kind() == FsErrorKind::NotFound => {
                    ino = self.create(ino, name, kind, 0o755, Some(b"?".to_vec()))?;
                    if kind == Kind::File && names.peek().is_none() {
                        self.write(ino, 0, size, 50)?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(ino)
    }

    /// Makes a file; one that is there already serves as well.
    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: Kind,
        mode: u32,
        target: Option<Vec<u8>>,
    ) -> Result<Ino, FsError> {
        let target = target.unwrap_or_else(|| b"?".to_vec());
        let kind = match kind {
            Kind::File => NewKind::Regular,
            Kind::Directory => NewKind::Directory,
            Kind::Symlink => NewKind::Symlink(&target),
            Kind::Special => NewKind::Fifo,
        };
        match self.fs.create(dir, name, &new(kind, mode), &self.by()) {
            Err(error) if error.kind() == FsErrorKind::Exists => self.fs.lookup(dir, name),
            done => done,
        }
    }

    fn write(&mut self, ino: Ino, offset: u64, len: u64, dense: u8) -> Result<(), FsError> {
        let (fs, by) = (self.fs, self.by());
        self.content.write(offset, len, dense, |at, data| fs.write(ino, at, data, &by))
    }

    fn read(&mut self, ino: Ino, offset: u64, len: u64) -> Result<(), FsError> {
        let fs = self.fs;
        self.content.read(offset, len, |at, buf| fs.read(ino, at, buf))
    }

    /// Closes a file, unless it was opened before the recording began.
    fn release(&mut self, ino: Ino) -> Result<(), FsError> {
        let Some(count) = self.open.get_mut(&ino) else { return Ok(()) };
        *count -= 1;
        if *count == 0 {
            self.open.remove(&ino);
        }
        self.fs.release(ino)
    }
}

fn new(kind: NewKind<'_>, mode: u32) -> NewInode<'_> {
    NewInode { kind, permissions: mode & 0o7777, uid: 0, gid: 0 }
}

fn bytes(name: &Name) -> Result<Vec<u8>, FsError> {
    let wrong = || FsError::new(FsErrorKind::Invalid, format!("{name:?}: wrong digits"));
    name.bytes().ok_or_else(wrong)
}
