//! Every valid node, live or not, by its place and by its inode; and the sequence numbers of all of them.

use crate::history::OldBlocks;
use eraseblock_base::Leb;
use eraseblock_ubifs::{Live, Ubifs};
use eraseblock_ubifs_format::constants::{NodeType, inode_flags};
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::{Key, KeyKind, Time};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A LEB and an offset in it.
pub(crate) type Place = (u32, u32);

/// A leaf node, wherever it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    pub(crate) key: Key,
    pub(crate) sqnum: u64,
    pub(crate) place: Place,
    pub(crate) len: u32,
}

impl Leaf {
    /// Returns the same for the reader.
    pub(crate) fn live(&self) -> Live {
        let (leb, offset) = self.place;
        Live { key: self.key, leb: Leb::new(leb), offset, len: self.len, parent: None }
    }
}

/// What an inode node says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InodeNode {
    pub(crate) creat_sqnum: u64,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) times: [Time; 3],
    pub(crate) is_xattr: bool,
    pub(crate) is_encrypted: bool,
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub(crate) parent: u32,
    /// 0 says that the name was removed.
    pub(crate) target: u32,
    pub(crate) text: Box<[u8]>,
}

/// All leaf nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) leaves: HashMap<Place, Leaf>,
    pub(crate) inodes: HashMap<Place, InodeNode>,
    pub(crate) names: HashMap<Place, Name>,
    /// Places of the inode nodes of each inode, in ascending order of their sequence numbers; copies
    /// count once.
    pub(crate) by_ino: BTreeMap<u32, Vec<Place>>,
    /// The same of the blocks of its content.
    pub(crate) blocks: BTreeMap<u32, Vec<Place>>,
    /// LEBs that cannot be read.
    pub(crate) unread: Vec<u32>,
    /// Sequence numbers of the index nodes.
    pub(crate) index: HashMap<Place, u64>,
    /// Inode nodes of truncations, by inode and sequence number.
    pub(crate) truncations: BTreeSet<(u32, u64)>,
    /// The sequence numbers of all nodes of all types, in ascending order.
    numbers: Vec<u64>,
}

impl Nodes {
    /// Reads all nodes, those of old blocks included.
    pub(crate) fn read(fs: &Ubifs, old: Option<&OldBlocks>) -> Self {
        let mut nodes = Self::default();
        let mut unread = Vec::new();
        fs.visit_nodes(
            &mut |leb, offset, node| nodes.take((leb.get(), offset), node),
            &mut |leb, _| unread.push(leb.get()),
        );
        if let Some(OldBlocks { device, lebs }) = old {
            fs.visit_old_nodes(
                device.as_ref(),
                lebs.clone(),
                &mut |leb, offset, node| nodes.take((leb.get(), offset), node),
                &mut |leb, _| unread.push(leb.get()),
            );
        }
        nodes.unread = unread;
        nodes.numbers.sort_unstable();
        nodes.numbers.dedup();
        let leaves = &nodes.leaves;
        for list in nodes.by_ino.values_mut().chain(nodes.blocks.values_mut()) {
            list.sort_by_key(|place| (leaves[place].sqnum, *place));
            list.dedup_by_key(|place| (leaves[place].key, leaves[place].sqnum));
        }
        nodes
    }

    /// Returns whether every node that was written after `first` and before `end` is there.
    pub(crate) fn is_gapless(&self, first: u64, end: u64) -> bool {
        let from = self.numbers.partition_point(|number| *number <= first);
        let to = self.numbers.partition_point(|number| *number < end);
        first.saturating_add(1 + to.saturating_sub(from) as u64) >= end
    }

    fn take(&mut self, place: Place, node: &Node<'_>) {
        let sqnum = node.header.sqnum;
        self.numbers.push(sqnum);
        match node.header.node_type {
            NodeType::Index => drop(self.index.insert(place, sqnum)),
            NodeType::Truncation => {
                // It follows the inode node of its group.
                let inode = node.truncation().map(|it| (it.ino, sqnum.wrapping_sub(1)));
                self.truncations.extend(inode);
            }
            _ => {}
        }
        let Some(key) = node.key() else { return };
        match key.kind() {
            Some(KeyKind::Inode) => {
                let Ok(inode) = node.inode() else { return };
                let known = InodeNode {
                    creat_sqnum: inode.creat_sqnum,
                    size: inode.size,
                    mode: inode.mode,
                    nlink: inode.nlink,
                    uid: inode.uid,
                    gid: inode.gid,
                    times: [inode.atime, inode.mtime, inode.ctime],
                    is_xattr: inode.is_xattr(),
                    is_encrypted: inode.flags & inode_flags::ENCRYPTED != 0,
                };
                self.inodes.insert(place, known);
                self.by_ino.entry(key.ino()).or_default().push(place);
            }
            Some(KeyKind::Data) => {
                if node.data().is_err() {
                    return;
                }
                self.blocks.entry(key.ino()).or_default().push(place);
            }
            Some(KeyKind::Dent) => {
                let Ok(dent) = node.dent() else { return };
                let (parent, target) = (key.ino(), dent.ino);
                self.names.insert(place, Name { parent, target, text: dent.name.into() });
            }
            Some(KeyKind::Xent) => {}
            None => return,
        }
        let len = node.header.len;
        self.leaves.insert(place, Leaf { key, sqnum, place, len });
    }

    /// Returns the leaf that a branch of an index refers to, unless something else is there now, or
    /// something that was written at `later` or after it.
    pub(crate) fn referred(&self, branch: &Live, later: u64) -> Option<&Leaf> {
        let leaf = self.leaves.get(&(branch.leb.get(), branch.offset))?;
        (leaf.key == branch.key && leaf.len == branch.len && leaf.sqnum < later).then_some(leaf)
    }
}
