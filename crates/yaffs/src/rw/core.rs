//! The state of a mounted file system: objects, names and blocks, changed together.
//!
//! # Invariants
//! 1. Every page that memory refers to is counted as needed in its block.
//! 2. A chunk is appended before the one it replaces stops to count.
//! 3. Space for all pages of an operation is there before its first one is appended.

use super::log::Log;
use crate::layout::TagsPlace;
use crate::mount::Yaffs;
use crate::objects::Object;
use crate::page::Tagged;
use crate::scan::Torn;
use crate::tree::Entry;
use eraseblock_mtd::MtdError;
use eraseblock_mtd::ReadError;
use eraseblock_vfs::{DirEntry, FileSystem, FsError, FsErrorKind, Ino, StatFs};
use eraseblock_yaffs_format::constants::{HEADER_LEN, MAX_CHUNK, object};
use eraseblock_yaffs_format::{Extra, Header, ObjectKind, Tags};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Blocks that only deletions and garbage collection may fill.
const RESERVE: u32 = 5;
/// Blocks that only garbage collection may fill: it needs one, and each mount that is cut and each
/// program that fails leaves one that cannot be continued.
const FOR_COLLECTION: u32 = 4;

/// What space is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// New content.
    Growth,
    /// A deletion, which must be possible on a full medium.
    Deletion,
}

/// What a header says in addition to the object's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags {
    /// Older data beyond the size is void.
    pub(crate) is_shrink: bool,
    /// The object that is replaced, or 0.
    pub(crate) shadows: u32,
}

/// The state.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) fs: Yaffs,
    pub(crate) log: Log,
    /// How often inodes are open.
    pub(crate) open: BTreeMap<u32, u32>,
    /// Blocks of a checkpoint, valid or not, in the order of their pages.
    pub(crate) checkpoint: Vec<u32>,
    /// Whether that checkpoint describes the current state.
    pub(crate) is_described: bool,
    /// The least number of blocks of a flash that gets checkpoints.
    pub(crate) checkpoint_from: Option<u32>,
    /// Pages that a power cut tore, until something newer voids them.
    pub(crate) torn: Vec<Torn>,
    pub(crate) read_only: bool,
    /// Whether what a power cut left half done was finished.
    pub(crate) is_repaired: bool,
    /// Why no change is possible any more.
    pub(crate) failed: Option<String>,
}

/// Returns the error of a failed device. Space that is missing in the middle of an operation is one,
/// too: so many programs failed that the reserve is used up.
pub(crate) fn medium(error: MtdError) -> FsError {
    FsError::from_source(FsErrorKind::Io, error)
}

/// Returns the error of a flash that cannot be read.
pub(crate) fn medium_read(error: ReadError) -> FsError {
    FsError::from_source(FsErrorKind::Io, error)
}

fn full() -> FsError {
    FsError::new(FsErrorKind::NoSpace, "no space left on the flash")
}

impl Core {
    /// Looks at the result of a change: after an error of the device, memory and flash may differ, so
    /// that nothing is written any more.
    pub(crate) fn judge<T>(&mut self, done: Result<T, FsError>) -> Result<T, FsError> {
        if let Err(error) = &done
            && error.kind() == FsErrorKind::Io
        {
            self.failed = Some(error.to_string());
        }
        done
    }

    pub(crate) fn data_len(&self) -> u64 {
        self.fs.flash.layout.data().into()
    }

    pub(crate) fn object(&self, id: u32) -> Result<&Object, FsError> {
        let missing = || FsError::new(FsErrorKind::NotFound, format!("inode {id}: does not exist"));
        self.fs.objects.all.get(&id).ok_or_else(missing)
    }

