//! The file-system interface.

use crate::dir::{NAME_MAX, ROOT};
use crate::object::{BLOCK, Kind, Position};
use crate::open::Logfs;
use crate::tree::Inode;
use eraseblock_mtd::Window;
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{
    Attr, DirEntry, FileKind, FileSystem, FsError, FsErrorKind, Ino, StatFs, Timestamp,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The flag of files whose new blocks are compressed.
const COMPRESSED: u32 = 4;
/// Bytes of a block that objects and their headers take.
const STORED: usize = BLOCK + 28;

fn error(kind: FsErrorKind, ino: Ino, message: &str) -> FsError {
    FsError::new(kind, format!("inode {ino}: {message}"))
}

impl Logfs {
    fn inode(&self, ino: Ino) -> Result<(Arc<Inode>, FileKind), FsError> {
        let found =
            if self.is_removed(ino) { None } else { self.load(ino).map_err(|e| e.of(ino))? };
        let inode = found.ok_or_else(|| error(FsErrorKind::NotFound, ino, "does not exist"))?;
        let mode = inode.raw.mode.get();
        let kind = FileKind::from_mode(mode.into()).ok_or_else(|| {
            error(FsErrorKind::Corrupted, ino, &format!("mode {mode:#o} has no valid type"))
        })?;
        Ok((inode, kind))
    }

    fn directory(&self, ino: Ino) -> Result<Arc<Inode>, FsError> {
        match self.inode(ino)? {
            (inode, FileKind::Directory) => Ok(inode),
            _ => Err(error(FsErrorKind::NotADirectory, ino, "not a directory")),
        }
    }

    fn regular(&self, ino: Ino) -> Result<Arc<Inode>, FsError> {
        match self.inode(ino)? {
            (inode, FileKind::Regular) => Ok(inode),
            (_, FileKind::Directory) => Err(error(FsErrorKind::IsADirectory, ino, "a directory")),
            _ => Err(error(FsErrorKind::Invalid, ino, "not a regular file")),
        }
    }

    /// Fills `buf` with the content of an inode at an offset, holes as zeros.
    fn content(&self, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<(), FsError> {
        let (ino, mut window) = (inode.root.ino, Window::new());
        let (mut position, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let (bix, inside) = (position / BLOCK as u64, (position % BLOCK as u64) as usize);
            // A part of a block needs all of it.
            let ahead = (rest.len() + inside).div_ceil(BLOCK).saturating_mul(STORED);
            let len = rest.len().min(BLOCK - inside);
            let (part, after) = rest.split_at_mut(len);
            match self.find(&inode.root, bix).map_err(|error| error.of(ino))? {
                None => part.fill(0),
                Some(place) => {
                    let at = Position { ino, bix, level: 0 };
                    let block = self.object(&mut window, place, (Kind::Block, at, ahead));
                    let block = block.map_err(|failure| {
                        let failure = failure.of(ino);
                        error(failure.kind(), ino, &format!("block {bix}: {failure}"))
                    })?;
                    part.copy_from_slice(&block[inside..][..len]);
                }
            }
            position += len as u64;
            rest = after;
        }
        Ok(())
    }

    fn target(&self, inode: &Inode) -> Result<Vec<u8>, FsError> {
        let ino = inode.root.ino;
        let mut target = vec![0; BLOCK];
        self.content(inode, 0, &mut target)?;
        let len = target.iter().position(|byte| *byte == 0).unwrap_or(BLOCK);
        target.truncate(len);
        if target.is_empty() {
            return Err(error(FsErrorKind::Corrupted, ino, "link without target"));
        }
        Ok(target)
    }
}

/// Returns a time that is stored in nanoseconds.
fn time(nanoseconds: u64) -> Timestamp {
    const SECOND: u64 = 1_000_000_000;
    Timestamp {
        seconds: i64::try_from(nanoseconds / SECOND).unwrap_or(i64::MAX),
        nanoseconds: (nanoseconds % SECOND) as u32,
    }
}

/// Returns major and minor number in the encoding that Linux uses on flash.
fn device(number: u64) -> (u32, u32) {
    let number = number as u32;
    ((number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xF_FF00))
}

impl FileSystem for Logfs {
    fn root(&self) -> Ino {
        ROOT
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let inode = self.directory(dir)?;
        if name.len() > NAME_MAX {
            return Err(error(FsErrorKind::NameTooLong, dir, "name of more than 255 bytes"));
        }
        let entry = self.named(&inode, name).map_err(|error| error.of(dir))?;
        entry.map(|entry| entry.ino).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            error(FsErrorKind::NotFound, dir, &format!("no entry `{name}`"))
        })
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        let (inode, kind) = self.inode(ino)?;
        let raw = &inode.raw;
        let size = match kind {
            FileKind::Regular | FileKind::Directory => raw.size.get(),
            // The stored size is that of the block.
            FileKind::Symlink => self.target(&inode)?.len() as u64,
            _ => 0,
        };
        let is_device = matches!(kind, FileKind::BlockDevice | FileKind::CharDevice);
        let compress = raw.flags.get() & COMPRESSED != 0;
        Ok(Attr {
            ino,
            kind,
            permissions: u32::from(raw.mode.get()) & 0o7777,
            nlink: raw.nlink.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            size,
            rdev: if is_device { device(inode.root.pointers[0]) } else { (0, 0) },
            atime: time(raw.atime.get()),
            mtime: time(raw.mtime.get()),
            ctime: time(raw.ctime.get()),
            flags: InodeFlags { compress, ..InodeFlags::default() },
        })
    }

    /// The cookie of an entry is its position in the directory, counted from 1.
    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let inode = self.directory(dir)?;
        let listed = self.entries_from(&inode, cookie, &mut |bix, entry| {
            sink(DirEntry { name: entry.name, ino: entry.ino, kind: entry.kind, cookie: bix + 1 })
        });
        listed.map_err(|error| error.of(dir))
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        match self.inode(ino)? {
            (inode, FileKind::Symlink) => self.target(&inode),
            _ => Err(error(FsErrorKind::Invalid, ino, "not a symbolic link")),
        }
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let inode = self.regular(ino)?;
        let left = inode.raw.size.get().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        self.content(&inode, offset, &mut buf[..len])?;
        Ok(len)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        let inode = self.regular(ino)?;
        let mut found = None;
        self.blocks(&inode.root, offset / BLOCK as u64, &mut |visited| {
            // What cannot be read may be data.
            let (Ok((bix, _)) | Err((bix, _))) = visited;
            found = Some(bix);
            ControlFlow::Break(())
        });
        let start = found.map(|bix| bix.saturating_mul(BLOCK as u64).max(offset));
        Ok(start.filter(|start| *start < inode.raw.size.get()))
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let inode = self.regular(ino)?;
        let (block, size) = (BLOCK as u64, inode.raw.size.get());
        let mut next = offset / block;
        self.blocks(&inode.root, next, &mut |visited| match visited {
            Ok((bix, _)) if bix == next => {
                next += 1;
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(()),
        });
        Ok(next.saturating_mul(block).max(offset).min(size))
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        let (block, info) = (BLOCK as u64, self.info());
        let blocks = info.superblock.size / block;
        let free = blocks.saturating_sub(info.used_bytes / block);
        Ok(StatFs {
            block_size: BLOCK as u32,
            blocks,
            blocks_free: free,
            blocks_available: free,
            name_max: NAME_MAX as u32,
        })
    }
}
