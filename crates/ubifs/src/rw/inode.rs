//! Inodes in memory (spec: ubifs-runtime 9).
//!
//! # Invariants
//! 1. A dirty inode holds one space reservation, the one in `promise`.
//! 2. Inodes that are dirty, open or have dirty pages stay in memory.

use super::budget::Request;
use super::core::Core;
use super::error::{Fault, Step};
use super::journal::Group;
use super::wbuf::BASE_HEAD;
use crate::inode::attr_of;
use eraseblock_ubifs_format::constants::{ROOT_INO, inode_flags};
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::{Compression, Inode, Key, Time};
use eraseblock_vfs::{Attr, FileKind, FsErrorKind, Ino, Timestamp};
use std::collections::{BTreeMap, HashMap};

/// Clean inodes kept in memory.
const MOST_CLEAN: usize = 4096;
/// Directories whose parents are kept in memory.
const MOST_PARENTS: usize = 1 << 16;

/// An inode.
#[derive(Clone, Debug)]
pub(super) struct InodeState {
    pub(super) ino: u32,
    pub(super) creat_sqnum: u64,
    pub(super) size: u64,
    /// The size in the journal.
    pub(super) synced_size: u64,
    pub(super) atime: Time,
    pub(super) ctime: Time,
    pub(super) mtime: Time,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u32,
    pub(super) flags: u32,
    pub(super) xattr_cnt: u32,
    pub(super) xattr_size: u32,
    pub(super) xattr_names: u32,
    pub(super) compr_type: Compression,
    pub(super) data: Vec<u8>,
    pub(super) data_len: u32,
    /// The reservation of a dirty inode.
    pub(super) promise: Option<Request>,
    /// Commit at which its last name was removed.
    pub(super) del_cmtno: u64,
    /// Whether it was created without a name and has none yet.
    pub(super) never_named: bool,
    /// Number of times it is open.
    pub(super) opens: u32,
    /// Used since the last sweep.
    used: bool,
}

impl InodeState {
    pub(super) fn from_node(node: &Inode<'_>) -> Self {
        Self {
            ino: node.ino,
            creat_sqnum: node.creat_sqnum,
            size: node.size,
            synced_size: node.size,
            atime: node.atime,
            ctime: node.ctime,
            mtime: node.mtime,
            nlink: node.nlink,
            uid: node.uid,
            gid: node.gid,
            mode: node.mode,
            flags: node.flags,
            xattr_cnt: node.xattr_cnt,
            xattr_size: node.xattr_size,
            xattr_names: node.xattr_names,
            compr_type: node.compr_type,
            data: node.data.to_vec(),
            data_len: node.data_len,
            promise: None,
            del_cmtno: 0,
            never_named: false,
            opens: 0,
            used: true,
        }
    }

    /// Returns the node for flash. A deleted inode omits its inline data (8.3).
    pub(super) fn node(&self) -> Inode<'_> {
        Inode {
            ino: self.ino,
            creat_sqnum: self.creat_sqnum,
            size: self.size,
            atime: self.atime,
            ctime: self.ctime,
            mtime: self.mtime,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            mode: self.mode,
            flags: self.flags,
            xattr_cnt: self.xattr_cnt,
            xattr_size: self.xattr_size,
            xattr_names: self.xattr_names,
            compr_type: self.compr_type,
            data_len: self.data_len,
            data: if self.nlink == 0 { &[] } else { &self.data },
        }
    }

    /// Returns the number of bytes of its node.
    pub(super) fn node_len(&self) -> u32 {
        160 + if self.nlink == 0 { 0 } else { self.data.len() as u32 }
    }

    pub(super) fn kind(&self) -> FileKind {
        FileKind::from_mode(self.mode).unwrap_or(FileKind::Regular)
    }

    pub(super) fn is_dir(&self) -> bool {
        self.mode & file_type::MASK == file_type::DIRECTORY
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether changes are written to flash at once.
    pub(super) fn is_sync(&self) -> bool {
        let dirsync = self.is_dir() && self.has(inode_flags::DIRSYNC);
        dirsync || self.has(inode_flags::SYNC)
    }

    pub(super) fn attr(&self) -> Attr {
        attr_of(&self.node())
    }
}

/// Inodes in memory by number.
#[derive(Debug, Default)]
pub(super) struct InodeTable {
    of: BTreeMap<u32, InodeState>,
    pinned: usize,
    /// Parents of directories, as far as lookups have gone through them. Flash has no such
    /// pointers.
    parents: HashMap<u32, u32>,
}

