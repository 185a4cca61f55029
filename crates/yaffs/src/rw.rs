//! YAFFS2 mounted for writing (spec: yaffs2 5 to 10).
//!
//! Every operation is on flash when it returns: data chunks first, then the header with the size.
//! The layers, lowest first: `log` appends pages and picks blocks to collect, `core` keeps objects and
//! blocks and moves chunks, `checkpoint` writes the state for the next mount, `content` and `names`
//! are the operations, `start` mounts, `settle` makes durable what a mount decided on torn pages,
//! `check` compares all of it with the flash.

mod check;
mod checkpoint;
mod content;
mod core;
mod log;
mod names;
mod settle;
mod start;
#[cfg(test)]
mod tests;

use self::core::Core;
use self::names::Removal;
use crate::error::YaffsError;
use crate::mount::{Info, OpenOptions};
use content::seconds;
use eraseblock_base::Findings;
use eraseblock_mtd::Mtd;
use eraseblock_vfs::rules::read_only;
use eraseblock_vfs::{
    Attr, Background, Caller, DirEntry, FileSystem, FsError, FsErrorKind, Ino, NewInode,
    RenameMode, SetAttr, StatFs, WritableFileSystem, XattrMode,
};
use std::ops::ControlFlow;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How a YAFFS2 is mounted for writing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RwOptions {
    /// How it is opened.
    pub open: OpenOptions,
    /// Show what a writable mount would show, and write nothing.
    pub read_only: bool,
    /// Whether full blocks get a summary. Existing ones are always used.
    pub summaries: bool,
    /// The least number of blocks of a flash on which `sync` and an unmount write a checkpoint; `None`
    /// to write none. Existing ones are used unless `open` says otherwise.
    pub checkpoint_from: Option<u32>,
}

impl RwOptions {
    /// Blocks from which on the reference writes checkpoints.
    pub const CHECKPOINT_FROM: u32 = 60;
}

/// As the reference: with summaries, and checkpoints on all but the smallest flashes.
impl Default for RwOptions {
    fn default() -> Self {
        Self {
            open: OpenOptions::default(),
            read_only: false,
            summaries: true,
            checkpoint_from: Some(Self::CHECKPOINT_FROM),
        }
    }
}

/// A YAFFS2 mounted for writing.
#[derive(Debug)]
pub struct YaffsRw {
    core: RwLock<Core>,
}

impl YaffsRw {
    /// Mounts the flash and finishes what a power cut left half done. A flash without any tags needs
    /// a layout in the options.
    ///
    /// # Errors
    ///
    /// Fails if no YAFFS2 is found, if the layout is impossible, or if the device fails.
    pub fn mount(
        device: Arc<dyn Mtd>,
        options: &RwOptions,
    ) -> Result<(Self, Findings), YaffsError> {
        let (mut core, findings) = Core::open(device, options)?;
        if !options.read_only {
            core.repair()?;
        }
        Ok((Self { core: RwLock::new(core) }, findings))
    }

    /// Returns the properties of the file system as they were when it was mounted.
    pub fn info(&self) -> Info {
        self.shared().fs.info.clone()
    }

    /// Compares what is in memory with the flash, without writing.
    ///
    /// # Errors
    ///
    /// Fails with the first difference, or if the flash cannot be read.
    pub fn check(&self) -> Result<(), FsError> {
        self.shared().check()
    }

    fn shared(&self) -> RwLockReadGuard<'_, Core> {
        self.core.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Core> {
        self.core.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change.
    fn change<T>(&self, run: impl FnOnce(&mut Core) -> Result<T, FsError>) -> Result<T, FsError> {
        let mut core = self.exclusive();
        if core.read_only || core.failed.is_some() {
            return Err(read_only());
        }
        let done = run(&mut core);
        core.judge(done)
    }
}

impl FileSystem for YaffsRw {
    fn root(&self) -> Ino {
        self.shared().fs.root()
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        self.shared().fs.lookup(dir, name)
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        self.shared().fs.attr(ino)
    }

    /// The cookie of an entry is the number of its object, which it keeps until it is removed.
    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let entries = self.shared().numbered(dir, cookie)?;
        for entry in entries {
            if sink(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.shared().fs.read_link(ino)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        self.shared().fs.read(ino, offset, buf)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        self.shared().fs.seek_data(ino, offset)
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        self.shared().fs.seek_hole(ino, offset)
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.shared().fs.list_xattrs(ino)
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.shared().fs.xattr(ino, name)
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        self.shared().stat_fs()
    }
}

impl WritableFileSystem for YaffsRw {
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        by: &Caller,
    ) -> Result<Ino, FsError> {
        self.change(|core| core.create(dir, name, inode, seconds(by.now)))
    }

    fn create_unnamed(&self, dir: Ino, _: &NewInode<'_>, _: &Caller) -> Result<Ino, FsError> {
        self.attr(dir)?;
        Err(FsError::new(FsErrorKind::Unsupported, "YAFFS has no files without a name"))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change(|core| core.link(ino, dir, name, seconds(by.now)))
    }

    fn unlink(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change(|core| core.remove(dir, name, seconds(by.now), Removal::NoDirectory))
    }

    fn remove_dir(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change(|core| core.remove(dir, name, seconds(by.now), Removal::Directory))
    }

    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        self.change(|core| core.rename(from, to, mode, seconds(by.now)))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change(|core| core.write(ino, offset, data, seconds(by.now)))
    }

    fn set_attr(&self, ino: Ino, changes: &SetAttr, by: &Caller) -> Result<(), FsError> {
        self.change(|core| core.set_attr(ino, changes, by.now))
    }

    fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        self.change(|core| core.set_xattr(ino, name, Some((value, mode)), seconds(by.now)))
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change(|core| core.set_xattr(ino, name, None, seconds(by.now)))
    }

    fn open(&self, ino: Ino) -> Result<(), FsError> {
        let mut core = self.exclusive();
        core.fs.attr(ino)?;
        *core.open.entry(ino as u32).or_default() += 1;
        Ok(())
    }

    fn release(&self, ino: Ino) -> Result<(), FsError> {
        let mut core = self.exclusive();
        let done = core.release(ino);
        core.judge(done)
    }

    fn sync_file(&self, ino: Ino) -> Result<(), FsError> {
        let core = self.shared();
        core.fs.attr(ino)?;
        core.flush()
    }

    /// Writes a checkpoint as well, if none describes the current state.
    fn sync(&self) -> Result<(), FsError> {
        let mut core = self.exclusive();
        let done = core.sync();
        core.judge(done)
    }

    fn background_step(&self) -> Result<Background, FsError> {
        Ok(Background::Idle)
    }

    fn become_read_only(&self) -> Result<(), FsError> {
        let mut core = self.exclusive();
        let done = core.sync();
        core.judge(done)?;
        core.read_only = true;
        Ok(())
    }

    fn become_writable(&self) -> Result<(), FsError> {
        self.exclusive().become_writable()
    }

    fn unmount(&self) -> Result<(), FsError> {
        let mut core = self.exclusive();
        let done = core.end();
        core.read_only = true;
        done
    }

    fn why_read_only(&self) -> Option<String> {
        self.shared().failed.clone()
    }
}
