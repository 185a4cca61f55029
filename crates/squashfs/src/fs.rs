//! An opened image.

use crate::cache::Cache;
use crate::dir;
use crate::error::{SquashfsError, damaged};
use crate::inode::{self, Body, Directory, File, Inode};
use crate::limits;
use crate::meta::{Metadata, Position};
use crate::superblock::{NONE, Superblock};
use crate::tables::Table;
use crate::unpack;
use crate::xattr::{self, Wanted};
use eraseblock_mtd::ReadAt;
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{
    Attr, DirEntry, FileKind, FileSystem, FsError, FsErrorKind, Ino, StatFs, Timestamp,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// Data blocks that are kept, 1 MiB each at most.
const KEPT: usize = 8;
/// Files whose reads continue where the last one ended.
const FILES: usize = 16;
/// The bit of a size that marks a block as stored.
const STORED: u32 = 1 << 24;

/// An image, opened.
#[derive(Debug)]
pub struct Squashfs {
    metadata: Metadata,
    data: Cache<Vec<u8>>,
    files: Mutex<Vec<Run>>,
    /// Where each directory was met: its directory, and the number of the entry there.
    reached: Mutex<HashMap<Ino, (Ino, u64)>>,
}

/// A place in the list of blocks of a file.
#[derive(Clone, Copy, Debug)]
struct Run {
    ino: Ino,
    /// Number of the block.
    index: u64,
    /// Where it is in the image.
    at: u64,
    /// Where its size is.
    list: Position,
}

impl Squashfs {
    /// Opens the image that begins at the start of `image`.
    ///
    /// # Errors
    ///
    /// Fails if there is no superblock of SquashFS 4.0, or if the image ends before the file system.
    pub fn open(image: Arc<dyn ReadAt>) -> Result<Self, SquashfsError> {
        let superblock = Superblock::read(image.as_ref(), 0)?;
        Ok(Self {
            metadata: Metadata::new(image, superblock),
            data: Cache::new(KEPT),
            files: Mutex::new(Vec::new()),
            reached: Mutex::new(HashMap::new()),
        })
    }

    /// Returns the superblock.
    pub fn superblock(&self) -> &Superblock {
        self.metadata.superblock()
    }

    /// Returns how blocks are compressed, which the superblocks of vendors may not say.
    pub fn compression(&self) -> String {
        self.metadata.coding().name()
    }

    fn inode(&self, ino: Ino) -> Result<Inode, FsError> {
        inode::read(&self.metadata, ino)
    }

    fn directory(&self, ino: Ino) -> Result<Directory, FsError> {
        match self.inode(ino)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => {
                Err(FsError::new(FsErrorKind::NotADirectory, format!("inode {ino}: no directory")))
            }
        }
    }

    fn file(&self, ino: Ino) -> Result<File, FsError> {
        match self.inode(ino)?.body {
            Body::File(file) => Ok(file),
            Body::Directory(_) => {
                Err(FsError::new(FsErrorKind::IsADirectory, format!("inode {ino}: a directory")))
            }
            _ => Err(FsError::new(FsErrorKind::Invalid, format!("inode {ino}: no regular file"))),
        }
    }

    /// Calls `sink` with the entries of a directory that can be in a tree.
    fn list(
        &self,
        dir: Ino,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let directory = self.directory(dir)?;
        dir::list(&self.metadata, &directory, &mut |entry| {
            if entry.kind == FileKind::Directory {
                self.reach(dir, &entry)?;
            }
            Ok(sink(entry))
        })
    }

    /// Notes how a directory is reached. Fails if it was reached in another way.
    fn reach(&self, dir: Ino, entry: &DirEntry) -> Result<(), FsError> {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let way = (dir, entry.cookie);
        let is_root = entry.ino == self.root();
        let known = reached.get(&entry.ino).copied();
        if known.is_none() && reached.len() >= limits::DIRECTORIES {
            let most = limits::DIRECTORIES;
            let message = format!("more than {most} directories");
            return Err(FsError::new(FsErrorKind::Unsupported, message));
        }
        if is_root || known.is_some_and(|known| known != way) {
            let name = String::from_utf8_lossy(&entry.name).escape_debug().to_string();
            let what = format!("`{name}` is a directory that has another name already");
            return Err(damaged(self.superblock().directory_table, what));
        }
        reached.insert(entry.ino, way);
        Ok(())
    }

    fn id(&self, index: u16) -> Result<u32, FsError> {
        let superblock = self.superblock();
        let count = superblock.ids.into();
        let table = Table { array: superblock.id_table, count, what: "id" };
        let entry: [u8; 4] = table.entry(&self.metadata, index.into())?;
        Ok(superblock.order.u32_at(&entry, 0))
    }

    /// Returns the decompressed block at a place, whose size is as stored. A hole has none.
    fn block(&self, at: u64, size: u32, most: usize) -> Result<Arc<Vec<u8>>, FsError> {
        self.data.get(at, || {
            let mut block = unpack::buffer(most);
            let len = self.unpack(at, size, &mut block)?;
            block.truncate(len);
            Ok(block)
        })
    }

    /// Reads a block into the front of `out`; returns its length.
    fn unpack(&self, at: u64, size: u32, out: &mut [u8]) -> Result<usize, FsError> {
        thread_local! {
            static STORED_BYTES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let len = (size & (STORED - 1)) as usize;
        let is_stored = size & STORED != 0;
        let most = if is_stored { out.len() } else { self.superblock().block_size as usize };
        if len == 0 || len > most {
            return Err(damaged(
                at,
                format_args!("data block of {len} bytes, expected 1 to {most}"),
            ));
        }
        if is_stored {
            self.metadata.raw(at, &mut out[..len])?;
            return Ok(len);
        }
        STORED_BYTES.with_borrow_mut(|bytes| {
            // As large as any block, so that it does not move.
            bytes.reserve_exact(most.saturating_sub(bytes.len()));
            bytes.resize(len, 0);
            self.metadata.raw(at, bytes)?;
            let unpacked = self.metadata.coding().unpack_into(bytes, out);
            unpacked.map_err(|error| damaged(at, format_args!("data block: {error}")))
        })
    }

    /// Returns the fragment block of an index.
    fn fragment(&self, index: u32) -> Result<(u64, Arc<Vec<u8>>), FsError> {
        let superblock = self.superblock();
        if superblock.fragment_table == NONE {
            return Err(damaged(0, format_args!("fragment {index}, and there are none")));
        }
        let (array, count) = (superblock.fragment_table, superblock.fragments);
        let table = Table { array, count, what: "fragment" };
        let entry: [u8; 16] = table.entry(&self.metadata, index)?;
        let (at, size) = (superblock.order.u64_at(&entry, 0), superblock.order.u32_at(&entry, 8));
        Ok((at, self.block(at, size, superblock.block_size as usize)?))
    }

    /// Returns how many blocks a file has besides its end in a fragment.
    fn blocks(&self, file: &File) -> u64 {
        let block_size = u64::from(self.superblock().block_size);
        if file.fragment == inode::NONE {
            file.size.div_ceil(block_size)
        } else {
            file.size / block_size
        }
    }

    /// Finds a block of a file, from where the last read ended if that was before it.
    fn seek(&self, ino: Ino, file: &File, index: u64) -> Result<Run, FsError> {
        let start = Run { ino, index: 0, at: file.start, list: file.list };
        let mut run = {
            let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = |run: &&Run| run.ino == ino && run.index <= index;
            files.iter().rev().find(fits).copied().unwrap_or(start)
        };
        while run.index < index {
            self.step(&mut run)?;
        }
        Ok(run)
    }

    /// Moves on by one block, and returns the size of the one before as stored.
    fn step(&self, run: &mut Run) -> Result<u32, FsError> {
        let mut cursor = self.metadata.cursor_at(run.list);
        let size = cursor.u32()?;
        let at = run.at.saturating_add((size & (STORED - 1)).into());
        *run = Run { ino: run.ino, index: run.index + 1, at, list: cursor.position() };
        Ok(size)
    }

    fn keep(&self, run: Run) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|other| other.ino != run.ino);
        if files.len() == FILES {
            files.remove(0);
        }
        files.push(run);
    }

    /// Fills `buf` with the content at `offset`, all of which is in the file.
    fn fill(&self, ino: Ino, file: &File, offset: u64, buf: &mut [u8]) -> Result<(), FsError> {
        let block_size = u64::from(self.superblock().block_size);
        let blocks = self.blocks(file);
        let (mut offset, mut rest) = (offset, buf);
        let mut run = self.seek(ino, file, (offset / block_size).min(blocks))?;
        while !rest.is_empty() {
            let (index, inside) = (offset / block_size, offset % block_size);
            let in_block = (file.size - index * block_size).min(block_size);
            let len = rest.len().min(usize::try_from(in_block - inside).unwrap_or(usize::MAX));
            let (part, after) = rest.split_at_mut(len);
            if index < blocks {
                let here = run;
                let size = self.step(&mut run)?;
                if size & (STORED - 1) == 0 {
                    part.fill(0);
                } else {
                    let most = usize::try_from(in_block).unwrap_or(usize::MAX);
                    if len == most {
                        // Who reads whole blocks does not come back for them.
                        expect(self.unpack(here.at, size, part)?, most, here.at)?;
                    } else {
                        let block = self.block(here.at, size, most)?;
                        expect(block.len(), most, here.at)?;
                        copy_from(&block, inside, Some(most), part, here.at)?;
                    }
                }
                // The next read may begin in this block.
                run = if inside + (len as u64) < in_block { here } else { run };
            } else {
                let (at, block) = self.fragment(file.fragment)?;
                let most = usize::try_from(u64::from(file.inside) + in_block);
                copy_from(&block, u64::from(file.inside) + inside, most.ok(), part, at)?;
            }
            offset += len as u64;
            rest = after;
        }
        self.keep(run);
        Ok(())
    }

    /// Finds the first block from that of `offset` on that is a hole or not.
    fn scan(&self, ino: Ino, offset: u64, wants_hole: Sought) -> Result<Option<u64>, FsError> {
        let file = self.file(ino)?;
        if offset >= file.size {
            return Ok(None);
        }
        let block_size = u64::from(self.superblock().block_size);
        let blocks = self.blocks(&file);
        let mut run = self.seek(ino, &file, (offset / block_size).min(blocks))?;
        while run.index < blocks {
            let start = run.index * block_size;
            let is_hole = self.step(&mut run)? & (STORED - 1) == 0;
            if is_hole == (wants_hole == Sought::Hole) {
                return Ok(Some(start.max(offset)));
            }
        }
        let end = blocks * block_size;
        let has_end = wants_hole == Sought::Data && end < file.size;
        Ok(has_end.then(|| end.max(offset)))
    }
}

