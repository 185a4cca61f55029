//! Records what is done to a mounted file system.
//!
//! # Invariants
//! 1. Changes are made and recorded under one lock, so that a recording has them in their order.
//! 2. Only what succeeded is recorded.
//! 3. A recording that cannot be written ends; the file system goes on.

use crate::content::Meter;
use crate::op::{Kind, Name, Op, Step};
use crate::paths::Paths;
use crate::writer::Writer;
use eraseblock_vfs::{
    Attr, Background, Caller, DirEntry, FileKind, FileSystem, FsError, Ino, NewInode, NewKind,
    RenameMode, SetAttr, StatFs, WritableFileSystem, XattrMode,
};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Number = Box<dyn Fn() -> u64 + Send + Sync>;

/// Returns when a step is done, in nanoseconds since the recording began, and by which thread.
pub struct Clock {
    now: Number,
    thread: Number,
}

impl Clock {
    /// Uses a function of the caller; which threads do it is not known.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { now: Box::new(now), thread: Box::new(|| 0) }
    }

    /// Also uses a function that returns the number of the thread whose call is handled; 0 if it is unknown.
    #[must_use]
    pub fn with_threads(self, thread: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { thread: Box::new(thread), ..self }
    }

    fn step(&self, op: Op) -> Step {
        Step { at: (self.now)(), thread: (self.thread)(), op }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// A file system whose use is recorded.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    fs: Arc<dyn WritableFileSystem>,
    clock: Clock,
    state: Mutex<State<W>>,
}

#[derive(Debug)]
struct State<W: Write> {
    writer: Writer<W>,
    /// What the recording calls inodes.
    files: HashMap<Ino, u64>,
    paths: Paths,
    next: u64,
    steps: u64,
    meter: Meter,
    failed: Option<io::Error>,
}

impl<W: Write + Send + fmt::Debug> Recorder<W> {
    /// Starts a recording.
    ///
    /// # Errors
    ///
    /// Fails if its first line cannot be written.
    pub fn new(fs: Arc<dyn WritableFileSystem>, out: W, clock: Clock) -> io::Result<Self> {
        let state = State {
            writer: Writer::new(out)?,
            files: HashMap::from([(fs.root(), 0)]),
            paths: Paths::default(),
            next: 1,
            steps: 0,
            meter: Meter::new(),
            failed: None,
        };
        Ok(Self { fs, clock, state: Mutex::new(state) })
    }

    /// Writes what is buffered. Returns the number of steps.
    ///
    /// # Errors
    ///
    /// Fails if the recording could not be written, now or before.
    pub fn finish(&self) -> io::Result<u64> {
        let mut state = self.lock();
        match state.failed.take() {
            Some(error) => Err(error),
            None => state.writer.finish().map(|()| state.steps),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change, and records it if it succeeds.
    fn change<T>(
        &self,
        change: impl FnOnce() -> Result<T, FsError>,
        op: impl FnOnce(&mut State<W>, &T) -> Option<Op>,
    ) -> Result<T, FsError> {
        let mut state = self.lock();
        let done = change()?;
        if state.failed.is_none()
            && let Some(op) = op(&mut state, &done)
        {
            state.put(&self.clock.step(op));
        }
        Ok(done)
    }

    /// Records an operation on one file, unless nothing has found it yet.
    fn on(&self, ino: Ino, op: impl FnOnce(u64) -> Op) {
        let mut state = self.lock();
        if let Some(file) = state.number(ino).filter(|_| state.failed.is_none()) {
            state.put(&self.clock.step(op(file)));
        }
    }
}

impl<W: Write> State<W> {
    fn put(&mut self, step: &Step) {
        self.steps += 1;
        self.paths.follow(&step.op);
        if let Err(error) = self.writer.step(step) {
            self.failed = Some(error);
        }
    }

    fn number(&self, ino: Ino) -> Option<u64> {
        self.files.get(&ino).copied()
    }

    /// Gives an inode the next number.
    fn add(&mut self, ino: Ino) -> u64 {
        self.next += 1;
        self.files.insert(ino, self.next - 1);
        self.next - 1
    }

    fn written(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Option<Op> {
        let file = self.number(ino)?;
        let dense = self.meter.density(data);
        Some(Op::Write { file, offset, len: data.len() as u64, dense })
    }
}

impl<W: Write + Send + fmt::Debug> FileSystem for Recorder<W> {
    fn root(&self) -> Ino {
        self.fs.root()
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let ino = self.fs.lookup(dir, name)?;
        let mut state = self.lock();
        if state.failed.is_none()
            && state.number(ino).is_none()
            && let Some(dir) = state.number(dir)
            && let Some(path) = state.paths.in_dir(dir, &Name::new(name))
            && let Ok(attr) = self.fs.attr(ino)
        {
            let (file, path) = (state.add(ino), Name::new(&path));
            let size = if attr.kind == FileKind::Regular { attr.size } else { 0 };
            let op = Op::Found { file, path, kind: attr.kind.into(), size };
            state.put(&self.clock.step(op));
        }
        Ok(ino)
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        self.fs.attr(ino)
    }

    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        self.fs.read_dir(dir, cookie, sink)
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.fs.read_link(ino)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let len = self.fs.read(ino, offset, buf)?;
        if len > 0 {
            self.on(ino, |file| Op::Read { file, offset, len: len as u64 });
        }
        Ok(len)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        self.fs.seek_data(ino, offset)
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        self.fs.seek_hole(ino, offset)
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.fs.list_xattrs(ino)
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.fs.xattr(ino, name)
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        self.fs.stat_fs()
    }
}

impl<W: Write + Send + fmt::Debug> WritableFileSystem for Recorder<W> {
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        by: &Caller,
    ) -> Result<Ino, FsError> {
        let create = || self.fs.create(dir, name, inode, by);
        self.change(create, |state, ino| {
            let number = state.number(dir)?;
            let (kind, target) = match inode.kind {
                NewKind::Regular => (Kind::File, None),
                NewKind::Directory => (Kind::Directory, None),
                NewKind::Symlink(target) => (Kind::Symlink, Some(Name::new(target))),
                NewKind::BlockDevice(..)
                | NewKind::CharDevice(..)
                | NewKind::Fifo
                | NewKind::Socket => (Kind::Special, None),
            };
            let (file, mode) = (state.add(*ino), inode.permissions);
            Some(Op::Create { file, dir: number, name: Name::new(name), kind, mode, target })
        })
    }

    fn create_unnamed(&self, dir: Ino, inode: &NewInode<'_>, by: &Caller) -> Result<Ino, FsError> {
        let create = || self.fs.create_unnamed(dir, inode, by);
        self.change(create, |state, ino| {
            let number = state.number(dir)?;
            let file = state.add(*ino);
            Some(Op::CreateUnnamed { file, dir: number, mode: inode.permissions })
        })
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        let link = || self.fs.link(ino, dir, name, by);
        self.change(link, |state, ()| {
            let (file, dir) = (state.number(ino)?, state.number(dir)?);
            Some(Op::Link { file, dir, name: Name::new(name) })
        })
    }

    fn unlink(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        let unlink = || self.fs.unlink(dir, name, by);
        self.change(unlink, |state, ()| {
            Some(Op::Unlink { dir: state.number(dir)?, name: Name::new(name) })
        })
    }

    fn remove_dir(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        let remove = || self.fs.remove_dir(dir, name, by);
        self.change(remove, |state, ()| {
            Some(Op::RemoveDir { dir: state.number(dir)?, name: Name::new(name) })
        })
    }

    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        let rename = || self.fs.rename(from, to, mode, by);
        self.change(rename, |state, ()| {
            let (dir, to_dir) = (state.number(from.0)?, state.number(to.0)?);
            let (name, new) = (Name::new(from.1), Name::new(to.1));
            Some(Op::Rename { dir, name, to: to_dir, new, how: mode.into() })
        })
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: &Caller) -> Result<(), FsError> {
        let write = || self.fs.write(ino, offset, data, by);
        self.change(write, |state, ()| state.written(ino, offset, data))
    }

