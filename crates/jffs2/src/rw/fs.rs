//! Both halves of the file-system interface.

use super::Jffs2Rw;
use super::content::seconds;
use super::dents::Entry;
use super::inodes::InodeCache;
use super::names::refuse;
use super::nodelist::List;
use super::state::{Closed, State, damaged, io, no_space};
use eraseblock_jffs2_format::acl;
use eraseblock_jffs2_format::constants::{MAX_NAME_LEN, ROOT_INO};
use eraseblock_jffs2_format::encode::xattr_len;
use eraseblock_jffs2_format::node::{PREFIX_ACL_ACCESS, PREFIX_ACL_DEFAULT, full_name, split_name};
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::rules::{check_acl_value, check_name, check_xattr_name, check_xattr_value};
use eraseblock_vfs::{
    Attr, Background, DirEntry, FileKind, FileSystem, FsError, FsErrorKind, Ino, NewInode,
    RenameMode, SetAttr, StatFs, Timestamp, WritableFileSystem, XattrMode,
};
use std::ops::ControlFlow;

/// Name and value of an attribute.
type Pair = (Vec<u8>, Vec<u8>);

/// Bytes in a block of statfs.
const STAT_BLOCK: u64 = 4096;

impl State {
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

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let ino = self.regular(ino)?;
        let size = u64::from(self.inode(ino).attributes.size);
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        if len > 0 {
            self.read_content(ino, offset as u32, &mut buf[..len])?;
        }
        Ok(len)
    }

    fn seek_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        let ino = self.regular(ino)?;
        let Ok(offset) = u32::try_from(offset) else { return Ok(None) };
        let mut parts = self.inode(ino).fragments.from(offset);
        let data = parts.find(|part| part.1.node.is_some_and(|node| !node.is_hole));
        Ok(data.map(|(start, _)| start.max(offset).into()))
    }

    fn seek_hole(&mut self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let ino = self.regular(ino)?;
        let loaded = self.inode(ino);
        let size = u64::from(loaded.attributes.size);
        if offset >= size {
            return Ok(offset);
        }
        let mut position = offset as u32;
        for (start, fragment) in loaded.fragments.from(position) {
            if start > position || fragment.node.is_none_or(|node| node.is_hole) {
                break;
            }
            position = fragment.end;
        }
        Ok(u64::from(position).min(size))
    }

    /// Returns name space, stored name and stored value of an attribute to set.
    fn stored_xattr<'a>(
        &mut self,
        ino: u32,
        name: &'a [u8],
        value: &[u8],
    ) -> Result<(u8, &'a [u8], Vec<u8>), FsError> {
        check_xattr_name(self.attr(ino.into())?.kind, name, true)?;
        check_acl_value(name, value)?;
        check_xattr_value(value, 65_535)?;
        let (prefix, stored) = split_name(name).ok_or_else(|| {
            refuse(FsErrorKind::Unsupported, ino, "JFFS2 has no such name space of attributes")
        })?;
        let value = match prefix {
            PREFIX_ACL_ACCESS | PREFIX_ACL_DEFAULT => acl::from_wire(self.flash.order, value)
                .ok_or_else(|| refuse(FsErrorKind::Invalid, ino, "not an ACL"))?,
            _ => value.to_vec(),
        };
        // Name, value and a summary with one record share a block.
        let summary = if self.flash.has_buffer() { self.flash.page.max(64) } else { 64 };
        let most = self.flash.block - self.flash.cleanmarker().next_multiple_of(4) - summary;
        if xattr_len(stored.len(), value.len()) > most {
            let message = "the value does not fit a block";
            return Err(refuse(FsErrorKind::OutOfRange, ino, message));
        }
        Ok((prefix, stored, value))
    }

    fn xattrs(&mut self, ino: Ino) -> Result<Vec<Pair>, FsError> {
        let ino = self.existing(ino)?;
        let order = self.flash.order;
        let pairs = self.pairs_of(ino)?.into_iter().filter_map(|(_, (prefix, name, value))| {
            let value = match prefix {
                PREFIX_ACL_ACCESS | PREFIX_ACL_DEFAULT => acl::to_wire(order, &value)?,
                _ => value,
            };
            Some((full_name(prefix, &name)?, value))
        });
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        Ok(pairs)
    }

    /// Spec: jffs2 13.
    fn stat_fs(&self) -> StatFs {
        let block = u64::from(self.flash.block);
        let totals = self.blocks.totals();
        let kept = u64::from(self.reserves.write) * block;
        // Dead bytes of the open block count as wasted until the block is closed.
        let open = self.blocks.next().map_or(0, |block| self.blocks.get(block).sizes.wasted);
        let reclaimable = totals.dirty + totals.free + u64::from(open);
        let free = reclaimable.saturating_sub(kept) / STAT_BLOCK;
        StatFs {
            block_size: STAT_BLOCK as u32,
            blocks: u64::from(self.flash.count) * block / STAT_BLOCK,
            blocks_free: free,
            blocks_available: free,
            name_max: MAX_NAME_LEN as u32,
        }
    }

    fn background(&mut self) -> Result<Background, FsError> {
        if self.check_writable().is_err() {
            return Ok(Background::Idle);
        }
        if self.has_suspects() {
            self.settle_suspects()?;
        }
        let totals = self.blocks.totals();
        let pending = self.blocks.len(List::ErasePending);
        let reclaimable =
            totals.dirty.saturating_sub(u64::from(pending) * u64::from(self.flash.block));
        let free = self.blocks.len(List::Free) + pending;
        let is_wanted = pending > 0
            || totals.unchecked > 0
            || (free < self.reserves.trigger && reclaimable > self.reserves.dirty)
            || self.blocks.len(List::VeryDirty) >= self.reserves.trigger;
        if is_wanted && self.gc_pass()? {
            return Ok(Background::More);
        }
        self.flush()?;
        let more = self.blocks.len(List::ErasePending) > 0;
        Ok(if more { Background::More } else { Background::Idle })
    }

    fn sync(&mut self) -> Result<(), FsError> {
        if !self.read_only && self.closed.is_none() {
            self.settle_suspects()?;
            self.flush()?;
            return self.flash.mtd.sync().map_err(io);
        }
        let is_all_on_flash = self.wbuf.is_empty() && !self.suspects.has_lost;
        match (&self.closed, is_all_on_flash) {
            (Some(closed), false) => Err(FsError::new(FsErrorKind::Io, closed.to_string())),
            _ => Ok(()),
        }
    }
}