    /// Makes sure that an operation can append `pages` pages. A stale checkpoint would be believed,
    /// so it goes before the first change (spec: yaffs2 7).
    pub(crate) fn begin(&mut self, pages: u32, purpose: Purpose) -> Result<(), FsError> {
        if self.read_only || self.failed.is_some() {
            return Err(eraseblock_vfs::rules::read_only());
        }
        let kept = if purpose == Purpose::Growth { RESERVE } else { FOR_COLLECTION };
        let per_block = self.log.capacity();
        let (all, taken) = self.log.usage();
        if u64::from(taken) + u64::from(pages) + u64::from(kept * per_block) > u64::from(all) {
            return Err(full());
        }
        self.erase_checkpoint()?;
        while self.log.free_pages() < pages.saturating_add(FOR_COLLECTION * per_block) {
            let victim = self.log.victim().ok_or_else(full)?;
            self.collect(victim)?;
        }
        Ok(())
    }

    /// Moves everything needed out of a block and erases it.
    fn collect(&mut self, block: u32) -> Result<(), FsError> {
        let first = block * self.fs.flash.layout.pages_per_block;
        let range = first..first + self.fs.flash.layout.pages_per_block;
        let needed: Vec<(u32, u32)> =
            self.log.pages.range(range).map(|(_, owner)| *owner).collect();
        for (id, chunk) in needed {
            let moved = if chunk == 0 {
                self.change_header(id, Flags::default(), None, &|_| {})
            } else {
                self.move_chunk(id, chunk)
            };
            if moved.as_ref().is_err_and(|error| error.kind() == FsErrorKind::Corrupted) {
                // A copy would get an ECC that fits the damage.
                self.log.blocks[block as usize].is_pinned = true;
                return Ok(());
            }
            moved?;
        }
        self.carry_deletions(block)?;
        self.log.erase(block).map_err(medium)?;
        Ok(())
    }

    /// Copies the deletions in a block about to be erased that holds older pages of their objects, too.
    /// Tags in the data have no ECC of their own: after a cut of the erase, any page may decay first,
    /// and without its deletion an object would be back.
    fn carry_deletions(&mut self, block: u32) -> Result<(), FsError> {
        let is_in_band = self.log.layout.place == TagsPlace::InBand;
        if !is_in_band || !self.log.blocks[block as usize].has_shrink {
            return Ok(());
        }
        let layout = self.log.layout.clone();
        let count = layout.pages_per_block;
        let pages = self.fs.flash.pages(block * count, count).map_err(medium_read)?;
        let (mut older, mut deletions) = (BTreeSet::new(), BTreeMap::new());
        for index in 0..count {
            let Tagged::Good(tags) = layout.tags(pages.get(index)) else { continue };
            let is_deletion = tags.extra.is_some_and(|extra| extra.parent == object::DELETED);
            if !older.insert(tags.object) && is_deletion {
                deletions.insert(tags.object, (tags, index));
            }
        }
        for (id, (tags, index)) in deletions {
            let data = layout.data_of(pages.get(index));
            if let Some(data) = data.filter(|_| !self.fs.objects.all.contains_key(&id)) {
                self.append_copy(&tags, &data[..layout.data() as usize])?;
            }
        }
        Ok(())
    }

    /// Moves a chunk of a file, as far as it is within its size: a newer chunk would make the file
    /// larger.
    fn move_chunk(&mut self, id: u32, chunk: u32) -> Result<(), FsError> {
        let (data, valid) = self.content(id, chunk)?;
        self.put_data(id, chunk, &data, valid)
    }

    /// Returns a chunk of a file with zeros after its valid bytes, and their number.
    pub(crate) fn content(&self, id: u32, chunk: u32) -> Result<(Vec<u8>, u32), FsError> {
        let len = self.data_len();
        let mut content = vec![0; len as usize];
        let Some(page) = self.fs.objects.chunks.get(&(id, chunk)) else { return Ok((content, 0)) };
        let (data, valid) = self.fs.whole_chunk(id, chunk, *page)?;
        let rest = self.object(id)?.size.saturating_sub(u64::from(chunk - 1) * len);
        let valid = u64::from(valid).min(rest) as usize;
        content[..valid].copy_from_slice(&data[..valid]);
        Ok((content, valid as u32))
    }

