//! Inodes, entries, xattrs and content compared with each other (layer 15; spec: ubifs-format
//! 21.6).

use super::Committed;
use super::breaches::Breaches;
use super::index::InodePlaces;
use super::leaves::{InodeFacts, Seen, SeenInode};
use crate::rw::core::Core;
use crate::rw::xattr::value_weight;
use eraseblock_base::Location;
use eraseblock_ubifs_format::EntryKind;
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, ROOT_INO, inode_flags};
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::raw::InodeNode;
use std::collections::BTreeMap;

/// Fixed part of the size of a directory.
const DIRECTORY_SIZE: u64 = InodeNode::SIZE as u64;

/// Findings about one inode.
struct About<'a> {
    place: Location,
    breaches: &'a mut Breaches,
}

impl About<'_> {
    fn wrong(&mut self, id: &str, message: impl std::fmt::Display) {
        if let Location::Inode(ino) = self.place {
            self.breaches.next_is_about(ino as u32);
        }
        self.breaches.add(self.place, "inode-wrong", id, message);
    }

    fn note(&mut self, id: &str, message: impl std::fmt::Display) {
        if let Location::Inode(ino) = self.place {
            self.breaches.next_is_about(ino as u32);
        }
        self.breaches.note(self.place, "inode-wrong", id, message);
    }

    fn same<T: Copy + PartialEq + std::fmt::Display>(
        &mut self,
        id: &str,
        what: &str,
        found: T,
        expected: T,
    ) {
        if found != expected {
            self.wrong(id, format!("{what} {found}, expected {expected}"));
        }
    }
}

impl InodeFacts {
    fn kind(&self) -> u32 {
        self.mode & file_type::MASK
    }

    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

impl Core {
    /// X1 to X11, N2, N5, N6.
    pub(super) fn check_inodes(&self, seen: &Seen, breaches: &mut Breaches) {
        let mut attribute_bytes: BTreeMap<u32, u32> = BTreeMap::new();
        for value in seen.values().filter(|value| value.hosts > 0) {
            let len = value.node.map_or(0, |node| node.data_len);
            *attribute_bytes.entry(value.host).or_default() += value.host_bytes + value_weight(len);
        }
        if !seen.contains_key(&ROOT_INO) {
            breaches.add(Location::Whole, "inode-wrong", "X1", "there is no root directory");
        }
        for (ino, inode) in seen {
            let mut about = About { place: Location::Inode((*ino).into()), breaches };
            let Some(node) = inode.node else {
                about.wrong("X2, X3", "there are entries or content, but no inode");
                continue;
            };
            check_leaves(inode, &node, &mut about);
            if node.has(inode_flags::XATTR) {
                check_value(inode, &node, seen, &mut about);
                continue;
            }
            self.check_links(*ino, inode, &node, &mut about);
            self.check_size(*ino, inode, &node, &mut about);
            let bytes = attribute_bytes.get(ino).copied().unwrap_or(0);
            about.same("X10", "number of attributes", node.xattr_cnt, inode.xattrs);
            about.same("X10", "bytes of attribute names", node.xattr_names, inode.xattr_names);
            about.same("X10", "bytes of attributes", node.xattr_size, bytes);
        }
        check_tree(seen, breaches);
    }

    /// X1, X4 to X7: names and the link count.
    fn check_links(&self, ino: u32, inode: &SeenInode, node: &InodeFacts, about: &mut About<'_>) {
        let is_root = ino == ROOT_INO;
        let is_dir = node.kind() == file_type::DIRECTORY;
        if is_root && inode.names > 0 {
            about.wrong("X1", "the root directory has a name");
        }
        if inode.hosts > 0 {
            about.wrong("X5", "an attribute entry names it, but it holds no attribute");
        }
        let names = inode.names + u32::from(is_root);
        let expected = match (is_dir, names) {
            (_, 0) => 0,
            (true, _) => 2 + inode.subdirs,
            (false, names) => names,
        };
        about.same("X7", "link count", node.nlink, expected);
        if names == 0 && !self.store.orphans.contains(ino) {
            about.wrong("X6", "has no name and is no orphan");
        }
        if is_dir && names > 1 {
            about.wrong("X7", "a directory with several names");
        }
        let kind = match node.kind() {
            file_type::REGULAR => EntryKind::Regular,
            file_type::DIRECTORY => EntryKind::Directory,
            file_type::SYMLINK => EntryKind::Symlink,
            file_type::BLOCK => EntryKind::BlockDevice,
            file_type::CHAR => EntryKind::CharDevice,
            file_type::FIFO => EntryKind::Fifo,
            _ => EntryKind::Socket,
        };
        if inode.kinds & !(1 << kind.number()) != 0 {
            about.wrong("X4", format!("its entry says another type than mode {:o}", node.mode));
        }
    }

