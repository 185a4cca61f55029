//! The file-system interface. Inode numbers are places in the tables counted from 1.

use crate::open::Axfs;
use crate::tree::{Damaged, Mode, NAME_MAX};
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{
    Attr, DirEntry, FileKind, FileSystem, FsError, FsErrorKind, Ino, StatFs, Timestamp,
};
use std::ops::ControlFlow;

fn error(kind: FsErrorKind, ino: Ino, message: &str) -> FsError {
    FsError::new(kind, format!("inode {ino}: {message}"))
}

impl Axfs {
    fn inode(&self, ino: Ino) -> Result<(u32, Mode), FsError> {
        let index = ino.checked_sub(1).and_then(|index| u32::try_from(index).ok());
        let index = index.filter(|index| *index < self.inodes.count());
        let index = index.ok_or_else(|| error(FsErrorKind::NotFound, ino, "does not exist"))?;
        let mode = self.inodes.mode(index).ok_or_else(|| {
            error(FsErrorKind::Corrupted, ino, "no valid mode and owner in the tables")
        })?;
        Ok((index, mode))
    }

    fn directory(&self, ino: Ino) -> Result<u32, FsError> {
        match self.inode(ino)? {
            (index, mode) if mode.kind == FileKind::Directory => Ok(index),
            _ => Err(error(FsErrorKind::NotADirectory, ino, "not a directory")),
        }
    }

    /// Returns the inode of a regular file and its size.
    fn regular(&self, ino: Ino) -> Result<(u32, u64), FsError> {
        let (index, mode) = self.inode(ino)?;
        match mode.kind {
            FileKind::Regular => Ok((index, self.size(ino, index)?)),
            FileKind::Directory => Err(error(FsErrorKind::IsADirectory, ino, "a directory")),
            _ => Err(error(FsErrorKind::Invalid, ino, "not a regular file")),
        }
    }

    /// Returns the size of a file or link, for which there must be pages: no read then goes through
    /// more bytes than pages can hold.
    fn size(&self, ino: Ino, inode: u32) -> Result<u64, FsError> {
        let size = self.inodes.size(inode);
        let needed = size.div_ceil(u64::from(self.superblock.page_size));
        let pages = self.pages.count();
        let left = pages.saturating_sub(self.inodes.first_page(inode));
        if size > 0 && needed > left {
            let message = format!("{size} bytes in {needed} pages, expected at most {left} pages");
            return Err(error(FsErrorKind::Corrupted, ino, &message));
        }
        Ok(size)
    }

    fn content(&self, ino: Ino, inode: u32, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let size = self.size(ino, inode)?;
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        let first = self.inodes.first_page(inode);
        let read = self.pages.read(first, size, offset, &mut buf[..len]);
        read.map_err(|failure| error(failure.kind(), ino, &failure.to_string()))?;
        Ok(len)
    }
}

/// Returns major and minor number in the old encoding (spec: readonly-formats B.4).
fn device(number: u64) -> (u32, u32) {
    let number = number as u32 & 0xFFFF;
    (number >> 8, number & 0xFF)
}

/// Longest target of a link that is delivered.
const TARGET_MAX: u64 = 4096;

impl FileSystem for Axfs {
    fn root(&self) -> Ino {
        1
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let index = self.directory(dir)?;
        if name.len() > NAME_MAX {
            return Err(error(FsErrorKind::NameTooLong, dir, "name of more than 255 bytes"));
        }
        let found = self.inodes.find(index, name);
        let found =
            found.map_err(|Damaged| error(FsErrorKind::Corrupted, dir, "no valid entries"))?;
        found.map(|inode| u64::from(inode) + 1).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            error(FsErrorKind::NotFound, dir, &format!("no entry `{name}`"))
        })
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        let (index, mode) = self.inode(ino)?;
        let size = match mode.kind {
            FileKind::Regular | FileKind::Symlink => self.size(ino, index)?,
            FileKind::Directory => self.inodes.size(index),
            _ => 0,
        };
        let is_device = matches!(mode.kind, FileKind::BlockDevice | FileKind::CharDevice);
        let time = i64::try_from(self.superblock.time).unwrap_or(i64::MAX);
        let time = Timestamp::from_seconds(time);
        Ok(Attr {
            ino,
            kind: mode.kind,
            permissions: mode.permissions,
            nlink: 1,
            uid: mode.uid,
            gid: mode.gid,
            size,
            rdev: if is_device { device(self.inodes.size(index)) } else { (0, 0) },
            atime: time,
            mtime: time,
            ctime: time,
            flags: InodeFlags::default(),
        })
    }

    /// The cookie of an entry is its inode number.
    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let entries = self.inodes.list(self.directory(dir)?);
        let entries =
            entries.ok_or_else(|| error(FsErrorKind::Corrupted, dir, "no valid entries"))?;
        for (inode, name) in entries {
            let ino = u64::from(inode) + 1;
            if ino <= cookie {
                continue;
            }
            // One without a mode is listed; its attributes are an error.
            let kind = self.inodes.mode(inode).map_or(FileKind::Regular, |mode| mode.kind);
            let entry = DirEntry { name: name.to_vec(), ino, kind, cookie: ino };
            if sink(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        let (index, mode) = self.inode(ino)?;
        if mode.kind != FileKind::Symlink {
            return Err(error(FsErrorKind::Invalid, ino, "not a symbolic link"));
        }
        let size = self.size(ino, index)?;
        if size > TARGET_MAX || size == 0 {
            let message = format!("a link target of {size} bytes, expected 1 to {TARGET_MAX}");
            return Err(error(FsErrorKind::Corrupted, ino, &message));
        }
        let mut target = vec![0; size as usize];
        self.content(ino, index, 0, &mut target)?;
        Ok(target)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let (index, _) = self.regular(ino)?;
        self.content(ino, index, offset, buf)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        let (_, size) = self.regular(ino)?;
        Ok((offset < size).then_some(offset))
    }

    fn seek_hole(&self, ino: Ino, _: u64) -> Result<u64, FsError> {
        Ok(self.regular(ino)?.1)
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        let block_size = self.superblock.page_size;
        Ok(StatFs {
            block_size,
            blocks: self.superblock.image_size.div_ceil(u64::from(block_size)),
            blocks_free: 0,
            blocks_available: 0,
            name_max: NAME_MAX as u32,
        })
    }
}
