//! Directories.
//!
//! # Invariants
//! 1. Offsets 1 and 2 stand behind `.` and `..`; an entry's is its cookie and 2.

use super::Adapter;
use crate::convert::{file_attr, file_type, node_number};
use crate::errno::Fault;
use crate::ids::IdMaps;
use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{Attr, DirEntry, FileKind, Ino, Timestamp};
use fuser::{FileAttr, FileType, INodeNo};
use std::ops::ControlFlow;

/// Offset behind `.` and `..`.
const DOTS: u64 = 2;

/// Entries fetched at a time: about what a page of an answer holds.
const BATCH: usize = 32;

/// An entry and the offset behind it.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) node: INodeNo,
    pub(super) kind: FileType,
    pub(super) name: Vec<u8>,
    pub(super) offset: u64,
    ino: Ino,
}

/// What an answer with attributes says about an entry.
#[derive(Debug)]
pub(super) enum Known {
    /// `.` or `..`: the kernel does not count them.
    Dot(FileAttr),
    /// An inode, counted.
    Inode(FileAttr),
    /// An inode that cannot be read: whoever asks for it will be told.
    Damaged(FileAttr),
}

impl Adapter {
    /// The next entries behind `offset`, none at the end.
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

    /// The attributes of an entry; whoever sends them must [`Self::forget`] an inode that did not
    /// fit into the answer.
    pub(super) fn known(&self, listed: &Listed) -> Known {
        let found =
            if listed.offset <= DOTS { self.attr(listed.ino) } else { self.named(listed.ino) };
        match found {
            Ok(attr) if listed.offset <= DOTS => Known::Dot(attr),
            Ok(attr) => Known::Inode(attr),
            Err(fault) => {
                self.errno(&fault);
                let attr = FileAttr { kind: listed.kind, ..nothing_known(listed.node) };
                Known::Damaged(attr)
            }
        }
    }
}

fn nothing_known(node: INodeNo) -> FileAttr {
    let time = Timestamp::default();
    let attr = Attr {
        ino: node.0,
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
    file_attr(node, &attr, &IdMaps::default())
}
