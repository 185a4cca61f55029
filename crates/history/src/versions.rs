//! Versions of a file, and how sure each of them is.

use crate::nodes::{InodeNode, Leaf, Nodes, Place};
use crate::tree::FileState;
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::{Key, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How sure it is that a version was a state of its file. A version is as good as its worst part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// What a mount sees.
    Live,
    /// An index node referred to exactly these nodes, and all of them are there.
    Proven,
    /// An inode with a block for each part of its size, none of them newer than the next version of the
    /// inode; what a block replaced it with is unknown.
    Likely,
    /// Blocks are missing or may be missing: nothing distinguishes holes from them.
    Partial,
    /// Blocks without an inode.
    Fragment,
    /// A name alone.
    NameOnly,
}

impl Class {
    /// All classes, the surest first.
    pub const ALL: [Self; 6] =
        [Self::Live, Self::Proven, Self::Likely, Self::Partial, Self::Fragment, Self::NameOnly];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Proven => "proven",
            Self::Likely => "likely",
            Self::Partial => "partial",
            Self::Fragment => "fragment",
            Self::NameOnly => "name-only",
        }
    }
}

/// Where a version was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Seen {
    /// A mount sees it, since this commit if it is in one.
    Now {
        /// The first commit that holds it.
        since: Option<u64>,
    },
    /// In these commits, the last one included.
    Commits {
        /// The first one.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// In none of the commits that are left: by the sequence numbers of its nodes.
    Nodes,
}

/// What an inode node says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Size in bytes.
    pub size: u64,
    /// POSIX mode with its type.
    pub mode: u32,
    /// Names of the file.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Whether content and names are encrypted.
    pub is_encrypted: bool,
}

impl From<&InodeNode> for Attributes {
    fn from(node: &InodeNode) -> Self {
        let [atime, mtime, ctime] = node.times;
        let InodeNode { size, mode, nlink, uid, gid, is_encrypted, .. } = *node;
        Self { size, mode, nlink, uid, gid, atime, mtime, ctime, is_encrypted }
    }
}

/// A version of a file.
#[derive(Clone, Debug)]
pub struct Version {
    /// Inode number.
    pub ino: u32,
    /// How sure it is.
    pub class: Class,
    /// Where it was found.
    pub seen: Seen,
    /// Sequence number of its inode node, unless that is gone.
    pub inode_sqnum: Option<u64>,
    /// The highest sequence number of its nodes.
    pub newest: u64,
    /// What its inode says.
    pub attributes: Option<Attributes>,
    /// Blocks of 4 KiB that it has, those that are missing included.
    pub blocks: u64,
    /// Blocks that are known to be missing. Of a version that was found by its nodes, blocks below its
    /// size that are not there.
    pub missing: u64,
    /// Paths, without a slash at the start. As many as its inode has names, unless entries are gone.
    pub paths: Vec<Vec<u8>>,
    /// Its own paths are not known; these are those of another version or of a deleted name.
    pub is_named_by_another: bool,
    /// Keys of the blocks that are missing, of a version of a commit.
    pub(crate) gone: Vec<Key>,
    /// Nodes that are not where the index of its commit says; of a version that was found by its nodes, all
    /// of them.
    pub(crate) nodes: Vec<Leaf>,
}

impl Version {
    /// Returns whether the node of a key is gone.
    pub(crate) fn is_missing(&self, key: Key) -> bool {
        self.gone.binary_search(&key).is_ok()
    }

    /// Returns the version that a state shows.
    pub(crate) fn of_state(
        ino: u32,
        state: &FileState,
        seen: Seen,
        nodes: &Nodes,
        paths: Vec<Vec<u8>>,
    ) -> Self {
        let inode = state.inode.and_then(|inode| nodes.inodes.get(&inode.place));
        let class = match (seen, inode) {
            (_, None) => Class::Fragment,
            _ if state.missing > 0 || state.is_cut => Class::Partial,
            (Seen::Now { .. }, _) => Class::Live,
            _ => Class::Proven,
        };
        Self {
            ino,
            class,
            seen,
            inode_sqnum: state.inode.map(|inode| inode.sqnum),
            newest: state.newest,
            attributes: inode.map(Attributes::from),
            blocks: state.blocks,
            missing: state.missing,
            paths,
            is_named_by_another: false,
            gone: state.gone.clone(),
            nodes: state.moved.clone(),
        }
    }
}