impl InodeTable {
    /// Returns the approximate memory in bytes, without xattrs and symbolic links.
    pub(super) fn memory(&self) -> usize {
        self.of.len() * (size_of::<InodeState>() + size_of::<u32>())
            + self.parents.capacity() * size_of::<(u32, u32)>()
    }

    pub(super) fn get(&self, ino: u32) -> Option<&InodeState> {
        self.of.get(&ino)
    }

    pub(super) fn insert(&mut self, inode: InodeState) {
        self.of.insert(inode.ino, inode);
    }

    pub(super) fn remove(&mut self, ino: u32) -> Option<InodeState> {
        self.of.remove(&ino)
    }

    /// Returns the parent of a directory, if known.
    pub(super) fn parent(&self, dir: u32) -> Option<u32> {
        self.parents.get(&dir).copied()
    }

    /// Records the parent of a directory.
    pub(super) fn set_parent(&mut self, dir: u32, parent: u32) {
        if self.parents.len() >= MOST_PARENTS {
            self.parents.clear();
        }
        self.parents.insert(dir, parent);
    }

    /// Forgets the parent of a directory.
    pub(super) fn forget_parent(&mut self, dir: u32) {
        self.parents.remove(&dir);
    }

    /// Returns dirty inodes by ascending number.
    pub(super) fn dirty(&self) -> Vec<u32> {
        let dirty = self.of.values().filter(|inode| inode.promise.is_some());
        dirty.map(|inode| inode.ino).collect()
    }

    /// Returns inodes that exist only because they are open.
    pub(super) fn open_orphans(&self) -> Vec<u32> {
        self.of.values().filter(|inode| inode.nlink == 0).map(|inode| inode.ino).collect()
    }

    /// Drops clean inodes that were not used recently.
    pub(super) fn shrink(&mut self) {
        if self.of.len() <= MOST_CLEAN + self.pinned {
            return;
        }
        let mut forget = Vec::new();
        let mut pinned = 0;
        for inode in self.of.values_mut() {
            let is_pinned = inode.promise.is_some() || inode.opens > 0 || inode.nlink == 0;
            pinned += usize::from(is_pinned);
            if !is_pinned && !std::mem::take(&mut inode.used) {
                forget.push(inode.ino);
            }
        }
        self.pinned = pinned;
        for ino in forget {
            self.of.remove(&ino);
        }
    }
}

/// Returns the 32-bit number of an inode if it has one.
pub(super) fn number(ino: Ino) -> Step<u32> {
    u32::try_from(ino).map_err(|_| absent(ino))
}

fn absent(ino: Ino) -> Fault {
    Fault::fs(FsErrorKind::NotFound, format!("inode {ino}: there is no such inode"))
}

impl Core {
    /// Returns the inode and loads it if necessary.
    pub(super) fn inode(&mut self, ino: u32) -> Step<&mut InodeState> {
        if !self.inodes.of.contains_key(&ino) {
            let branch = self.find(Key::inode(ino))?.ok_or_else(|| absent(ino.into()))?;
            let mut buf = Vec::new();
            let node = self.leaf(&branch, &mut buf)?.inode()?;
            self.inodes.insert(InodeState::from_node(&node));
        }
        let inode = self.inodes.of.get_mut(&ino).ok_or_else(|| absent(ino.into()))?;
        inode.used = true;
        Ok(inode)
    }

    /// Returns the attributes of an inode that is in memory and visible to callers.
    pub(super) fn known(&self, ino: u32) -> Option<Attr> {
        let inode = self.inodes.get(ino).filter(|inode| !inode.has(inode_flags::XATTR));
        inode.map(InodeState::attr)
    }

    /// Returns an inode for a caller; callers never see those of xattrs.
    pub(super) fn visible(&mut self, ino: Ino) -> Step<&mut InodeState> {
        let number = number(ino)?;
        let inode = self.inode(number)?;
        if inode.has(inode_flags::XATTR) {
            return Err(absent(ino));
        }
        Ok(inode)
    }

    /// Makes an inode dirty and reserves the space to write it. Has no effect if it is already
    /// dirty.
    pub(super) fn dirty_inode(&mut self, ino: u32) -> Step<()> {
        let inode = self.inode(ino)?;
        if inode.promise.is_some() {
            return Ok(());
        }
        let request = Request::dirty_inode(inode.data.len());
        self.budget(&request)?;
        self.inode(ino)?.promise = Some(request);
        Ok(())
    }