impl FileSystem for Jffs2Rw {
    fn root(&self) -> Ino {
        ROOT_INO.into()
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let mut state = self.start();
        let dir = state.directory(dir)?;
        check_name(name, MAX_NAME_LEN)?;
        state.find(dir, name).map(|dent| dent.ino.into())
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        self.start().attr(ino)
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
            let part = self.start().list(dir, cookie)?;
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
        let mut state = self.start();
        let ino = state.existing(ino)?;
        let loaded = state.inode(ino);
        let is_link = FileKind::from_mode(loaded.attributes.mode) == Some(FileKind::Symlink);
        match loaded.metadata {
            Some(place) if is_link => state.payload(place).map(|(_, target)| target),
            _ => Err(refuse(FsErrorKind::Invalid, ino, "not a symbolic link")),
        }
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        self.start().read(ino, offset, buf)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        self.start().seek_data(ino, offset)
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        self.start().seek_hole(ino, offset)
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        Ok(self.start().xattrs(ino)?.into_iter().map(|pair| pair.0).collect())
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let mut state = self.start();
        check_xattr_name(state.attr(ino)?.kind, name, false)?;
        let pairs = state.xattrs(ino)?;
        pairs.into_iter().find(|pair| pair.0 == name).map(|pair| pair.1).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let text = format!("inode {ino}: no extended attribute `{name}`");
            FsError::new(FsErrorKind::NoAttribute, text)
        })
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        Ok(self.lock().stat_fs())
    }
}

/// Number of directory entries delivered together.
const PART: usize = 64;

impl State {
    fn list(&mut self, dir: Ino, cookie: u64) -> Result<Vec<DirEntry>, FsError> {
        let dir = self.directory(dir)?;
        let mut part = Vec::new();
        let entries = self.inode(dir).dents.behind(cookie);
        for Entry { cookie, name, dent } in entries.filter(|entry| entry.dent.ino != 0) {
            let kind = FileKind::from_mode(u32::from(dent.file_type) << 12);
            let kind = kind.unwrap_or(FileKind::Regular);
            part.push(DirEntry { name: name.to_vec(), ino: dent.ino.into(), kind, cookie });
            if part.len() == PART {
                break;
            }
        }
        Ok(part)
    }
}

impl Jffs2Rw {
    /// Runs a changing operation.
    fn change<T>(
        &self,
        operation: impl FnOnce(&mut State) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        let mut state = self.start();
        state.check_writable()?;
        state.settle_suspects()?;
        operation(&mut state)
    }
}

