//! Which inode or pair a node belongs to: the table of inodes, the loaded ones, and the extended
//! attributes.
//!
//! Layer: above the data, next to `store`. Reads and writes nothing.
//!
//! # Invariants
//! 1. A node is in the list of its owner until its block is erased.
//! 2. `highest` of an inode is at least the version of each of its nodes on flash.
//! 3. A loaded inode refers to live nodes only, and to every live node of a checked inode.

use super::inode::Loaded;
use super::inodes::{InodeCache, Inodes};
use super::loaded::LoadedInodes;
use super::nodelist::{NodeRef, RefKind};
use super::pairs::Xattrs;

/// The owners of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    pub(crate) inodes: Inodes,
    /// The loaded ones.
    pub(crate) loaded: LoadedInodes,
    pub(crate) xattrs: Xattrs,
}

impl Owners {
    /// Returns the inode, if it exists.
    pub(crate) fn cache(&self, ino: u32) -> Option<&InodeCache> {
        self.inodes.get(ino)
    }

    /// Returns the inode, which must exist.
    pub(crate) fn cache_mut(&mut self, ino: u32) -> &mut InodeCache {
        self.inodes.entry(ino)
    }

    /// Returns the places of the nodes of an inode; none if it does not exist.
    pub(crate) fn places(&self, ino: u32) -> &[u32] {
        self.inodes.get(ino).map_or(&[], |cache| cache.nodes.as_slice())
    }

    /// Returns the inode, which must be loaded.
    pub(crate) fn inode(&self, ino: u32) -> &Loaded {
        self.loaded.get(ino).expect("the inode has been loaded")
    }

    /// Returns the inode, which must be loaded.
    pub(crate) fn inode_mut(&mut self, ino: u32) -> &mut Loaded {
        self.loaded.get_mut(ino).expect("the inode has been loaded")
    }

    /// Forgets the inode and returns its entry.
    pub(crate) fn remove_inode(&mut self, ino: u32) -> InodeCache {
        self.loaded.remove(ino);
        self.inodes.remove(ino).unwrap_or_default()
    }

    /// Returns the version of the next node of an inode.
    pub(crate) fn next_version(&mut self, ino: u32) -> u32 {
        let cache = self.cache_mut(ino);
        cache.highest = cache.highest.saturating_add(1);
        cache.highest
    }

    /// Records that a node was written. A directory keeps the name of a DIRENT node in memory.
    pub(crate) fn add_node(&mut self, node: NodeRef) {
        if node.kind().is_of_inode() {
            self.cache_mut(node.owner).nodes.push(node.place());
            let name = if node.kind().is_of_name() { node.len() as usize } else { 0 };
            self.loaded.grow(node.owner, name);
        }
    }

    /// Records that a node was copied unchanged to `place`; `name` is that of a DIRENT node, if
    /// known.
    pub(crate) fn relocate(&mut self, old: NodeRef, place: u32, name: Option<&[u8]>) {
        match old.kind() {
            RefKind::Inode | RefKind::Dirent | RefKind::Deletion | RefKind::Broken => {
                if let Some(loaded) = self.loaded.get_mut(old.owner) {
                    loaded.relocate(old.place(), place, name);
                }
            }
            RefKind::Xattr | RefKind::Xref => self.xattrs.relocate(old, place),
            RefKind::Copy | RefKind::Filler => {}
        }
    }

    /// Removes the nodes of a block of `size` bytes, which is about to be erased, from the lists of
    /// their owners.
    pub(crate) fn forget(&mut self, block: u32, size: u32, refs: &[NodeRef]) {
        debug_assert!(refs.iter().all(|node| !node.is_live()), "a live node would be erased");
        let mut owners: Vec<u32> =
            refs.iter().filter(|node| node.kind().is_of_inode()).map(|node| node.owner).collect();
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            let Some(cache) = self.inodes.get_mut(owner) else { continue };
            cache.nodes.retain(|place| place / size != block);
            if cache.nodes.as_slice().is_empty() && !cache.is_wanted() {
                self.remove_inode(owner);
            }
        }
    }
}
