//! Answers questions about inodes and names, as file systems ask them.
//!
//! Layer: above `tree` and `read`. Reads only, but loads the inodes it is asked about.

use super::dents::{Dent, Entry};
use super::failure::{damaged, refuse};
use super::inodes::InodeCache;
use super::tree::Tree;
use eraseblock_jffs2_format::acl;
use eraseblock_jffs2_format::constants::{MAX_NAME_LEN, ROOT_INO};
use eraseblock_jffs2_format::node::{PREFIX_ACL_ACCESS, PREFIX_ACL_DEFAULT, full_name};
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::rules::{
    XattrUse, check_directory, check_name, check_new_entry, check_regular, check_xattr_name, quoted,
};
use eraseblock_vfs::{Attr, DirEntry, FileKind, FsError, FsErrorKind, Ino, Timestamp};

/// Number of directory entries delivered together.
const PART: usize = 64;

/// A directory in which a name is looked up or created.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) ino: u32,
    pub(crate) attr: Attr,
}

/// An extended attribute as callers see it.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct XattrEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Tree {
    pub(crate) fn attr(&mut self, ino: Ino) -> Result<Attr, FsError> {
        let ino = self.existing(ino)?;
        let loaded = self.inode(ino);
        let attributes = &loaded.attributes;
        let kind = FileKind::from_mode(attributes.mode)
            .ok_or_else(|| damaged(ino, "mode names no file type"))?;
        let names = self.cache(ino).map_or(0, InodeCache::names);
        let nlink = match kind {
            FileKind::Directory if names == 0 => 0,
            FileKind::Directory => 2 + loaded.dents.subdirectories() + u32::from(ino == ROOT_INO),
            _ => names,
        };
        let time = |seconds: u32| Timestamp::from_seconds(seconds.into());
        Ok(Attr {
            ino: ino.into(),
            kind,
            permissions: attributes.mode & 0o7777,
            nlink,
            uid: attributes.uid.into(),
            gid: attributes.gid.into(),
            size: attributes.size.into(),
            rdev: loaded.rdev,
            atime: time(attributes.atime),
            mtime: time(attributes.mtime),
            ctime: time(attributes.ctime),
            flags: InodeFlags::default(),
        })
    }

    /// Returns the number of a directory, and loads it.
    pub(crate) fn directory(&mut self, ino: Ino) -> Result<u32, FsError> {
        check_directory(&self.attr(ino)?)?;
        self.existing(ino)
    }

    /// Returns the number of a regular file, and loads it.
    pub(crate) fn regular(&mut self, ino: Ino) -> Result<u32, FsError> {
        check_regular(&self.attr(ino)?)?;
        self.existing(ino)
    }

    /// Returns the target of a name in a loaded directory.
    pub(crate) fn find(&self, dir: u32, name: &[u8]) -> Result<Dent, FsError> {
        self.inode(dir).dents.live(name).ok_or_else(|| {
            refuse(FsErrorKind::NotFound, dir, &format!("no entry {}", quoted(name)))
        })
    }

    /// Returns the target of a name.
    pub(crate) fn look_up(&mut self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let dir = self.directory(dir)?;
        check_name(name, MAX_NAME_LEN)?;
        self.find(dir, name).map(|dent| dent.ino.into())
    }

    /// Checks a directory in which to look up the name.
    pub(crate) fn directory_of(&mut self, dir: Ino, name: &[u8]) -> Result<Directory, FsError> {
        let attr = self.attr(dir)?;
        check_directory(&attr)?;
        check_name(name, MAX_NAME_LEN)?;
        Ok(Directory { ino: self.existing(dir)?, attr })
    }

    /// Checks a directory in which to create a name.
    pub(crate) fn place_for(&mut self, dir: Ino, name: &[u8]) -> Result<Directory, FsError> {
        let dir = self.directory_of(dir, name)?;
        check_new_entry(&dir.attr, name, self.inode(dir.ino).dents.live(name).is_some())?;
        Ok(dir)
    }

    /// Returns whether removing this name of a directory would lose its entries. After an
    /// interrupted rename it has two names.
    pub(crate) fn has_entries(&mut self, ino: u32) -> Result<bool, FsError> {
        self.load(ino)?;
        let is_last = self.cache(ino).is_none_or(|cache| cache.names() < 2);
        Ok(is_last && !self.inode(ino).dents.is_empty())
    }

    /// Returns whether `ancestor` is `dir` or above it.
    pub(crate) fn is_within(&self, dir: u32, ancestor: u32) -> bool {
        let mut at = dir;
        for _ in 0..=self.owners.inodes.len() {
            if at == ancestor {
                return true;
            }
            match self.cache(at) {
                Some(InodeCache { parent: Some(parent), .. }) => at = parent.get(),
                _ => break,
            }
        }
        false
    }

    /// Returns the next entries of a directory after a cookie, but not many.
    pub(crate) fn list(&mut self, dir: Ino, cookie: u64) -> Result<Vec<DirEntry>, FsError> {
        let dir = self.directory(dir)?;
        let entries = self.inode(dir).dents.behind(cookie).filter(|entry| entry.dent.ino != 0);
        let part = entries.take(PART).map(|Entry { cookie, name, dent }| {
            let kind = FileKind::from_mode(u32::from(dent.file_type) << 12);
            let kind = kind.unwrap_or(FileKind::Regular);
            DirEntry { name: name.to_vec(), ino: dent.ino.into(), kind, cookie }
        });
        Ok(part.collect())
    }

    /// Returns the target of a symbolic link.
    pub(crate) fn read_link(&mut self, ino: Ino) -> Result<Vec<u8>, FsError> {
        let ino = self.existing(ino)?;
        let loaded = self.inode(ino);
        let is_link = FileKind::from_mode(loaded.attributes.mode) == Some(FileKind::Symlink);
        match loaded.metadata {
            Some(place) if is_link => self.store.payload(place).map(|(_, target)| target),
            _ => Err(refuse(FsErrorKind::Invalid, ino, "not a symbolic link")),
        }
    }

    /// Reads a regular file; returns the byte count.
    pub(crate) fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let ino = self.regular(ino)?;
        let size = u64::from(self.inode(ino).attributes.size);
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        if len > 0 {
            self.read_content(ino, offset as u32, &mut buf[..len])?;
        }
        Ok(len)
    }

    /// Returns the first byte at or after `offset` that is not in a hole.
    pub(crate) fn seek_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        let ino = self.regular(ino)?;
        let Ok(offset) = u32::try_from(offset) else { return Ok(None) };
        let mut parts = self.inode(ino).fragments.from(offset);
        let data = parts.find(|part| !part.1.is_hole());
        Ok(data.map(|(start, _)| start.max(offset).into()))
    }

    /// Returns the first byte at or after `offset` that is in a hole; the end of a file is one.
    pub(crate) fn seek_hole(&mut self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let ino = self.regular(ino)?;
        let loaded = self.inode(ino);
        let size = u64::from(loaded.attributes.size);
        if offset >= size {
            return Ok(offset);
        }
        let mut position = offset as u32;
        for (start, fragment) in loaded.fragments.from(position) {
            if start > position || fragment.is_hole() {
                break;
            }
            position = fragment.end;
        }
        Ok(u64::from(position).min(size))
    }

    /// Returns the extended attributes of an inode, sorted.
    pub(crate) fn xattr_entries(&mut self, ino: Ino) -> Result<Vec<XattrEntry>, FsError> {
        let ino = self.existing(ino)?;
        let order = self.store.flash.order;
        let pairs = self.owners.xattrs.stored_of(&self.store, ino)?;
        let entries = pairs.into_iter().filter_map(|(_, stored)| {
            let value = match stored.prefix {
                PREFIX_ACL_ACCESS | PREFIX_ACL_DEFAULT => acl::to_wire(order, &stored.value)?,
                _ => stored.value,
            };
            Some(XattrEntry { name: full_name(stored.prefix, &stored.name)?, value })
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort_unstable();
        Ok(entries)
    }

    /// Returns the value of an extended attribute.
    pub(crate) fn xattr_value(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        check_xattr_name(self.attr(ino)?.kind, name, XattrUse::Read)?;
        let entries = self.xattr_entries(ino)?;
        entries.into_iter().find(|entry| entry.name == name).map(|entry| entry.value).ok_or_else(
            || {
                let name = String::from_utf8_lossy(name);
                let text = format!("inode {ino}: no extended attribute `{name}`");
                FsError::new(FsErrorKind::NoAttribute, text)
            },
        )
    }
}