    /// Reserves space for an operation and for inodes it makes dirty. Freeing space may write these
    /// inodes, which uses up their reservation; it is then made again.
    pub(super) fn budget_dirty(&mut self, request: &Request, inos: &[u32]) -> Step<()> {
        loop {
            for ino in inos {
                self.dirty_inode(*ino)?;
            }
            if *request != Request::default() {
                self.budget(request)?;
            }
            let is_dirty = |ino| self.inodes.get(ino).is_some_and(|inode| inode.promise.is_some());
            if inos.iter().all(|ino| is_dirty(*ino)) {
                return Ok(());
            }
            self.cancel(request);
        }
    }

    /// Records that the inode was journalled with its complete state.
    pub(super) fn inode_written(&mut self, ino: u32) {
        if let Some(inode) = self.inodes.of.get_mut(&ino) {
            inode.synced_size = inode.size;
            if let Some(promise) = inode.promise.take() {
                self.release(&promise);
            }
        }
    }

    /// Journals a dirty inode (spec: ubifs-runtime 9.6).
    pub(super) fn write_inode(&mut self, ino: u32, sync: bool) -> Step<()> {
        let Some(inode) = self.inodes.of.get(&ino) else { return Ok(()) };
        if inode.promise.is_none() {
            return Ok(());
        }
        if inode.nlink == 0 {
            self.inode_written(ino);
            return Ok(());
        }
        let inode = inode.clone();
        self.reserve(BASE_HEAD, inode.node_len())?;
        let mut group = Group::default();
        group.inode(self, &inode.node(), true)?;
        let sync = sync || inode.is_sync();
        let result = self.write_group(&group, &[ino], sync);
        let result = result.and_then(|written| self.add_leaf(Key::inode(ino), written[0]));
        self.must(result, "writing an inode")?;
        self.inode_written(ino);
        Ok(())
    }

    /// Journals all dirty inodes.
    pub(super) fn write_inodes(&mut self) -> Step<()> {
        for ino in self.inodes.dirty() {
            self.write_inode(ino, false)?;
        }
        Ok(())
    }

    /// Returns a time rounded to the granularity of the file system.
    pub(super) fn time(&self, time: Timestamp) -> Time {
        let gran = self.flash.sb.time_gran.max(1);
        Time {
            seconds: time.seconds,
            nanoseconds: if gran >= 1_000_000_000 {
                0
            } else {
                time.nanoseconds - time.nanoseconds % gran
            },
        }
    }

    /// Returns a new inode below `dir`, in memory only (spec: ubifs-runtime 9.12).
    pub(super) fn new_inode(
        &mut self,
        dir: u32,
        mode: u32,
        owner: (u32, u32),
        data: Vec<u8>,
        now: Timestamp,
    ) -> Step<InodeState> {
        use inode_flags::{COMPRESS, DIRSYNC, SYNC};
        let parent_flags = self.inode(dir)?.flags;
        let kind = mode & file_type::MASK;
        let inherited =
            if kind == file_type::DIRECTORY { COMPRESS | SYNC | DIRSYNC } else { COMPRESS | SYNC };
        let ino = self.next_inum()?;
        // A new sequence number distinguishes the incarnations of an inode number.
        let creat_sqnum = self.next_sqnum()?;
        let now = self.time(now);
        let compression = self.options.compression.unwrap_or(self.flash.sb.default_compr);
        let is_regular = kind == file_type::REGULAR;
        Ok(InodeState {
            ino,
            creat_sqnum,
            size: if kind == file_type::DIRECTORY { 160 } else { data.len() as u64 },
            synced_size: 0,
            atime: now,
            ctime: now,
            mtime: now,
            nlink: if kind == file_type::DIRECTORY { 2 } else { 1 },
            uid: owner.0,
            gid: owner.1,
            mode,
            flags: parent_flags & inherited,
            xattr_cnt: 0,
            xattr_size: 0,
            xattr_names: 0,
            compr_type: if is_regular { compression } else { Compression::None },
            data_len: data.len() as u32,
            data,
            promise: None,
            del_cmtno: 0,
            never_named: false,
            opens: 0,
            used: true,
        })
    }

    /// Checks that the root directory exists (spec: ubifs-runtime 5.1 step 19).
    pub(super) fn check_root(&mut self) -> Step<()> {
        if self.inode(ROOT_INO)?.is_dir() {
            return Ok(());
        }
        let at = eraseblock_base::Location::Inode(ROOT_INO.into());
        Err(Fault::refused(at, "root-lost", "the root is not a directory"))
    }
}
