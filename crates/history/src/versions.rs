//! Versions of a file, and how sure each of them is.

use crate::evidence::Evidence;
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
    /// An inode with a block for each part of its size, and no node is lost that could have replaced one of
    /// them before the next version of the inode: sequence numbers have no gap there, or a commit refers to
    /// the block later.
    Consistent,
    /// The same, except that nodes are lost that could have replaced a block.
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
    pub const ALL: [Self; 7] = [
        Self::Live,
        Self::Proven,
        Self::Consistent,
        Self::Likely,
        Self::Partial,
        Self::Fragment,
        Self::NameOnly,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Proven => "proven",
            Self::Consistent => "consistent",
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
pub(crate) fn by_nodes(
    nodes: &Nodes,
    known: &BTreeMap<u32, Vec<Version>>,
    evidence: &Evidence,
) -> Vec<Version> {
    let mut found = Vec::new();
    let of_all = nodes.by_ino.keys().chain(nodes.blocks.keys());
    for ino in of_all.copied().collect::<BTreeSet<u32>>() {
        let seen = known.get(&ino).map(Vec::as_slice).unwrap_or_default();
        let seen: BTreeSet<u64> = seen.iter().filter_map(|version| version.inode_sqnum).collect();
        let inodes = nodes.by_ino.get(&ino).map(Vec::as_slice).unwrap_or_default();
        let blocks = nodes.blocks.get(&ino).map(Vec::as_slice).unwrap_or_default();
        let mut newest_of = BTreeMap::new();
        let mut blocks_left = blocks.iter().map(|place| nodes.leaves[place]).peekable();
        for (index, place) in inodes.iter().enumerate() {
            let inode = &nodes.inodes[place];
            let leaf = nodes.leaves[place];
            let next = inodes.get(index + 1).map(|next| (&nodes.leaves[next], &nodes.inodes[next]));
            let end = next.map_or(u64::MAX, |(next, _)| next.sqnum);
            // In ascending order of their sequence numbers.
            while let Some(block) = blocks_left.next_if(|block| block.sqnum < leaf.sqnum) {
                newest_of.insert(block.key.value(), block);
            }
            // A size is written before content after it: what is there was cut off.
            let ends = inode.size.div_ceil(u64::from(BLOCK_SIZE));
            newest_of.retain(|block, _| u64::from(*block) < ends);
            while let Some(block) = blocks_left.next_if(|block| block.sqnum < end) {
                newest_of.insert(block.key.value(), block);
            }
            if inode.is_xattr || inode.nlink == 0 || seen.contains(&leaf.sqnum) {
                continue;
            }
            found.push(by_inode((nodes, evidence), (&leaf, inode), newest_of.clone(), next));
        }
        if inodes.is_empty() && seen.is_empty() && !blocks.is_empty() {
            found.push(fragment(nodes, ino, blocks));
        }
    }
    found
}

/// An inode node, and what it says.
type InodeLeaf<'a> = (&'a Leaf, &'a InodeNode);

/// Nodes of a truncation at most: the inode, the truncation, the last block.
const TRUNCATION_NODES: u64 = 3;

/// The version of an inode node that the inode node `next` replaced.
fn by_inode(
    (nodes, evidence): (&Nodes, &Evidence),
    (leaf, inode): InodeLeaf<'_>,
    mut newest_of: BTreeMap<u32, Leaf>,
    next: Option<InodeLeaf<'_>>,
) -> Version {
    let end = next.map_or(u64::MAX, |(next, _)| next.sqnum);
    let ends = inode.size.div_ceil(u64::from(BLOCK_SIZE));
    newest_of.retain(|_, block| {
        let is_inside = u64::from(block.key.value()) < ends && block.sqnum >= inode.creat_sqnum;
        // What a commit does not refer to any more was replaced, even if what replaced it is gone.
        is_inside && !evidence.is_dead(block.key, block.sqnum, end)
    });
    let there = newest_of.len() as u64;
    let is_regular = inode.mode & file_type::MASK == file_type::REGULAR;
    let missing = if is_regular { ends - there } else { 0 };
    let newest = newest_of.values().map(|block| block.sqnum).fold(leaf.sqnum, u64::max);
    let known_until = newest_of
        .values()
        .map(|block| evidence.live_until(block.key, block.sqnum))
        .fold(leaf.sqnum, u64::min);
    let is_consistent = nodes.is_gapless(known_until, end)
        && next.is_some_and(|next| is_complete(nodes, (leaf, inode), newest, next));
    Version {
        ino: leaf.key.ino(),
        class: match missing {
            0 if is_consistent => Class::Consistent,
            0 => Class::Likely,
            _ => Class::Partial,
        },
        seen: Seen::Nodes,
        inode_sqnum: Some(leaf.sqnum),
        newest,
        attributes: Some(inode.into()),
        blocks: there + missing,
        missing,
        paths: Vec::new(),
        is_named_by_another: true,
        gone: Vec::new(),
        nodes: std::iter::once(*leaf).chain(newest_of.into_values()).collect(),
    }
}

/// Returns whether the content had been written back before the inode node `next`, as far as the nodes say.
/// The inode nodes of truncations and of changes of links are written at once, and may overtake it.
fn is_complete(
    nodes: &Nodes,
    (leaf, inode): InodeLeaf<'_>,
    newest: u64,
    (next, after): InodeLeaf<'_>,
) -> bool {
    let is_truncation = |leaf: &Leaf| nodes.truncations.contains(&(leaf.key.ino(), leaf.sqnum));
    let own = leaf.sqnum + if is_truncation(leaf) { TRUNCATION_NODES - 1 } else { 0 };
    // Content follows its inode node if the file grows, and is followed by it otherwise.
    let is_content_first =
        after.size == inode.size && after.nlink == inode.nlink && !is_truncation(next);
    inode.size == 0 || newest > own || is_content_first
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
