//! The file-system interface (layer 16).

use super::UbifsMount;
use super::bulk::{BLOCK, Reading};
use super::core::Core;
use super::dir::Removal;
use super::error::Step;
use super::group::Durable;
use super::inode::{InodeState, ino_number};
use super::reading::{Seek, len_within};
use super::write_back::BATCH;
use eraseblock_ubifs_format::constants::{MAX_FILE_SIZE, MAX_NAME_LEN, ROOT_INO, inode_flags};
use eraseblock_ubifs_format::node::file_type;
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{
    Attr, Background, Caller, DirEntry, FileSystem, FsError, FsErrorKind, Ino, NewInode,
    RenameMode, SetAttr, StatFs, Timestamp, WritableFileSystem, XattrMode, rules,
};
use std::ops::ControlFlow;

/// Number of times a parallel read may load missing parts before it runs alone.
const READ_TRIES: u32 = 2;

impl Core {
    fn set_attr(&mut self, ino: Ino, changes: &SetAttr, now: Timestamp) -> Step<()> {
        self.check_mounted()?;
        let attr = self.visible(ino)?.attr();
        rules::check_set_attr(&attr, changes, MAX_FILE_SIZE)?;
        if *changes == SetAttr::default() {
            return Ok(());
        }
        let number = ino_number(ino)?;
        if let Some(size) = changes.size {
            if attr.flags.encrypted {
                return Err(FsError::new(FsErrorKind::NoKey, "the file is encrypted").into());
            }
            self.set_size(number, size, now)?;
        }
        self.dirty_inode(number)?;
        let next = rules::changed_attr(&attr, changes, now);
        let [atime, mtime, ctime] =
            [next.atime, next.mtime, next.ctime].map(|time| self.time(time));
        let inode = self.inode(number)?;
        (inode.atime, inode.mtime, inode.ctime) = (atime, mtime, ctime);
        (inode.uid, inode.gid) = (next.uid, next.gid);
        inode.mode = inode.mode & file_type::MASK | next.permissions;
        inode.flags = inode.flags & !CHANGEABLE | flag_bits(next.flags);
        if inode.is_sync() || self.options.sync {
            self.write_inode(number, Durable::Now)?;
        }
        Ok(())
    }
}

/// Flags that callers can change.
const CHANGEABLE: u32 = inode_flags::COMPRESS
    | inode_flags::SYNC
    | inode_flags::IMMUTABLE
    | inode_flags::APPEND
    | inode_flags::DIRSYNC;

fn flag_bits(flags: InodeFlags) -> u32 {
    let bits = [
        (flags.compress, inode_flags::COMPRESS),
        (flags.sync, inode_flags::SYNC),
        (flags.immutable, inode_flags::IMMUTABLE),
        (flags.append, inode_flags::APPEND),
        (flags.dirsync, inode_flags::DIRSYNC),
    ];
    bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()
}

impl UbifsMount {
    fn read_only<T>(&self, read: impl FnOnce(&mut Core) -> Step<T>) -> Result<T, FsError> {
        let mut core = self.lock();
        let result = read(&mut core);
        core.shrink();
        result.map_err(super::error::Fault::into_fs)
    }

    /// Reads in parallel with other readers. Only loading missing parts of the index is done alone.
    fn read_beside(
        &self,
        ino: Ino,
        offset: u64,
        buf: &mut [u8],
        reading: &mut Reading,
    ) -> Step<usize> {
        for _ in 0..READ_TRIES {
            let read = self.lock_shared().read_loaded(ino, offset, buf, reading)?;
            if let Some(len) = read {
                return Ok(len);
            }
            let mut core = self.lock();
            core.shrink();
            let (number, size) = core.regular(ino)?;
            core.plan_read(number, offset, len_within(size, offset, buf.len()), reading)?;
        }
        self.lock().read_alone(ino, offset, buf, reading)
    }

    /// Runs work of the file system itself, and the work due after it.
    fn change<T>(&self, operation: impl FnOnce(&mut Core) -> Step<T>) -> Result<T, FsError> {
        self.change_for(&Caller::owner(Timestamp::default()), operation)
    }

    /// Runs a changing operation of a caller and the work due after it.
    fn change_for<T>(
        &self,
        by: &Caller,
        operation: impl FnOnce(&mut Core) -> Step<T>,
    ) -> Result<T, FsError> {
        let mut core = self.lock();
        core.store.set_caller(by);
        let result = operation(&mut core);
        let due = core.end_operation();
        let result = result.map_err(super::error::Fault::into_fs)?;
        due.map_err(super::error::Fault::into_fs)?;
        Ok(result)
    }
}