    /// Appends a data chunk in the place of an older one.
    pub(crate) fn put_data(
        &mut self,
        id: u32,
        chunk: u32,
        data: &[u8],
        bytes: u32,
    ) -> Result<(), FsError> {
        let tags = Tags { sequence: 0, object: id, chunk, bytes, extra: None };
        let page = self.log.append(tags.pack(), data).map_err(medium)?;
        if let Some(old) = self.fs.objects.chunks.insert((id, chunk), page) {
            self.log.free(old);
        }
        self.log.take(page, (id, chunk));
        Ok(())
    }

    /// Appends a copy of a page.
    pub(crate) fn append_copy(&mut self, tags: &Tags, data: &[u8]) -> Result<u32, FsError> {
        let page = self.log.append(tags.pack(), data).map_err(medium)?;
        if tags.chunk == 0 && tags.extra.is_none_or(|extra| extra.is_shrink) {
            self.mark_shrink(page);
        }
        Ok(page)
    }

    /// Records that the block of a page voids older data.
    fn mark_shrink(&mut self, page: u32) {
        let block = page / self.fs.flash.layout.pages_per_block;
        self.log.blocks[block as usize].has_shrink = true;
    }

    /// Drops a data chunk from memory; a header with a size voids it on flash.
    pub(crate) fn drop_data(&mut self, id: u32, from: u32) {
        let range = (id, from)..=(id, MAX_CHUNK);
        let gone: Vec<(u32, u32)> =
            self.fs.objects.chunks.range(range).map(|((_, chunk), page)| (*chunk, *page)).collect();
        for (chunk, page) in gone {
            self.fs.objects.chunks.remove(&(id, chunk));
            self.log.free(page);
        }
    }

    /// Changes the header of an object and appends it, with its xattrs or new ones. Parent and size
    /// are those in memory.
    pub(crate) fn change_header(
        &mut self,
        id: u32,
        flags: Flags,
        area: Option<Vec<u8>>,
        change: &dyn Fn(&mut Header),
    ) -> Result<(), FsError> {
        let object = self.object(id)?;
        let old = object.header.as_ref().map(|(page, _)| *page);
        let mut header = match &object.header {
            Some((_, header)) => header.clone(),
            None => nameless(id, object),
        };
        change(&mut header);
        header.parent = if id == object::ROOT { 0 } else { object.parent };
        header.size = if object.kind == ObjectKind::File { object.size } else { 0 };
        (header.is_shrink, header.shadows) = (flags.is_shrink, flags.shadows);
        let area = match (area, old) {
            (Some(area), _) => area,
            (None, Some(page)) => self.fs.area_of(id.into(), page)?,
            (None, None) => Vec::new(),
        };
        let page = self.append_header(id, &header, &area)?;
        if let Some(old) = old {
            self.log.free(old);
        }
        self.log.take(page, (id, 0));
        (header.is_shrink, header.shadows) = (false, 0);
        if let Some(object) = self.fs.objects.all.get_mut(&id) {
            object.header = Some((page, header));
        }
        Ok(())
    }

    /// Appends the header that ends an object: from now on everything older of it is void. Then
    /// forgets the object.
    pub(crate) fn put_deletion(&mut self, id: u32) -> Result<(), FsError> {
        let object = self.object(id)?;
        let old = object.header.as_ref().map(|(page, _)| *page);
        let header = match &object.header {
            Some((_, header)) => header.clone(),
            None => nameless(id, object),
        };
        self.append_deletion(id, header)?;
        if let Some(old) = old {
            self.log.free(old);
        }
        self.drop_data(id, 1);
        self.fs.objects.all.remove(&id);
        self.fs.tree.links.remove(&id);
        self.fs.tree.directories.remove(&id);
        Ok(())
    }

    /// Appends the deletion of an object that had this header.
    pub(crate) fn append_deletion(&mut self, id: u32, header: Header) -> Result<(), FsError> {
        let (parent, name) = (object::DELETED, b"deleted".to_vec());
        let deletion = Header { parent, name, size: 0, is_shrink: true, shadows: 0, ..header };
        self.append_header(id, &deletion, &[]).map(drop)
    }