    /// X2, X9, X11: content and size.
    fn check_size(&self, ino: u32, inode: &SeenInode, node: &InodeFacts, about: &mut About<'_>) {
        let is_encrypted = node.has(inode_flags::ENCRYPTED);
        match node.kind() {
            file_type::DIRECTORY if node.nlink > 0 && !is_encrypted => {
                about.same("X9", "size", node.size, DIRECTORY_SIZE + inode.entry_bytes);
            }
            file_type::SYMLINK if !is_encrypted => {
                about.same("X9", "size", node.size, node.data_len.into());
                if node.odd_target {
                    about.wrong("X9", "the target of the link contains a NUL");
                }
            }
            file_type::REGULAR if node.nlink > 0 => {
                // Written data may extend beyond the size in the journal.
                let known = self.inodes.get(ino).map_or(node.size, |known| known.size);
                let known = known.max(node.size);
                // A cut may leave content after the end in its last block.
                let end = inode.content_end;
                let message = format!("content up to {end}, but {known} bytes long");
                if end > known.next_multiple_of(BLOCK_SIZE.into()) {
                    about.wrong("X11", message);
                } else if end > known && about.breaches.is_clean {
                    about.note("X11", message);
                }
            }
            _ => {}
        }
        if node.kind() != file_type::REGULAR && inode.content_end > 0 {
            about.wrong("X2", "content, but it is no regular file");
        }
        if node.kind() != file_type::DIRECTORY && inode.entries > 0 {
            about.wrong("X2", "entries, but it is no directory");
        }
    }
}

/// O2, M10: inodes without links in the committed index are listed. A read-only mount has removed those
/// that are, in memory: what is left is not.
pub(super) fn check_orphans_listed(
    seen: &Seen,
    committed_at: &InodePlaces,
    committed: &Committed,
    breaches: &mut Breaches,
) {
    for (ino, node) in seen.iter().filter_map(|(ino, inode)| Some((*ino, inode.node?))) {
        let is_committed = || committed_at.binary_search(&(ino, node.place)).is_ok();
        if node.nlink != 0 || !is_committed() {
            continue;
        }
        let place = node.place.location();
        match &committed.orphans {
            None => {
                let message = "an orphan, but the master says there are none";
                breaches.add(place, "orphan-unlisted", "M10", message);
            }
            Some(listed) if !listed.contains(&ino) => {
                let message = format!("inode {ino} is an orphan, but not listed as one");
                breaches.add(place, "orphan-unlisted", "O2", message);
            }
            Some(_) => {}
        }
    }
}

/// N2, N5, N6: leaves of an inode compared with its node.
fn check_leaves(inode: &SeenInode, node: &InodeFacts, about: &mut About<'_>) {
    if let Some((sqnum, place)) = inode.oldest.filter(|(sqnum, _)| *sqnum <= node.creat_sqnum) {
        let message =
            format!("sequence number {sqnum}, but its inode was created at {}", node.creat_sqnum);
        about.breaches.add(place.location(), "sqnum-wrong", "N2", message);
    }
    let is_encrypted = node.has(inode_flags::ENCRYPTED);
    if is_encrypted != inode.has_context && node.nlink > 0 {
        about.wrong("N5", "the encryption flag and the context attribute come together");
    }
    if let Some(place) = inode.odd_name
        && !is_encrypted
    {
        let message = "a name that is \".\" or \"..\", or has a slash or NUL in it";
        about.breaches.add(place.location(), "leaf-wrong", "N6", message);
    }
}

/// X2, X5, X6: an inode that holds the value of an xattr.
fn check_value(inode: &SeenInode, node: &InodeFacts, seen: &Seen, about: &mut About<'_>) {
    let host = seen.get(&inode.host).and_then(|host| host.node);
    if inode.names > 0 {
        about.wrong("X4, X5", "holds an attribute, but a directory names it");
    }
    if inode.hosts == 0 || host.is_none() {
        about.wrong("X6", "holds an attribute of no inode");
    }
    if inode.hosts > 1 {
        about.wrong("X5", format!("holds an attribute of {} names", inode.hosts));
    }
    if inode.entries > 0 || inode.xattrs > 0 || inode.content_end > 0 {
        about.wrong("X2", "holds an attribute, but has entries, attributes or content");
    }
    if host.is_some_and(|host| host.nlink > 0) {
        about.same("X7", "link count", node.nlink, 1);
    }
}

/// X8: every directory with a name can be reached from the root.
fn check_tree(seen: &Seen, breaches: &mut Breaches) {
    let mut known: BTreeMap<u32, bool> = BTreeMap::new();
    known.insert(ROOT_INO, true);
    let mut path = Vec::new();
    for (ino, inode) in seen {
        if inode.node.is_none_or(|node| node.kind() != file_type::DIRECTORY) {
            continue;
        }
        let mut at_dir = *ino;
        let is_reached = loop {
            if let Some(is_reached) = known.get(&at_dir) {
                break *is_reached;
            }
            // A path that returns here is a cycle.
            known.insert(at_dir, false);
            path.push(at_dir);
            match seen.get(&at_dir) {
                Some(dir) if dir.names > 0 => at_dir = dir.parent,
                // Without a name it is an orphan, or reported as lost.
                _ => break true,
            }
        };
        for dir in path.drain(..) {
            known.insert(dir, is_reached);
        }
        if !is_reached {
            let place = Location::Inode((*ino).into());
            let message = "a directory that no path from the root leads to";
            breaches.add(place, "inode-wrong", "X8", message);
        }
    }
}