/// Finds versions by their nodes: inode nodes that no state that is left refers to, with the newest blocks
/// that are older than the next inode node; and blocks without an inode node.
pub(crate) fn by_nodes(nodes: &Nodes, known: &BTreeMap<u32, Vec<Version>>) -> Vec<Version> {
    let mut found = Vec::new();
    let of_all = nodes.by_ino.keys().chain(nodes.blocks.keys());
    for ino in of_all.copied().collect::<BTreeSet<u32>>() {
        let seen = known.get(&ino).map(Vec::as_slice).unwrap_or_default();
        let seen: BTreeSet<u64> = seen.iter().filter_map(|version| version.inode_sqnum).collect();
        let inodes = nodes.by_ino.get(&ino).map(Vec::as_slice).unwrap_or_default();
        let blocks = nodes.blocks.get(&ino).map(Vec::as_slice).unwrap_or_default();
        for (index, place) in inodes.iter().enumerate() {
            let inode = &nodes.inodes[place];
            let leaf = nodes.leaves[place];
            if inode.is_xattr || inode.nlink == 0 || seen.contains(&leaf.sqnum) {
                continue;
            }
            let next = inodes.get(index + 1).map_or(u64::MAX, |next| nodes.leaves[next].sqnum);
            found.push(by_inode(nodes, leaf, inode, blocks, next));
        }
        if inodes.is_empty() && seen.is_empty() && !blocks.is_empty() {
            found.push(fragment(nodes, ino, blocks));
        }
    }
    found
}

/// The version of an inode node that the inode node `next` replaced.
fn by_inode(nodes: &Nodes, leaf: Leaf, inode: &InodeNode, blocks: &[Place], next: u64) -> Version {
    let ends = inode.size.div_ceil(u64::from(BLOCK_SIZE));
    let mut newest_of = BTreeMap::new();
    for place in blocks {
        let block = nodes.leaves[place];
        let is_inside = u64::from(block.key.value()) < ends;
        if is_inside && block.sqnum < next && block.sqnum >= inode.creat_sqnum {
            // In ascending order of their sequence numbers.
            newest_of.insert(block.key.value(), block);
        }
    }
    let there = newest_of.len() as u64;
    let is_regular = inode.mode & file_type::MASK == file_type::REGULAR;
    let missing = if is_regular { ends - there } else { 0 };
    let newest = newest_of.values().map(|block| block.sqnum).fold(leaf.sqnum, u64::max);
    Version {
        ino: leaf.key.ino(),
        class: if missing == 0 { Class::Likely } else { Class::Partial },
        seen: Seen::Nodes,
        inode_sqnum: Some(leaf.sqnum),
        newest,
        attributes: Some(inode.into()),
        blocks: there + missing,
        missing,
        paths: Vec::new(),
        is_named_by_another: true,
        gone: Vec::new(),
        nodes: std::iter::once(leaf).chain(newest_of.into_values()).collect(),
    }
}

fn fragment(nodes: &Nodes, ino: u32, blocks: &[Place]) -> Version {
    let newest_of: BTreeMap<u32, Leaf> = blocks
        .iter()
        .map(|place| nodes.leaves[place])
        .map(|block| (block.key.value(), block))
        .collect();
    Version {
        ino,
        class: Class::Fragment,
        seen: Seen::Nodes,
        inode_sqnum: None,
        newest: newest_of.values().map(|block| block.sqnum).max().unwrap_or(0),
        attributes: None,
        blocks: newest_of.len() as u64,
        missing: 0,
        paths: Vec::new(),
        is_named_by_another: true,
        gone: Vec::new(),
        nodes: newest_of.into_values().collect(),
    }
}
