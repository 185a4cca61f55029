//! Both halves of the file-system interface.
//!
//! Layer: the top. Takes the lock and passes each call on.

use super::Jffs2Rw;
use super::failure::{Closed, no_space};
use super::inode::seconds;
use super::names::Victim;
use super::state::{Access, State};
use eraseblock_jffs2_format::constants::{MAX_NAME_LEN, ROOT_INO};
use eraseblock_vfs::{
    Attr, Background, Caller, DirEntry, FileSystem, FsError, FsErrorKind, Ino, NewInode,
    RenameMode, SetAttr, StatFs, WritableFileSystem, XattrMode,
};
use std::ops::ControlFlow;

/// Bytes in a block of statfs.
const STAT_BLOCK: u64 = 4096;

impl FileSystem for Jffs2Rw {
    fn root(&self) -> Ino {
        ROOT_INO.into()
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        self.start().tree_mut().look_up(dir, name)
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        self.start().tree_mut().attr(ino)
    }

    /// The cookie of an entry is the hash of its name.
    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let mut cookie = cookie;
        loop {
            // The sink may call the file system: it is called without the lock.
            let part = self.start().tree_mut().list(dir, cookie)?;
            let Some(last) = part.last() else { return Ok(()) };
            cookie = last.cookie;
            for entry in part {
                if sink(entry).is_break() {
                    return Ok(());
                }
            }
        }
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.start().tree_mut().read_link(ino)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        self.start().tree_mut().read(ino, offset, buf)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        self.start().tree_mut().seek_data(ino, offset)
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        self.start().tree_mut().seek_hole(ino, offset)
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        let entries = self.start().tree_mut().xattr_entries(ino)?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.start().tree_mut().xattr_value(ino, name)
    }

    /// Spec: jffs2 13.
    fn stat_fs(&self) -> Result<StatFs, FsError> {
        let state = self.lock();
        let store = &state.tree().store;
        let free = store.reserves.available(&store.blocks) / STAT_BLOCK;
        let size = u64::from(store.flash.count) * u64::from(store.flash.block);
        Ok(StatFs {
            block_size: STAT_BLOCK as u32,
            blocks: size / STAT_BLOCK,
            blocks_free: free,
            blocks_available: free,
            name_max: MAX_NAME_LEN as u32,
        })
    }
}

impl Jffs2Rw {
    /// Runs a changing operation.
    fn change<T>(
        &self,
        operation: impl FnOnce(&mut State) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        let mut state = self.start();
        state.prepare()?;
        operation(&mut state)
    }
}

impl WritableFileSystem for Jffs2Rw {
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        by: &Caller,
    ) -> Result<Ino, FsError> {
        self.change(|state| state.create(dir, name, inode, seconds(by.now)).map(Ino::from))
    }

    /// Refused: JFFS2 has no inodes without names.
    fn create_unnamed(&self, _: Ino, _: &NewInode<'_>, _: &Caller) -> Result<Ino, FsError> {
        Err(FsError::new(FsErrorKind::Unsupported, "JFFS2 has no files without names"))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change(|state| state.link(ino, dir, name, seconds(by.now)))
    }

    fn unlink(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change(|state| state.remove(dir, name, Victim::Other, seconds(by.now)))
    }

    fn remove_dir(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change(|state| state.remove(dir, name, Victim::Directory, seconds(by.now)))
    }

    /// Two nodes: a power cut between them leaves both names (spec: jffs2 14).
    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        self.change(|state| state.rename(from, to, mode, seconds(by.now)))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: &Caller) -> Result<(), FsError> {
        match self.write_some(ino, offset, data, by)? {
            done if done < data.len() => Err(no_space("all of it")),
            _ => Ok(()),
        }
    }

    fn write_some(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        by: &Caller,
    ) -> Result<usize, FsError> {
        self.change(|state| state.write(ino, offset, data, seconds(by.now)))
    }

    fn set_attr(&self, ino: Ino, changes: &SetAttr, by: &Caller) -> Result<(), FsError> {
        self.change(|state| state.set_attributes(ino, changes, seconds(by.now)))
    }

    fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        self.change(|state| state.set_xattr(ino, name, value, mode, seconds(by.now)))
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change(|state| state.remove_xattr(ino, name, seconds(by.now)))
    }

    fn open(&self, ino: Ino) -> Result<(), FsError> {
        let mut state = self.start();
        let ino = state.tree_mut().existing(ino)?;
        state.tree_mut().open(ino);
        Ok(())
    }

    fn release(&self, ino: Ino) -> Result<(), FsError> {
        let mut state = self.start();
        let ino = state.tree_mut().existing(ino)?;
        state.tree_mut().release(ino)
    }

    fn sync_file(&self, ino: Ino) -> Result<(), FsError> {
        let mut state = self.start();
        state.tree_mut().existing(ino)?;
        state.sync()
    }

    fn sync(&self) -> Result<(), FsError> {
        self.lock().sync()
    }

    fn background_step(&self) -> Result<Background, FsError> {
        self.start().background()
    }

    fn become_read_only(&self) -> Result<(), FsError> {
        self.lock().remount(Access::ReadOnly)
    }

    fn become_writable(&self) -> Result<(), FsError> {
        self.lock().remount(Access::Writable)
    }

    fn unmount(&self) -> Result<(), FsError> {
        self.lock().unmount()
    }

    fn why_read_only(&self) -> Option<String> {
        match self.lock().closed() {
            Some(Closed::Because(reason)) => Some(reason.clone()),
            Some(Closed::Unmounted) | None => None,
        }
    }
}
