//! Inodes in memory (layer 10; spec: ubifs-runtime 9).
//!
//! # Invariants
//! 1. A dirty inode holds one space reservation, the one in `promise`.
//! 2. Inodes that are dirty, open or have dirty pages stay in memory.

use super::budget::Request;
use super::error::{Fault, Step};
use super::group::INODE_LEN;
use crate::inode::attr_of;
use eraseblock_ubifs_format::constants::inode_flags;
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::{Compression, Inode, Time};
use eraseblock_vfs::{Attr, FileKind, FsErrorKind, Ino};
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
    pub(super) used: bool,
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
        INODE_LEN + if self.nlink == 0 { 0 } else { self.data.len() as u32 }
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

    /// Returns an inode if it is in memory.
    pub(super) fn get_mut(&mut self, ino: u32) -> Option<&mut InodeState> {
        self.of.get_mut(&ino)
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
pub(super) fn ino_number(ino: Ino) -> Step<u32> {
    u32::try_from(ino).map_err(|_| absent(ino))
}

/// Returns the error for an inode that does not exist.
pub(super) fn absent(ino: Ino) -> Fault {
    Fault::fs(FsErrorKind::NotFound, format!("inode {ino}: there is no such inode"))
}