impl FileSystem for UbifsMount {
    fn root(&self) -> Ino {
        ROOT_INO.into()
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let loaded = self.lock_shared().lookup_loaded(dir, name);
        if let Some(ino) = loaded.map_err(super::error::Fault::into_fs)? {
            return Ok(ino);
        }
        self.read_only(|core| {
            let dir = core.directory(dir)?;
            if name.len() > MAX_NAME_LEN {
                let message = "a name of more than 255 bytes";
                return Err(FsError::new(FsErrorKind::NameTooLong, message).into());
            }
            Ok(core.existing(dir, name)?.ino.into())
        })
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        // Data in memory can be read in parallel.
        let known = u32::try_from(ino).ok().and_then(|number| self.lock_shared().known(number));
        match known {
            Some(attr) => Ok(attr),
            None => self.read_only(|core| Ok(core.visible(ino)?.attr())),
        }
    }

    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let mut cookie = cookie;
        loop {
            let entries = self.read_only(|core| {
                let dir = core.directory(dir)?;
                core.entries_behind(dir, cookie)
            })?;
            let Some(last) = entries.last() else { return Ok(()) };
            cookie = last.cookie;
            for entry in entries {
                if sink(entry).is_break() {
                    return Ok(());
                }
            }
        }
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.read_only(|core| {
            let inode: &InodeState = core.visible(ino)?;
            if inode.mode & file_type::MASK != file_type::SYMLINK {
                let message = format!("inode {ino}: not a symbolic link");
                return Err(FsError::new(FsErrorKind::Invalid, message).into());
            }
            if inode.has(inode_flags::ENCRYPTED) {
                let message = format!("inode {ino}: link target is encrypted and there is no key");
                return Err(FsError::new(FsErrorKind::NoKey, message).into());
            }
            Ok(inode.data.clone())
        })
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let mut reading = self.spare_reading();
        let result = self.read_beside(ino, offset, buf, &mut reading);
        self.keep_reading(reading);
        result.map_err(super::error::Fault::into_fs)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        self.read_only(|core| {
            let (ino, size) = core.regular(ino)?;
            if offset >= size {
                return Ok(None);
            }
            let end = size.div_ceil(BLOCK) as u32;
            let block = core.next_block(ino, (offset / BLOCK) as u32, end, Seek::Data)?;
            Ok(block.map(|block| (u64::from(block) * BLOCK).max(offset)))
        })
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        self.read_only(|core| {
            let (ino, size) = core.regular(ino)?;
            if offset >= size {
                return Ok(size);
            }
            let end = size.div_ceil(BLOCK) as u32;
            let block = core.next_block(ino, (offset / BLOCK) as u32, end, Seek::Hole)?;
            Ok(block.map_or(size, |block| (u64::from(block) * BLOCK).max(offset).min(size)))
        })
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.read_only(|core| core.list_xattrs(ino))
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.read_only(|core| core.xattr(ino, name))
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        Ok(self.lock().store.stat_space())
    }
}

impl WritableFileSystem for UbifsMount {
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        by: &Caller,
    ) -> Result<Ino, FsError> {
        self.change_for(by, |core| core.create(dir, name, inode, by.now).map(Ino::from))
    }

    fn create_unnamed(&self, dir: Ino, inode: &NewInode<'_>, by: &Caller) -> Result<Ino, FsError> {
        self.change_for(by, |core| core.create_unnamed(dir, inode, by.now).map(Ino::from))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change_for(by, |core| core.link(ino, dir, name, by.now))
    }

    fn unlink(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change_for(by, |core| core.unlink(dir, name, Removal::File, by.now))
    }

    fn remove_dir(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change_for(by, |core| core.unlink(dir, name, Removal::Directory, by.now))
    }

    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        self.change_for(by, |core| core.rename(from, to, mode, by.now))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change_for(by, |core| {
            core.check_mounted()?;
            let attr = core.visible(ino)?.attr();
            rules::check_write(&attr, offset, data.len(), MAX_FILE_SIZE)?;
            let (ino, _) = core.regular(ino)?;
            core.write_content(ino, offset, data, by.now)
        })
    }

    fn set_attr(&self, ino: Ino, changes: &SetAttr, by: &Caller) -> Result<(), FsError> {
        self.change_for(by, |core| core.set_attr(ino, changes, by.now))
    }

    fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        self.change_for(by, |core| core.set_xattr(ino, name, value, mode, by.now))
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        self.change_for(by, |core| core.remove_xattr(ino, name, by.now))
    }

    fn open(&self, ino: Ino) -> Result<(), FsError> {
        self.change(|core| core.open(ino))
    }

    fn release(&self, ino: Ino) -> Result<(), FsError> {
        self.change(|core| core.release_open(ino))
    }

    fn sync_file(&self, ino: Ino) -> Result<(), FsError> {
        self.change(|core| {
            let ino = core.visible(ino)?.ino;
            if core.is_read_only {
                return Ok(());
            }
            core.store.nodes.flash.check_writable()?;
            core.sync_inode(ino)?;
            core.store.nodes.flash.sync()
        })
    }

    fn sync(&self) -> Result<(), FsError> {
        self.change(Core::sync_all)
    }

    fn flush(&self) -> Result<(), FsError> {
        self.change(Core::flush_all)
    }

    fn background_step(&self) -> Result<Background, FsError> {
        self.change(|core| {
            if core.is_read_only || core.store.nodes.flash.why_read_only.is_some() {
                return Ok(Background::Idle);
            }
            if core.pages.len() > 0 {
                core.write_back_oldest(BATCH)?;
                return Ok(Background::More);
            }
            core.write_inodes()?;
            core.store.nodes.sync_heads()?;
            Ok(Background::Idle)
        })
    }

    fn free_waiting_space(&self) -> Result<(), FsError> {
        self.change(|core| {
            let may_write = !core.is_read_only && core.store.nodes.flash.why_read_only.is_none();
            if may_write && core.store.is_space_waiting() { core.sync_all() } else { Ok(()) }
        })
    }

    fn become_read_only(&self) -> Result<(), FsError> {
        self.change(|core| if core.is_read_only { Ok(()) } else { core.rest() })
    }

    fn become_writable(&self) -> Result<(), FsError> {
        self.change(|core| if core.is_read_only { core.become_writable() } else { Ok(()) })
    }

    fn unmount(&self) -> Result<(), FsError> {
        self.change(Core::leave_clean)
    }

    fn why_read_only(&self) -> Option<String> {
        self.lock().store.nodes.flash.why_read_only.clone()
    }
}
