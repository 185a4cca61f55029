//! The file-system interface.

use crate::layout::Version;
use crate::medium::RawPage;
use crate::mount::Yaffs;
use crate::objects::Object;
use crate::page::Tagged;
use crate::small;
use crate::tree::Entry;
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{
    Attr, DirEntry, FileKind, FileSystem, FsError, FsErrorKind, Ino, StatFs, Timestamp,
};
use eraseblock_yaffs_format::constants::{HEADER_LEN, MAX_NAME_LEN, object};
use eraseblock_yaffs_format::xattr::Records;
use eraseblock_yaffs_format::{Header, ObjectKind};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Blocks that a writer keeps free for its garbage collection (spec: yaffs2 9).
const RESERVED_BLOCKS: u64 = 5;

fn error(kind: FsErrorKind, ino: Ino, message: &str) -> FsError {
    FsError::new(kind, format!("inode {ino}: {message}"))
}

/// Pages that are read at once: their buffers stay small, so that an allocator keeps few of them.
const RUN: u32 = 16;

/// Chunks of a file on pages that follow each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    chunk: u32,
    page: u32,
    len: u32,
}

impl Run {
    fn goes_on(&self, chunk: u32, page: u32) -> bool {
        (chunk, page) == (self.chunk + self.len, self.page + self.len) && self.len < RUN
    }
}

impl Yaffs {
    /// Returns an object that has a name, or is one of the directories that always exist.
    fn object(&self, ino: Ino) -> Result<(u32, &Object), FsError> {
        let missing = || error(FsErrorKind::NotFound, ino, "does not exist");
        let id = u32::try_from(ino).map_err(|_| missing())?;
        // One without names may still be open.
        let is_known =
            self.tree.links.contains_key(&id) || matches!(id, object::ROOT | object::LOST_FOUND);
        let object = self.objects.all.get(&id).filter(|_| is_known).ok_or_else(missing)?;
        Ok((id, object))
    }

    fn entries_of(&self, dir: Ino) -> Result<&[Entry], FsError> {
        let (id, object) = self.object(dir)?;
        if object.kind != ObjectKind::Directory {
            return Err(error(FsErrorKind::NotADirectory, dir, "not a directory"));
        }
        Ok(self.tree.directories.get(&id).map_or(&[], Vec::as_slice))
    }

    fn regular(&self, ino: Ino) -> Result<(u32, &Object), FsError> {
        let (id, object) = self.object(ino)?;
        match object.kind {
            ObjectKind::File => Ok((id, object)),
            ObjectKind::Directory => Err(error(FsErrorKind::IsADirectory, ino, "is a directory")),
            _ => Err(error(FsErrorKind::Invalid, ino, "not a regular file")),
        }
    }