/// What a seek looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sought {
    Data,
    Hole,
}

/// Fails unless a block has as many bytes as its file says.
fn expect(found: usize, len: usize, at: u64) -> Result<(), FsError> {
    if found != len {
        return Err(damaged(at, format_args!("data block of {found} bytes, expected {len}")));
    }
    Ok(())
}

/// Copies out of a block that must have at least `len` bytes.
fn copy_from(
    block: &[u8],
    inside: u64,
    len: Option<usize>,
    out: &mut [u8],
    at: u64,
) -> Result<(), FsError> {
    let inside = usize::try_from(inside).unwrap_or(usize::MAX);
    let part = block.get(inside..).and_then(|rest| rest.get(..out.len()));
    let Some(part) = part.filter(|_| len.is_some_and(|len| len <= block.len())) else {
        let found = block.len();
        return Err(damaged(
            at,
            format_args!("block of {found} bytes ends before the end of a file"),
        ));
    };
    out.copy_from_slice(part);
    Ok(())
}

impl FileSystem for Squashfs {
    fn root(&self) -> Ino {
        inode::ino(self.superblock().root)
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let mut found = None;
        self.list(dir, &mut |entry| {
            if entry.name == name {
                found = Some((entry.ino, entry.kind));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        let missing = || {
            let name = String::from_utf8_lossy(name).escape_debug().to_string();
            FsError::new(FsErrorKind::NotFound, format!("no entry `{name}`"))
        };
        let (ino, kind) = found.ok_or_else(missing)?;
        // Otherwise a directory could be entered under the name of a file.
        if self.inode(ino)?.body.kind() != kind {
            let name = String::from_utf8_lossy(name).escape_debug().to_string();
            let what = format!("`{name}` and its inode disagree about what it is");
            return Err(damaged(self.superblock().directory_table, what));
        }
        Ok(ino)
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        let inode = self.inode(ino)?;
        let mtime = Timestamp::from_seconds(inode.mtime.into());
        let (size, rdev) = match &inode.body {
            Body::Directory(directory) => (directory.size.into(), (0, 0)),
            Body::File(file) => (file.size, (0, 0)),
            Body::Symlink { len, .. } => ((*len).into(), (0, 0)),
            Body::Device { number, .. } => (0, inode::device(*number)),
            Body::Fifo | Body::Socket => (0, (0, 0)),
        };
        Ok(Attr {
            ino,
            kind: inode.body.kind(),
            permissions: inode.permissions.into(),
            nlink: inode.nlink,
            uid: self.id(inode.uid)?,
            gid: self.id(inode.gid)?,
            size,
            rdev,
            atime: mtime,
            mtime,
            ctime: mtime,
            flags: InodeFlags::default(),
        })
    }

    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        self.list(dir, &mut |entry| {
            if entry.cookie > cookie { sink(entry) } else { ControlFlow::Continue(()) }
        })
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        match self.inode(ino)?.body {
            Body::Symlink { len, at } => self.metadata.cursor_at(at).bytes(len as usize),
            _ => Err(FsError::new(FsErrorKind::Invalid, format!("inode {ino}: no symbolic link"))),
        }
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let file = self.file(ino)?;
        let rest = usize::try_from(file.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = rest.min(buf.len());
        self.fill(ino, &file, offset, &mut buf[..len])?;
        Ok(len)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        self.scan(ino, offset, Sought::Data)
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let end = self.file(ino)?.size;
        Ok(self.scan(ino, offset, Sought::Hole)?.unwrap_or(end))
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        let index = self.inode(ino)?.xattrs;
        let found = xattr::read(&self.metadata, index, Wanted::Names)?;
        Ok(found.into_iter().map(|xattr| xattr.name).collect())
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let index = self.inode(ino)?.xattrs;
        let found = xattr::read(&self.metadata, index, Wanted::Value(name))?;
        let missing = || FsError::new(FsErrorKind::NoAttribute, "no such xattr");
        found.into_iter().next().map(|xattr| xattr.value).ok_or_else(missing)
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        let superblock = self.superblock();
        let blocks = superblock.bytes_used.div_ceil(superblock.block_size.into());
        Ok(StatFs { block_size: superblock.block_size, blocks, name_max: 256, ..StatFs::default() })
    }
}
