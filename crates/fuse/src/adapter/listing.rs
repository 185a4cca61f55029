//! Directories.
//!
//! # Invariants
//! 1. Offsets 1 and 2 follow `.` and `..`; the offset of an entry is its cookie plus 2.
//! 2. Attributes in a listing do not change the result of any program: the kernel requests the
//!    missing ones.

use super::Adapter;
use crate::convert::{file_attr, file_type, node_number};
use crate::errno::Fault;
use crate::ids::IdMaps;
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{Attr, DirEntry, FileKind, Ino, Timestamp};
use fuser::{FileAttr, FileType, INodeNo};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};

/// The offset after `.` and `..`.
const DOTS: u64 = 2;

/// Entries fetched at a time: about as many as fit into one page of a reply.
const BATCH: usize = 32;

/// An entry and the offset after it.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) node: INodeNo,
    pub(super) kind: FileType,
    pub(super) name: Vec<u8>,
    pub(super) offset: u64,
    ino: Ino,
}

/// Heuristic: do callers of readdir also stat the entries? The kernel requests attributes at the
/// start of each directory in any case; loading every inode doubles the cost of a names-only
/// listing.
#[derive(Debug)]
pub(super) struct Interest(AtomicU32);

impl Default for Interest {
    fn default() -> Self {
        Self(AtomicU32::new(Self::DIRECTORIES))
    }
}

impl Interest {
    /// Number of directories listed with attributes before one is listed without, to test whether
    /// they are used.
    const DIRECTORIES: u32 = 64;

    /// Records that a file was looked up by name.
    pub(super) fn shown(&self) {
        self.0.store(Self::DIRECTORIES, Ordering::Relaxed);
    }

    /// Returns whether to include attributes; counts a directory if a listing `begins`.
    pub(super) fn in_attributes(&self, begins: bool) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        if begins {
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        }
        left > 0
    }
}

impl Adapter {
    /// Returns the next entries after `offset`; none at the end.
    pub(super) fn entries(&self, dir: INodeNo, offset: u64) -> Result<Vec<Listed>, Fault> {
        let dir = self.ino(dir);
        let mut listed = Vec::with_capacity(BATCH);
        for (at, name, ino) in [(0, &b"."[..], dir), (1, b"..", self.root)] {
            if offset <= at {
                let (name, kind) = (name.to_vec(), FileKind::Directory);
                listed.push(self.listed(DirEntry { name, ino, kind, cookie: 0 }, at + 1));
            }
        }
        self.served.reading().read_dir(dir, offset.saturating_sub(DOTS), &mut |entry| {
            let Some(offset) = entry.cookie.checked_add(DOTS) else {
                return ControlFlow::Break(());
            };
            listed.push(self.listed(entry, offset));
            if listed.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(listed)
    }

    fn listed(&self, entry: DirEntry, offset: u64) -> Listed {
        let node = node_number(entry.ino, self.root);
        let (kind, name, ino) = (file_type(entry.kind), entry.name, entry.ino);
        Listed { node, kind, name, offset, ino }
    }

    /// Returns the attributes of an entry, which counts as a reply that names its inode. Returns
    /// `None` for `.` and `..`, which the kernel knows, and for unreadable inodes: a later request
    /// for one gets the error.
    pub(super) fn known(&self, listed: &Listed) -> Option<FileAttr> {
        if listed.offset <= DOTS {
            return None;
        }
        let attr = self.named(listed.ino).inspect_err(|fault| {
            let _ = self.errno(fault);
        });
        attr.ok()
    }
}

/// Returns a placeholder for attributes that are not sent to the kernel.
pub(super) fn nothing_known(kind: FileType) -> FileAttr {
    let time = Timestamp::default();
    let attr = Attr {
        ino: 0,
        kind: FileKind::Regular,
        permissions: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 0,
        rdev: (0, 0),
        atime: time,
        mtime: time,
        ctime: time,
        flags: InodeFlags::default(),
    };
    FileAttr { kind, ..file_attr(INodeNo(0), &attr, &IdMaps::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_told_as_long_as_they_are_looked_at() {
        let interest = Interest::default();
        let counted = || (0..200).take_while(|_| interest.in_attributes(true)).count();
        assert_eq!(counted(), 64);
        assert!(!interest.in_attributes(false));
        interest.shown();
        assert!((0..200).all(|_| interest.in_attributes(false)));
        assert_eq!(counted(), 64);
    }
}