    fn write_some(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        by: &Caller,
    ) -> Result<usize, FsError> {
        let write = || self.fs.write_some(ino, offset, data, by);
        self.change(write, |state, len| state.written(ino, offset, &data[..*len]))
    }

    fn set_attr(&self, ino: Ino, changes: &SetAttr, by: &Caller) -> Result<(), FsError> {
        let set = || self.fs.set_attr(ino, changes, by);
        self.change(set, |state, ()| {
            let file = state.number(ino)?;
            Some(match changes.size {
                Some(size) => Op::Resize { file, size },
                None => Op::SetAttr { file, mode: changes.permissions },
            })
        })
    }

    fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        let set = || self.fs.set_xattr(ino, name, value, mode, by);
        self.change(set, |state, ()| {
            let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
            Some(Op::SetXattr { file: state.number(ino)?, name: Name::new(name), len })
        })
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        let remove = || self.fs.remove_xattr(ino, name, by);
        self.change(remove, |state, ()| {
            Some(Op::RemoveXattr { file: state.number(ino)?, name: Name::new(name) })
        })
    }

    fn open(&self, ino: Ino) -> Result<(), FsError> {
        let open = || self.fs.open(ino);
        self.change(open, |state, ()| state.number(ino).map(|file| Op::Open { file }))
    }

    fn release(&self, ino: Ino) -> Result<(), FsError> {
        let release = || self.fs.release(ino);
        self.change(release, |state, ()| state.number(ino).map(|file| Op::Release { file }))
    }

    fn sync_file(&self, ino: Ino) -> Result<(), FsError> {
        let sync = || self.fs.sync_file(ino);
        self.change(sync, |state, ()| state.number(ino).map(|file| Op::SyncFile { file }))
    }

    fn sync(&self) -> Result<(), FsError> {
        self.change(|| self.fs.sync(), |_, ()| Some(Op::Sync))
    }

    fn flush(&self) -> Result<(), FsError> {
        self.change(|| self.fs.flush(), |_, ()| Some(Op::Sync))
    }

    fn background_step(&self) -> Result<Background, FsError> {
        self.fs.background_step()
    }

    fn free_waiting_space(&self) -> Result<(), FsError> {
        self.fs.free_waiting_space()
    }

    fn become_read_only(&self) -> Result<(), FsError> {
        self.fs.become_read_only()
    }

    fn become_writable(&self) -> Result<(), FsError> {
        self.fs.become_writable()
    }

    fn unmount(&self) -> Result<(), FsError> {
        self.fs.unmount()
    }

    fn why_read_only(&self) -> Option<String> {
        self.fs.why_read_only()
    }
}