    /// Returns the content of a chunk of a file, as far as it is valid.
    fn chunk<'p>(
        &self,
        (id, chunk): (u32, u32),
        page: u32,
        raw: RawPage<'p>,
    ) -> Result<(Cow<'p, [u8]>, usize), FsError> {
        let layout = &self.flash.layout;
        let fail = |why: &str| {
            let start = u64::from(chunk - 1) * u64::from(layout.data());
            let at = self.flash.location(page);
            let message = format!("inode {id}: content from byte {start}, at {at}: {why}");
            FsError::new(FsErrorKind::Corrupted, message)
        };
        let valid = match layout.version {
            Version::Yaffs1 => small::bytes_of(raw, id, chunk),
            Version::Yaffs2 => match layout.tags(raw) {
                Tagged::Good(tags) => {
                    ((tags.object, tags.chunk) == (id, chunk)).then_some(tags.bytes)
                }
                // A summary or a checkpoint states what the chunk is.
                Tagged::Damaged | Tagged::Unused => Some(layout.data()),
            },
        };
        let valid = valid.ok_or_else(|| fail("the tags are those of another chunk"))?;
        let data = layout.data_of(raw).ok_or_else(|| fail("ECC cannot correct the page"))?;
        Ok((data, valid.min(layout.data()) as usize))
    }

    /// Reads a run of chunks of a file whose pages follow each other into `buf`, which begins at
    /// `offset` of the file.
    fn run(&self, id: u32, run: &Run, offset: u64, buf: &mut [u8]) -> Result<(), FsError> {
        let pages = self.flash.pages(run.page, run.len);
        let pages = pages.map_err(|error| FsError::from_source(FsErrorKind::Io, error))?;
        let size = u64::from(self.flash.layout.data());
        let end = offset + buf.len() as u64;
        for index in 0..run.len {
            let chunk = run.chunk + index;
            let (data, valid) = self.chunk((id, chunk), run.page + index, pages.get(index))?;
            let start = u64::from(chunk - 1) * size;
            let first = start.max(offset);
            let last = end.min(start + valid as u64);
            if first < last {
                let part = &data[(first - start) as usize..(last - start) as usize];
                buf[(first - offset) as usize..][..part.len()].copy_from_slice(part);
            }
        }
        Ok(())
    }

    /// Returns the whole data of a chunk of a file, and how much of it is valid.
    pub(crate) fn whole_chunk(
        &self,
        id: u32,
        chunk: u32,
        page: u32,
    ) -> Result<(Vec<u8>, u32), FsError> {
        let pages = self.flash.page(page);
        let pages = pages.map_err(|error| FsError::from_source(FsErrorKind::Io, error))?;
        let (data, valid) = self.chunk((id, chunk), page, pages.get(0))?;
        Ok((data[..self.flash.layout.data() as usize].to_vec(), valid as u32))
    }

    /// Returns the bytes of an object's header page after the header: its xattrs.
    pub(crate) fn xattr_area(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        let (_, object) = self.object(ino)?;
        match (&object.header, self.flash.layout.version) {
            (Some((page, _)), Version::Yaffs2) => self.area_of(ino, *page),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the bytes of a page after an object's header.
    pub(crate) fn area_of(&self, ino: Ino, page: u32) -> Result<Vec<u8>, FsError> {
        let pages = self.flash.page(page);
        let pages = pages.map_err(|error| FsError::from_source(FsErrorKind::Io, error))?;
        let data = self.flash.layout.data_of(pages.get(0)).ok_or_else(|| {
            let message = format!("{}: ECC cannot correct the header", self.flash.location(page));
            error(FsErrorKind::Corrupted, ino, &message)
        })?;
        Ok(data[HEADER_LEN..self.flash.layout.data() as usize].to_vec())
    }
}

/// Returns the kind of an object that can be reached by a name.
fn kind(object: &Object) -> FileKind {
    match object.kind {
        ObjectKind::File => FileKind::Regular,
        ObjectKind::Directory => FileKind::Directory,
        ObjectKind::Symlink => FileKind::Symlink,
        ObjectKind::Special | ObjectKind::HardLink => {
            let mode = object.header.as_ref().map_or(0, |(_, header)| header.mode);
            let kind = FileKind::from_mode(mode);
            let is_special = |kind: &FileKind| {
                !matches!(kind, FileKind::Regular | FileKind::Directory | FileKind::Symlink)
            };
            kind.filter(is_special).unwrap_or(FileKind::Fifo)
        }
    }
}

/// Returns major and minor number. Linux stores 8 bits of each, image tools the number of the host;
/// they agree where both can store it (spec: yaffs2 4).
fn device(header: &Header) -> (u32, u32) {
    let rdev = header.rdev;
    ((rdev >> 8) & 0xFFF, (rdev & 0xFF) | ((rdev >> 12) & 0xF_FF00))
}

/// Returns the permissions of a directory without a header.
fn default_permissions(id: u32) -> u32 {
    match id {
        object::ROOT => 0o755,
        object::LOST_FOUND => 0o700,
        _ => 0,
    }
}

impl FileSystem for Yaffs {
    fn root(&self) -> Ino {
        object::ROOT.into()
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let entries = self.entries_of(dir)?;
        if name.len() > MAX_NAME_LEN {
            return Err(error(FsErrorKind::NameTooLong, dir, "name of more than 255 bytes"));
        }
        let found = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name));
        found.map(|index| entries[index].id.into()).map_err(|_| {
            let name = String::from_utf8_lossy(name);
            error(FsErrorKind::NotFound, dir, &format!("no entry `{name}`"))
        })
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        let (id, object) = self.object(ino)?;
        let header = object.header.as_ref().map(|(_, header)| header);
        let kind = kind(object);
        let time = |pick: fn(&Header) -> u64| {
            let seconds = header.map_or(0, pick);
            Timestamp::from_seconds(i64::try_from(seconds).unwrap_or(i64::MAX))
        };
        let is_device = matches!(kind, FileKind::BlockDevice | FileKind::CharDevice);
        let size = match kind {
            FileKind::Regular => object.size,
            FileKind::Symlink => header.map_or(0, |header| header.target.len() as u64),
            _ => 0,
        };
        let links = self.tree.links.get(&id).copied().unwrap_or(1);
        Ok(Attr {
            ino,
            kind,
            permissions: header.map_or(default_permissions(id), |header| header.mode & 0o7777),
            nlink: if kind == FileKind::Directory { links.min(1) } else { links },
            uid: header.map_or(0, |header| header.uid),
            gid: header.map_or(0, |header| header.gid),
            size,
            rdev: header.filter(|_| is_device).map_or((0, 0), device),
            atime: time(|header| header.atime),
            mtime: time(|header| header.mtime),
            ctime: time(|header| header.ctime),
            flags: InodeFlags::default(),
        })
    }

    /// The cookie of an entry is its position in the directory, counted from 1.
    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let entries = self.entries_of(dir)?;
        let skip = usize::try_from(cookie).unwrap_or(usize::MAX);
        for (entry, cookie) in entries.iter().zip(1..).skip(skip) {
            let Some(object) = self.objects.all.get(&entry.id) else { continue };
            let (name, ino) = (entry.name.clone(), entry.id.into());
            if sink(DirEntry { name, ino, kind: kind(object), cookie }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        let (_, object) = self.object(ino)?;
        if object.kind != ObjectKind::Symlink {
            return Err(error(FsErrorKind::Invalid, ino, "not a symbolic link"));
        }
        let header = object.header.as_ref().filter(|(_, header)| !header.target.is_empty());
        let header =
            header.ok_or_else(|| error(FsErrorKind::Corrupted, ino, "link without target"))?;
        Ok(header.1.target.clone())
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let (id, object) = self.regular(ino)?;
        let left = usize::try_from(object.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        let buf = &mut buf[..len];
        buf.fill(0);
        if len == 0 {
            return Ok(0);
        }
        let data = u64::from(self.flash.layout.data());
        let end = offset.saturating_add(len as u64);
        let number = |offset: u64| u32::try_from(offset / data + 1).unwrap_or(u32::MAX);
        let range = (id, number(offset))..=(id, number(end - 1));
        let mut run: Option<Run> = None;
        for ((_, chunk), page) in self.objects.chunks.range(range) {
            match &mut run {
                Some(run) if run.goes_on(*chunk, *page) => run.len += 1,
                _ => {
                    if let Some(run) = run.replace(Run { chunk: *chunk, page: *page, len: 1 }) {
                        self.run(id, &run, offset, buf)?;
                    }
                }
            }
        }
        if let Some(run) = run {
            self.run(id, &run, offset, buf)?;
        }
        Ok(len)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        let (id, object) = self.regular(ino)?;
        let data = u64::from(self.flash.layout.data());
        let Ok(first) = u32::try_from(offset / data + 1) else { return Ok(None) };
        let next = self.objects.chunks.range((id, first)..=(id, u32::MAX)).next();
        let start = next.map(|((_, chunk), _)| (u64::from(*chunk - 1) * data).max(offset));
        Ok(start.filter(|start| *start < object.size))
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let (id, object) = self.regular(ino)?;
        let data = u64::from(self.flash.layout.data());
        let Ok(first) = u32::try_from(offset / data + 1) else { return Ok(object.size) };
        let chunks = self.objects.chunks.range((id, first)..=(id, u32::MAX));
        let run = (first..).zip(chunks).take_while(|(number, ((_, chunk), _))| number == chunk);
        let hole = match run.last() {
            Some((last, _)) => u64::from(last) * data,
            None => offset,
        };
        Ok(hole.min(object.size))
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        let area = self.xattr_area(ino)?;
        let mut names: Vec<Vec<u8>> =
            Records::new(self.flash.layout.order, &area).map(|record| record.0.to_vec()).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let area = self.xattr_area(ino)?;
        let mut records = Records::new(self.flash.layout.order, &area);
        records.find(|record| record.0 == name).map(|record| record.1.to_vec()).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            error(FsErrorKind::NoAttribute, ino, &format!("no extended attribute `{name}`"))
        })
    }

    /// Obsolete chunks count as free: garbage collection makes them so.
    fn stat_fs(&self) -> Result<StatFs, FsError> {
        let per_block = u64::from(self.flash.layout.pages_per_block);
        let blocks = u64::from(self.flash.blocks.saturating_sub(self.info.bad_blocks));
        let total = blocks * per_block;
        let reserved = RESERVED_BLOCKS * per_block;
        let free = total.saturating_sub(self.info.live_chunks).saturating_sub(reserved);
        Ok(StatFs {
            block_size: self.flash.layout.data(),
            blocks: total,
            blocks_free: free,
            blocks_available: free,
            name_max: MAX_NAME_LEN as u32,
        })
    }
}
