//! One state of the file system: which nodes an index refers to.

use crate::nodes::{Leaf, Name, Nodes};
use eraseblock_ubifs::{Live, Ubifs};
use eraseblock_ubifs_format::constants::ROOT_INO;
use eraseblock_ubifs_format::{Key, KeyKind};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Names above a file that are followed at most: more are a circle.
const DEEPEST: usize = 4096;

/// A file in a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileState {
    /// Its inode node, unless that is gone.
    pub(crate) inode: Option<Leaf>,
    /// Blocks that are referred to.
    pub(crate) blocks: u64,
    /// Those of them that are gone.
    pub(crate) missing: u64,
    /// The highest sequence number of its nodes.
    pub(crate) newest: u64,
    /// Nodes that are found at another place than the index says, since they were moved.
    pub(crate) moved: Vec<Leaf>,
    /// Index nodes are gone that may have referred to more of it.
    pub(crate) is_cut: bool,
    /// Keys of its nodes that are gone, in ascending order.
    pub(crate) gone: Vec<Key>,
    /// Depends on its nodes that are there.
    digest: u64,
}

impl FileState {
    /// Returns whether two states are of the same version, as far as their nodes are there.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let sqnum = |state: &Self| state.inode.map(|inode| inode.sqnum);
        let counts = |state: &Self| (state.blocks, state.missing, state.is_cut);
        let of = |state: &Self| (sqnum(state), counts(state), state.digest);
        of(self) == of(other)
    }

    fn take(&mut self, key: Key, leaf: Option<&Leaf>) {
        let is_block = key.kind() == Some(KeyKind::Data);
        self.blocks += u64::from(is_block);
        let Some(leaf) = leaf else {
            self.missing += u64::from(is_block);
            self.gone.push(key);
            return;
        };
        self.newest = self.newest.max(leaf.sqnum);
        let mut hasher = DefaultHasher::new();
        (key, leaf.sqnum).hash(&mut hasher);
        self.digest = self.digest.wrapping_add(hasher.finish());
        if key.kind() == Some(KeyKind::Inode) {
            self.inode = Some(*leaf);
        }
    }
}

/// A directory and a name in it.
pub(crate) type Entry = (u32, Box<[u8]>);

/// A state of the file system.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<u32, FileState>,
    /// Directory and name of each inode that has names.
    pub(crate) names: BTreeMap<u32, Vec<Entry>>,
    /// Leaves that the index refers to.
    pub(crate) leaves: u64,
    /// Those of them that are gone.
    pub(crate) gone: u64,
    /// Sequence numbers of the index nodes of a commit.
    pub(crate) index: Vec<u64>,
    /// The leaves with unique keys that are there.
    pub(crate) live: HashMap<Key, Leaf>,
    /// The entries of directories that are there; names with one hash have one key.
    entries: HashMap<Key, Vec<Leaf>>,
}

impl Tree {
    /// Returns what a mount sees now.
    pub(crate) fn now(fs: &Ubifs, nodes: &Nodes) -> Self {
        let mut tree = Self::default();
        fs.visit_leaves(&mut |branch| tree.take(&branch, nodes, u64::MAX, None));
        tree
    }

    /// Returns the state of a commit of which `fs` was opened; `later` is the state after it. Of nodes
    /// that are gone from their places, those are used that the later state refers to and that are older
    /// than the commit: they were moved, and nothing replaced them in between.
    pub(crate) fn of_commit(fs: &Ubifs, nodes: &Nodes, root_sqnum: u64, later: &Self) -> Self {
        let mut tree = Self::default();
        fs.visit_index(&mut |branch, level| {
            if level.is_some() {
                let number = nodes.index.get(&(branch.leb.get(), branch.offset));
                tree.index.extend(number.filter(|number| **number <= root_sqnum));
            } else {
                tree.take(&branch, nodes, root_sqnum, Some(later));
            }
        });
        for (ino, state) in &mut tree.files {
            state.is_cut = !fs.knows_all_of(*ino);
        }
        tree
    }

    fn take(&mut self, branch: &Live, nodes: &Nodes, bound: u64, later: Option<&Self>) {
        let key = branch.key;
        let mut leaf = nodes.referred(branch, bound).copied();
        if leaf.is_none() {
            leaf = later.and_then(|later| self.moved(key, bound, later));
        }
        let is_moved = leaf.is_some_and(|leaf| leaf.place != (branch.leb.get(), branch.offset));
        let file = self.files.entry(key.ino()).or_default();
        file.moved.extend(leaf.filter(|_| is_moved && !key.is_hashed()));
        self.leaves += 1;
        self.gone += u64::from(leaf.is_none());
        match key.kind() {
            Some(KeyKind::Dent) => {
                let name = leaf.and_then(|leaf| nodes.names.get(&leaf.place));
                if let Some(Name { parent, target, text }) = name {
                    self.names.entry(*target).or_default().push((*parent, text.clone()));
                }
            }
            _ => file.take(key, leaf.as_ref()),
        }
        match leaf {
            Some(leaf) if key.is_hashed() => self.entries.entry(key).or_default().push(leaf),
            Some(leaf) => drop(self.live.insert(key, leaf)),
            None => {}
        }
    }

    /// Returns the only node of a key that the later state refers to, that is older than this state, and
    /// that nothing in this state refers to yet.
    fn moved(&self, key: Key, bound: u64, later: &Self) -> Option<Leaf> {
        if !key.is_hashed() {
            return later.live.get(&key).filter(|moved| moved.sqnum < bound).copied();
        }
        let own = self.entries.get(&key).map(Vec::as_slice).unwrap_or_default();
        let is_new =
            |leaf: &&Leaf| leaf.sqnum < bound && own.iter().all(|known| known.sqnum != leaf.sqnum);
        let mut found = later.entries.get(&key)?.iter().filter(is_new);
        let only = found.next().copied();
        only.filter(|_| found.next().is_none())
    }

    /// Returns the highest sequence number of its leaves.
    pub(crate) fn newest(&self) -> u64 {
        let all = self.live.values().chain(self.entries.values().flatten());
        all.map(|leaf| leaf.sqnum).max().unwrap_or(0)
    }

    /// Returns a path of an inode without a slash at the start, or `None` if it does not lead to the
    /// root.
    pub(crate) fn path_of(&self, ino: u32) -> Option<Vec<u8>> {
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut at = ino;
        while at != ROOT_INO {
            let (parent, name) = self.names.get(&at)?.first()?;
            parts.push(name);
            if parts.len() > DEEPEST {
                return None;
            }
            at = *parent;
        }
        parts.reverse();
        Some(parts.join(&b"/"[..]))
    }

    /// Returns all paths of an inode.
    pub(crate) fn paths_of(&self, ino: u32) -> Vec<Vec<u8>> {
        if ino == ROOT_INO {
            return vec![Vec::new()];
        }
        let names = self.names.get(&ino).map(Vec::as_slice).unwrap_or_default();
        names.iter().filter_map(|(parent, name)| self.path_in(*parent, name)).collect()
    }

    /// Returns the path of a name in a directory.
    pub(crate) fn path_in(&self, parent: u32, name: &[u8]) -> Option<Vec<u8>> {
        let above = self.path_of(parent)?;
        Some(if above.is_empty() { name.to_vec() } else { [&above, &b"/"[..], name].concat() })
    }
}