    fn append_header(&mut self, id: u32, header: &Header, area: &[u8]) -> Result<u32, FsError> {
        let value = match header.kind {
            ObjectKind::File => header.size,
            ObjectKind::HardLink => header.equivalent.into(),
            _ => 0,
        };
        // A large file states its size only in the header itself.
        let extra = u32::try_from(value).ok().filter(|value| *value < 1 << 31).map(|value| Extra {
            kind: header.kind,
            parent: header.parent,
            is_shrink: header.is_shrink,
            shadows: header.shadows > 0,
            value,
        });
        let tags = Tags { sequence: 0, object: id, chunk: 0, bytes: 0, extra };
        let mut data = header.encode(self.fs.flash.layout.order).to_vec();
        data.extend_from_slice(area);
        data.resize(self.data_len() as usize, 0xFF);
        let page = self.log.append(tags.pack(), &data).map_err(medium)?;
        if header.is_shrink {
            self.mark_shrink(page);
        }
        Ok(page)
    }

    /// Returns the entries of a directory after a cookie, in the order of their cookies.
    pub(crate) fn numbered(&self, dir: Ino, cookie: u64) -> Result<Vec<DirEntry>, FsError> {
        let mut entries: Vec<DirEntry> = Vec::new();
        let numbers = self.fs.tree.directories.get(&(dir as u32)).map_or(&[][..], Vec::as_slice);
        let mut index = 0;
        self.fs.read_dir(dir, 0, &mut |mut entry| {
            entry.cookie = numbers.get(index).map_or(0, |it| it.own.into());
            index += 1;
            if entry.cookie > cookie {
                entries.push(entry);
            }
            ControlFlow::Continue(())
        })?;
        entries.sort_unstable_by_key(|entry| entry.cookie);
        Ok(entries)
    }

    pub(crate) fn stat_fs(&self) -> Result<StatFs, FsError> {
        let (all, taken) = self.log.usage();
        let reserved = RESERVE * self.log.capacity();
        let free = u64::from(all.saturating_sub(taken).saturating_sub(reserved));
        let blocks = u64::from(all);
        let own = self.fs.stat_fs()?;
        Ok(StatFs { blocks, blocks_free: free, blocks_available: free, ..own })
    }

    /// Adds a name to a directory in memory.
    pub(crate) fn add_name(&mut self, dir: u32, name: &[u8], entry: u32, id: u32) {
        let entries = self.fs.tree.directories.entry(dir).or_default();
        if let Err(index) = entries.binary_search_by(|it| it.name.as_slice().cmp(name)) {
            entries.insert(index, Entry { name: name.to_vec(), id, own: entry });
        }
    }

    /// Removes a name from a directory in memory.
    pub(crate) fn remove_name(&mut self, dir: u32, name: &[u8]) {
        if let Some(entries) = self.fs.tree.directories.get_mut(&dir)
            && let Ok(index) = entries.binary_search_by(|it| it.name.as_slice().cmp(name))
        {
            entries.remove(index);
        }
    }

    /// Returns the entry of a name.
    pub(crate) fn entry(&self, dir: u32, name: &[u8]) -> Option<&Entry> {
        let entries = self.fs.tree.directories.get(&dir)?;
        let index = entries.binary_search_by(|it| it.name.as_slice().cmp(name)).ok()?;
        entries.get(index)
    }
}

/// The header of an object that has none.
pub(crate) fn nameless(id: u32, object: &Object) -> Header {
    Header {
        kind: object.kind,
        parent: object.parent,
        name: Vec::new(),
        mode: match (id, object.kind) {
            (object::ROOT, _) => 0o040_755,
            (object::LOST_FOUND, _) => 0o040_700,
            (_, ObjectKind::Directory) => 0o040_000,
            (_, ObjectKind::Symlink) => 0o120_000,
            (_, ObjectKind::Special) => 0o010_000,
            _ => 0o100_000,
        },
        uid: 0,
        gid: 0,
        atime: 0,
        mtime: 0,
        ctime: 0,
        size: object.size,
        equivalent: object.equivalent,
        target: Vec::new(),
        rdev: 0,
        shadows: 0,
        is_shrink: false,
    }
}

/// Returns whether the area of xattrs of a chunk holds `len` bytes.
pub(crate) fn area_len(data: u64) -> usize {
    data as usize - HEADER_LEN
}
