//! The file-system interface.

use crate::build::Entry;
use crate::damage::Range;
use crate::inode::{Fragment, Loaded};
use crate::mount::Jffs2;
use eraseblock_jffs2_format::constants::{MAX_NAME_LEN, MAX_TARGET_LEN, ROOT_INO};
use eraseblock_vfs::{Attr, DirEntry, FileKind, FileSystem, FsError, FsErrorKind, Ino, StatFs};
use std::ops::ControlFlow;
use std::sync::Arc;

fn error(kind: FsErrorKind, ino: Ino, message: &str) -> FsError {
    FsError::new(kind, format!("inode {ino}: {message}"))
}

impl Jffs2 {
    fn directory(&self, dir: Ino) -> Result<u32, FsError> {
        match self.load(dir)?.attr.kind {
            FileKind::Directory => Ok(dir as u32),
            _ => Err(error(FsErrorKind::NotADirectory, dir, "not a directory")),
        }
    }

    fn regular(&self, ino: Ino) -> Result<Arc<Loaded>, FsError> {
        let loaded = self.load(ino)?;
        match loaded.attr.kind {
            FileKind::Regular => Ok(loaded),
            FileKind::Directory => Err(error(FsErrorKind::IsADirectory, ino, "is a directory")),
            _ => Err(error(FsErrorKind::Invalid, ino, "not a regular file")),
        }
    }

    /// Returns the kind of an entry, or that of its inode if the entry's own is invalid.
    fn entry_kind(&self, entry: &Entry) -> Option<FileKind> {
        FileKind::from_mode(u32::from(entry.file_type) << 12)
            .or_else(|| self.load(entry.ino.into()).ok().map(|loaded| loaded.attr.kind))
    }
}

/// Returns the fragments that end after `offset`.
fn from(fragments: &[Fragment], offset: u64) -> &[Fragment] {
    let start = fragments.partition_point(|fragment| u64::from(fragment.end) <= offset);
    &fragments[start..]
}

impl FileSystem for Jffs2 {
    fn root(&self) -> Ino {
        ROOT_INO.into()
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let number = self.directory(dir)?;
        let entries = self.tables.entries(number);
        if name.len() > MAX_NAME_LEN + 1 {
            return Err(error(FsErrorKind::NameTooLong, dir, "name of more than 255 bytes"));
        }
        let found = entries.binary_search_by(|entry| self.tables.name(entry).cmp(name));
        found.map(|index| entries[index].ino.into()).map_err(|_| {
            let name = String::from_utf8_lossy(name);
            error(FsErrorKind::NotFound, dir, &format!("no entry `{name}`"))
        })
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        Ok(self.load(ino)?.attr.clone())
    }

    /// The cookie of an entry is its position in the directory, counted from 1.
    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let number = self.directory(dir)?;
        let skip = usize::try_from(cookie).unwrap_or(usize::MAX);
        for (entry, cookie) in self.tables.entries(number).iter().zip(1..).skip(skip) {
            let Some(kind) = self.entry_kind(entry) else { continue };
            let name = self.tables.name(entry).to_vec();
            if sink(DirEntry { name, ino: entry.ino.into(), kind, cookie }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        let loaded = self.load(ino)?;
        if loaded.attr.kind != FileKind::Symlink {
            return Err(error(FsErrorKind::Invalid, ino, "not a symbolic link"));
        }
        let place = loaded.fragments.first().and_then(|fragment| fragment.place);
        let place =
            place.ok_or_else(|| error(FsErrorKind::Corrupted, ino, "link without target"))?;
        // The target is stored uncompressed, regardless of the compressor number (spec: jffs2 6).
        let (node, target) = self.payload(place)?;
        if node.csize > MAX_TARGET_LEN {
            return Err(error(FsErrorKind::NameTooLong, ino, "link target of more than 254 bytes"));
        }
        Ok(target)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let loaded = self.regular(ino)?;
        let left = usize::try_from(loaded.attr.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        let buf = &mut buf[..len];
        buf.fill(0);
        let end = offset.saturating_add(len as u64);
        for fragment in from(&loaded.fragments, offset) {
            if u64::from(fragment.start) >= end {
                break;
            }
            let Some(place) = fragment.place else { continue };
            let range = Range { start: fragment.start, end: fragment.end };
            let (start, data) = self.part(ino, range, place)?;
            let first = u64::from(fragment.start).max(offset);
            let last = u64::from(fragment.end).min(end);
            let count = (last - first) as usize;
            let part = first
                .checked_sub(start.into())
                .and_then(|skip| data.get(skip as usize..)?.get(..count))
                .ok_or_else(|| error(FsErrorKind::Io, ino, "a node changed while it was read"))?;
            buf[(first - offset) as usize..][..count].copy_from_slice(part);
        }
        Ok(len)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        let loaded = self.regular(ino)?;
        let data = from(&loaded.fragments, offset).iter().find(|part| part.place.is_some());
        Ok(data.map(|part| u64::from(part.start).max(offset)))
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let loaded = self.regular(ino)?;
        let mut position = offset;
        for part in from(&loaded.fragments, offset) {
            if u64::from(part.start) > position || part.place.is_none() {
                break;
            }
            position = part.end.into();
        }
        Ok(position.min(loaded.attr.size))
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.load(ino)?;
        let pairs = self.attributes_of(ino as u32)?;
        Ok(pairs.into_iter().map(|(name, _)| name).collect())
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.load(ino)?;
        let pairs = self.attributes_of(ino as u32)?;
        pairs.into_iter().find(|pair| pair.0 == name).map(|pair| pair.1).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            error(FsErrorKind::NoAttribute, ino, &format!("no extended attribute `{name}`"))
        })
    }

    /// Free space is the space without nodes, minus the blocks that Linux reserves (spec: jffs2
    /// 13); superseded nodes count as used.
    fn stat_fs(&self) -> Result<StatFs, FsError> {
        let block = u64::from(self.info.shape.erase_size);
        let size = u64::from(self.info.blocks) * block;
        let overhead = size / 50 + 100 * u64::from(self.info.blocks) + block - 1;
        let reserved = (2 + overhead / block) * block;
        let free = size.saturating_sub(self.info.node_bytes).saturating_sub(reserved) / 4096;
        Ok(StatFs {
            block_size: 4096,
            blocks: size / 4096,
            blocks_free: free,
            blocks_available: free,
            name_max: MAX_NAME_LEN as u32,
        })
    }
}