impl WritableFileSystem for Jffs2Rw {
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        now: Timestamp,
    ) -> Result<Ino, FsError> {
        self.change(|state| state.create(dir, name, inode, seconds(now)).map(Ino::from))
    }

    /// Refused: JFFS2 has no inodes without names.
    fn create_unnamed(&self, _: Ino, _: &NewInode<'_>, _: Timestamp) -> Result<Ino, FsError> {
        Err(FsError::new(FsErrorKind::Unsupported, "JFFS2 has no files without names"))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], now: Timestamp) -> Result<(), FsError> {
        self.change(|state| state.link(ino, dir, name, seconds(now)))
    }

    fn unlink(&self, dir: Ino, name: &[u8], now: Timestamp) -> Result<(), FsError> {
        self.change(|state| state.remove(dir, name, false, seconds(now)))
    }

    fn remove_dir(&self, dir: Ino, name: &[u8], now: Timestamp) -> Result<(), FsError> {
        self.change(|state| state.remove(dir, name, true, seconds(now)))
    }

    /// Two nodes: a power cut between them leaves both names (spec: jffs2 14).
    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        now: Timestamp,
    ) -> Result<(), FsError> {
        self.change(|state| state.rename(from, to, mode, seconds(now)))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], now: Timestamp) -> Result<(), FsError> {
        match self.write_some(ino, offset, data, now)? {
            done if done < data.len() => Err(no_space("all of it")),
            _ => Ok(()),
        }
    }

    fn write_some(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        now: Timestamp,
    ) -> Result<usize, FsError> {
        self.change(|state| state.write(ino, offset, data, seconds(now)))
    }

    fn set_attr(&self, ino: Ino, changes: &SetAttr, now: Timestamp) -> Result<(), FsError> {
        self.change(|state| state.set_attributes(ino, changes, seconds(now)))
    }

    fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: Timestamp,
    ) -> Result<(), FsError> {
        self.change(|state| {
            let ino = state.existing(ino)?;
            let (prefix, stored, value) = state.stored_xattr(ino, name, value)?;
            state.put_xattr(ino, prefix, stored, &value, mode)?;
            state.stamp(ino, seconds(now))
        })
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8], now: Timestamp) -> Result<(), FsError> {
        self.change(|state| {
            let ino = state.existing(ino)?;
            check_xattr_name(state.attr(ino.into())?.kind, name, true)?;
            let missing = || refuse(FsErrorKind::NoAttribute, ino, "no such attribute");
            let (prefix, stored) = split_name(name).ok_or_else(missing)?;
            state.delete_xattr(ino, prefix, stored)?;
            state.stamp(ino, seconds(now))
        })
    }

    fn open(&self, ino: Ino) -> Result<(), FsError> {
        let mut state = self.start();
        let ino = state.existing(ino)?;
        state.cache_mut(ino).opens += 1;
        Ok(())
    }

    fn release(&self, ino: Ino) -> Result<(), FsError> {
        let mut state = self.start();
        let ino = state.existing(ino)?;
        let cache = state.cache_mut(ino);
        cache.opens = cache
            .opens
            .checked_sub(1)
            .ok_or_else(|| refuse(FsErrorKind::Invalid, ino, "released more often than opened"))?;
        if !cache.is_wanted() {
            state.delete(ino);
        }
        Ok(())
    }

    fn sync_file(&self, ino: Ino) -> Result<(), FsError> {
        let mut state = self.start();
        state.existing(ino)?;
        state.sync()
    }

    fn sync(&self) -> Result<(), FsError> {
        self.lock().sync()
    }

    fn background_step(&self) -> Result<Background, FsError> {
        self.start().background()
    }

    fn remount(&self, read_only: bool) -> Result<(), FsError> {
        let mut state = self.lock();
        if let (Some(closed), false) = (&state.closed, read_only) {
            return Err(FsError::new(FsErrorKind::ReadOnly, closed.to_string()));
        }
        state.sync()?;
        if read_only {
            state.seal()?;
        }
        state.read_only = read_only;
        Ok(())
    }

    fn unmount(&self) -> Result<(), FsError> {
        let mut state = self.lock();
        state.sync()?;
        state.seal()?;
        state.closed.get_or_insert(Closed::Unmounted);
        Ok(())
    }

    fn why_read_only(&self) -> Option<String> {
        match &self.lock().closed {
            Some(Closed::Because(reason)) => Some(reason.clone()),
            Some(Closed::Unmounted) | None => None,
        }
    }
}
