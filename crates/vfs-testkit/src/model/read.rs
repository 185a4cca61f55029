//! The read interface of the model.

use super::content::BLOCK;
use super::state::{Body, State};
use super::{ModelFs, content};
use eraseblock_vfs::attr::{Attr, StatFs};
use eraseblock_vfs::error::{FsError, FsErrorKind};
use eraseblock_vfs::fs::{DirEntry, FileSystem, Ino};
use eraseblock_vfs::rules::{XattrUse, check_name, check_regular, check_xattr_name, quoted};
use std::ops::ControlFlow;

/// The reported capacity of the model in blocks.
const BLOCKS: u64 = 1 << 28;

fn content(state: &State, ino: Ino) -> Result<(&content::Content, u64), FsError> {
    let inode = state.inode(ino)?;
    check_regular(&inode.attr)?;
    match &inode.body {
        Body::Regular(content) => Ok((content, inode.attr.size)),
        _ => Err(FsError::new(FsErrorKind::Invalid, format!("inode {ino}: no content"))),
    }
}

impl FileSystem for ModelFs {
    fn root(&self) -> Ino {
        Self::ROOT
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let state = self.shared();
        state.entries(dir)?;
        check_name(name, state.rules.name_max)?;
        state.lookup(dir, name)
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        self.shared().attr(ino)
    }

    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let state = self.shared().clone();
        let entries = state.entries(dir)?;
        let Some(first) = cookie.checked_add(1) else { return Ok(()) };
        for (cookie, name) in entries.by_cookie.range(first..) {
            let ino = state.lookup(dir, name)?;
            let kind = state.inode(ino)?.attr.kind;
            let entry = DirEntry { name: name.clone(), ino, kind, cookie: *cookie };
            if sink(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        match &self.shared().inode(ino)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => {
                Err(FsError::new(FsErrorKind::Invalid, format!("inode {ino}: not a symbolic link")))
            }
        }
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let state = self.shared();
        let (content, size) = content(&state, ino)?;
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        content.read(offset, &mut buf[..len]);
        Ok(len)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        let state = self.shared();
        let (content, size) = content(&state, ino)?;
        let found = content.next_data(offset / BLOCK).map(|number| (number * BLOCK).max(offset));
        Ok(found.filter(|found| *found < size))
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let state = self.shared();
        let (content, size) = content(&state, ino)?;
        if offset >= size {
            return Ok(offset);
        }
        Ok((content.next_hole(offset / BLOCK) * BLOCK).max(offset).min(size))
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        Ok(self.shared().inode(ino)?.xattrs.keys().cloned().collect())
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let state = self.shared();
        let inode = state.inode(ino)?;
        check_xattr_name(inode.attr.kind, name, XattrUse::Read)?;
        inode.xattrs.get(name).map(|value| value.to_vec()).ok_or_else(|| {
            let message = format!("inode {ino}: no attribute {}", quoted(name));
            FsError::new(FsErrorKind::NoAttribute, message)
        })
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        let state = self.shared();
        let used = state.inodes.values().map(|inode| match &inode.body {
            Body::Regular(content) => content.block_count() + 1,
            _ => 1,
        });
        let free = BLOCKS.saturating_sub(used.sum());
        Ok(StatFs {
            block_size: u32::try_from(BLOCK).expect("a small constant"),
            blocks: BLOCKS,
            blocks_free: free,
            blocks_available: free,
            name_max: u32::try_from(state.rules.name_max).unwrap_or(u32::MAX),
        })
    }
}
