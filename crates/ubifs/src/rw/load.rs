//! Inodes loaded on demand, and new ones (layer 10; spec: ubifs-runtime 9.12).
//!
//! # Invariants
//! 1. An inode in memory is at least as new as its node on flash.

use super::core::Core;
use super::error::{Fault, Step};
use super::group::INODE_LEN;
use super::inode::{InodeState, absent, ino_number};
use eraseblock_ubifs_format::constants::{ROOT_INO, inode_flags};
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::{Compression, Key};
use eraseblock_vfs::{Attr, Ino, Timestamp};

/// The owner of a new inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Core {
    /// Returns the inode and loads it if necessary.
    pub(super) fn inode(&mut self, ino: u32) -> Step<&mut InodeState> {
        if self.inodes.get(ino).is_none() {
            let branch =
                self.store.nodes.find(Key::inode(ino))?.ok_or_else(|| absent(ino.into()))?;
            let mut buf = Vec::new();
            let node = self.store.nodes.leaf(&branch, &mut buf)?.inode()?;
            self.inodes.insert(InodeState::from_node(&node));
        }
        let inode = self.inodes.get_mut(ino).ok_or_else(|| absent(ino.into()))?;
        inode.used = true;
        Ok(inode)
    }

    /// Returns the attributes of an inode that is in memory and visible to callers.
    pub(super) fn known(&self, ino: u32) -> Option<Attr> {
        let inode = self.inodes.get(ino)?;
        (!inode.has(inode_flags::XATTR)).then(|| inode.attr())
    }

    /// Returns an inode for a caller; callers never see those of xattrs.
    pub(super) fn visible(&mut self, ino: Ino) -> Step<&mut InodeState> {
        let number = ino_number(ino)?;
        let inode = self.inode(number)?;
        if inode.has(inode_flags::XATTR) {
            return Err(absent(ino));
        }
        Ok(inode)
    }

    /// Returns a new inode below `dir`, in memory only (spec: ubifs-runtime 9.12).
    pub(super) fn new_inode(
        &mut self,
        dir: u32,
        mode: u32,
        owner: Owner,
        data: Vec<u8>,
        now: Timestamp,
    ) -> Step<InodeState> {
        use inode_flags::{COMPRESS, DIRSYNC, SYNC};
        let parent_flags = self.inode(dir)?.flags;
        let kind = mode & file_type::MASK;
        let inherited =
            if kind == file_type::DIRECTORY { COMPRESS | SYNC | DIRSYNC } else { COMPRESS | SYNC };
        let ino = self.store.master.next_inum(&mut self.store.nodes.flash)?;
        // A new sequence number distinguishes the incarnations of an inode number.
        let creat_sqnum = self.store.nodes.next_sqnum()?;
        let now = self.time(now);
        let compression =
            self.options.compression.unwrap_or(self.store.nodes.flash.sb.default_compr);
        let is_regular = kind == file_type::REGULAR;
        Ok(InodeState {
            ino,
            creat_sqnum,
            size: if kind == file_type::DIRECTORY { INODE_LEN.into() } else { data.len() as u64 },
            synced_size: 0,
            atime: now,
            ctime: now,
            mtime: now,
            nlink: if kind == file_type::DIRECTORY { 2 } else { 1 },
            uid: owner.uid,
            gid: owner.gid,
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
