//! Decoded inodes, with a small cache.

use crate::fs::leaf_error;
use crate::mount::Ubifs;
use crate::tnc::LeafError;
use eraseblock_ubifs_format::constants::{ROOT_INO, inode_flags};
use eraseblock_ubifs_format::raw::InodeNode;
use eraseblock_ubifs_format::{Inode, Key, Time};
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{Attr, FileKind, FsError, FsErrorKind, Ino, Timestamp};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of inodes kept decoded.
const SLOTS: usize = 1024;

/// An inode as read.
#[derive(Debug)]
pub(crate) struct InodeInfo {
    pub(crate) attr: Attr,
    /// Link target, device number or attribute value.
    pub(crate) data: Vec<u8>,
}

/// Empty, or the latest inode of the slot, with its number.
type CacheSlot = Mutex<Option<(u32, Arc<InodeInfo>)>>;

/// A direct-mapped cache of inodes.
#[derive(Debug)]
pub(crate) struct InodeCache {
    slots: Vec<CacheSlot>,
}

impl InodeCache {
    pub(crate) fn new() -> Self {
        Self { slots: std::iter::repeat_with(Mutex::default).take(SLOTS).collect() }
    }

    fn slot(&self, ino: u32) -> &CacheSlot {
        &self.slots[ino as usize % SLOTS]
    }

    fn get(&self, ino: u32) -> Option<Arc<InodeInfo>> {
        let slot = self.slot(ino).lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().filter(|(known, _)| *known == ino).map(|(_, info)| Arc::clone(info))
    }

    fn put(&self, ino: u32, info: &Arc<InodeInfo>) {
        let mut slot = self.slot(ino).lock().unwrap_or_else(PoisonError::into_inner);
        *slot = Some((ino, Arc::clone(info)));
    }
}

/// Returns the 32-bit number of an inode if it has one.
pub(crate) fn number(ino: Ino) -> Result<u32, FsError> {
    u32::try_from(ino).map_err(|_| absent(ino))
}

fn absent(ino: Ino) -> FsError {
    FsError::new(FsErrorKind::NotFound, format!("inode {ino}: there is no such inode"))
}

/// Returns the error for a part of a past commit of which nothing is known.
pub(crate) fn lost(ino: Ino, what: &str) -> FsError {
    let message = format!("inode {ino}: the index node of {what} is lost");
    FsError::new(FsErrorKind::Corrupted, message)
}

impl Ubifs {
    /// Returns the inode with this number.
    pub(crate) fn inode(&self, ino: Ino) -> Result<Arc<InodeInfo>, FsError> {
        let number = number(ino)?;
        if let Some(info) = self.inodes.get(number) {
            return Ok(info);
        }
        let info = match self.stored_inode(number) {
            // Its entries are keyed to its number, so they can be reached without it.
            Err(_) if number == ROOT_INO => made_up_root(),
            info => info?,
        };
        let info = Arc::new(info);
        self.inodes.put(number, &info);
        Ok(info)
    }

    /// Returns the inode with this number as stored. A root that is not a directory counts as
    /// missing.
    pub(crate) fn stored_inode(&self, number: u32) -> Result<InodeInfo, FsError> {
        let key = Key::inode(number);
        let Some(branch) = self.tnc.find(key) else {
            let is_lost = self.tnc.is_lost(key, key);
            let ino = number.into();
            return Err(if is_lost { lost(ino, "the inode") } else { absent(ino) });
        };
        let mut buf = Vec::new();
        let node = self.tnc.leaf(&branch, &mut buf);
        let info = node.and_then(|node| {
            let inode = node.inode().map_err(LeafError::from)?;
            Ok(self.info_of(&inode))
        });
        let info = info.map_err(|error| leaf_error(&format!("inode {number}"), error))?;
        if number == ROOT_INO && info.attr.kind != FileKind::Directory {
            let message = format!("inode {number}: the root is not a directory");
            return Err(FsError::new(FsErrorKind::Corrupted, message));
        }
        Ok(info)
    }

    fn info_of(&self, inode: &Inode<'_>) -> InodeInfo {
        let mut attr = attr_of(inode);
        attr.size = self.sizes.get(&inode.ino).map_or(attr.size, |size| attr.size.max(*size));
        InodeInfo { attr, data: inode.data.to_vec() }
    }
}

/// Returns the attributes in an inode node.
pub(crate) fn attr_of(inode: &Inode<'_>) -> Attr {
    let time = |time: Time| Timestamp {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds.min(999_999_999),
    };
    let kind = FileKind::from_mode(inode.mode).unwrap_or(FileKind::Regular);
    let is_device = matches!(kind, FileKind::BlockDevice | FileKind::CharDevice);
    let has = |flag| inode.flags & flag != 0;
    Attr {
        ino: inode.ino.into(),
        kind,
        permissions: inode.mode & 0o7777,
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        rdev: if is_device { inode.device().unwrap_or((0, 0)) } else { (0, 0) },
        atime: time(inode.atime),
        mtime: time(inode.mtime),
        ctime: time(inode.ctime),
        flags: InodeFlags {
            compress: has(inode_flags::COMPRESS),
            sync: has(inode_flags::SYNC),
            immutable: has(inode_flags::IMMUTABLE),
            append: has(inode_flags::APPEND),
            dirsync: has(inode_flags::DIRSYNC),
            encrypted: has(inode_flags::ENCRYPTED),
        },
    }
}

/// Returns the assumed attributes of a root directory that cannot be read.
fn made_up_root() -> InodeInfo {
    let attr = Attr {
        ino: ROOT_INO.into(),
        kind: FileKind::Directory,
        permissions: 0o755,
        nlink: 2,
        uid: 0,
        gid: 0,
        size: InodeNode::SIZE as u64,
        rdev: (0, 0),
        atime: Timestamp::default(),
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        flags: InodeFlags::default(),
    };
    InodeInfo { attr, data: Vec::new() }
}
