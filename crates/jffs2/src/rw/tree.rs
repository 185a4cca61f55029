//! The file system as it is read: nodes, their owners, and what they mean. Loads inodes, checks
//! them one after the other, and deletes them.
//!
//! Layer: above `load`, `pairs` and `owners`, below everything that writes nodes.
//!
//! # Invariants
//! 1. An inode that has neither a name nor an opener is not loaded.
//! 2. All unchecked bytes belong to inodes above `checked`, or to inodes that no name reaches.

use super::failure::refuse;
use super::inode::Loaded;
use super::inodes::InodeCache;
use super::load::Loading;
use super::nodelist::{NodeRef, RefState};
use super::owners::Owners;
use super::remains::Remains;
use super::store::Store;
use eraseblock_vfs::{FsError, FsErrorKind, Ino};

/// The file system as it is read.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) store: Store,
    pub(crate) owners: Owners,
    pub(crate) remains: Remains,
    /// Inodes up to this number have been checked.
    checked: u32,
}

impl Tree {
    pub(crate) fn new(store: Store, owners: Owners, remains: Remains) -> Self {
        Self { store, owners, remains, checked: 0 }
    }

    /// Returns the inode, if it exists.
    pub(crate) fn cache(&self, ino: u32) -> Option<&InodeCache> {
        self.owners.cache(ino)
    }

    /// Returns the inode, which must be loaded.
    pub(crate) fn inode(&self, ino: u32) -> &Loaded {
        self.owners.inode(ino)
    }

    /// Loads the inode if necessary.
    pub(crate) fn load(&mut self, ino: u32) -> Result<(), FsError> {
        if self.owners.loaded.want(ino) {
            return Ok(());
        }
        let Some(cache) = self.owners.cache(ino).filter(|cache| cache.is_wanted()) else {
            return Err(FsError::new(FsErrorKind::NotFound, format!("no inode {ino}")));
        };
        let mut loading = Loading { store: &mut self.store, remains: &mut self.remains, ino };
        let found = loading.collect(cache.nodes.as_slice())?;
        let loaded = loading.resolve(found);
        self.owners.cache_mut(ino).set_checked();
        self.owners.loaded.insert(ino, loaded?);
        Ok(())
    }

    /// Returns the inode number if the inode exists, and loads it.
    pub(crate) fn existing(&mut self, ino: Ino) -> Result<u32, FsError> {
        let missing = || FsError::new(FsErrorKind::NotFound, format!("no inode {ino}"));
        let ino = u32::try_from(ino).map_err(|_| missing())?;
        self.load(ino)?;
        Ok(ino)
    }

    /// Returns the payload that every attribute node of a link or device must contain.
    pub(crate) fn own_payload(&self, ino: u32) -> Result<Vec<u8>, FsError> {
        let inode = self.inode(ino);
        match inode.metadata {
            Some(place) if inode.attributes.has_payload() => Ok(self.store.payload(place)?.1),
            _ => Ok(Vec::new()),
        }
    }

    /// Records that a node was copied unchanged to `place`; `name` is that of a DIRENT node, if
    /// known. The original dies last: its owner never refers to a dead node.
    pub(crate) fn relocate(&mut self, old: NodeRef, place: u32, name: Option<&[u8]>) {
        self.owners.relocate(old, place, name);
        self.store.obsolete(old.place());
    }

    /// Declares nodes dead that newer ones supersede.
    pub(crate) fn obsolete_all(&mut self, places: impl IntoIterator<Item = u32>) {
        for place in places {
            self.store.obsolete(place);
        }
    }

    /// Records that the inode is opened once more.
    pub(crate) fn open(&mut self, ino: u32) {
        self.owners.cache_mut(ino).opens += 1;
    }

    /// Records that the inode is opened once less; without a name, it is deleted.
    pub(crate) fn release(&mut self, ino: u32) -> Result<(), FsError> {
        let cache = self.owners.cache_mut(ino);
        cache.opens = cache
            .opens
            .checked_sub(1)
            .ok_or_else(|| refuse(FsErrorKind::Invalid, ino, "released more often than opened"))?;
        if !cache.is_wanted() {
            self.delete(ino);
        }
        Ok(())
    }

    /// Records that a name of the inode was removed.
    pub(crate) fn drop_name(&mut self, ino: u32) {
        let Some(cache) = self.owners.inodes.get_mut(ino) else { return };
        cache.drop_name();
        if !cache.is_wanted() {
            self.delete(ino);
        }
    }

    /// Deletes the inode: its nodes are dead, and nothing needs to be written.
    pub(crate) fn delete(&mut self, ino: u32) {
        self.owners.xattrs.drop_inode(&mut self.store, ino);
        for place in self.owners.remove_inode(ino).nodes.as_slice() {
            self.store.obsolete(*place);
        }
    }

    /// Checks the next unchecked inode (spec: jffs2 12.9). Returns `false` if there is none.
    pub(crate) fn check_one(&mut self) -> Result<bool, FsError> {
        if self.store.blocks.totals().unchecked == 0 {
            return Ok(false);
        }
        let Some(ino) = self.next_unchecked() else {
            // No named inode is left to check: the remaining nodes cannot be attributed.
            let Some(owner) = self.store.blocks.first_unchecked() else { return Ok(false) };
            self.keep_unchecked(owner);
            return Ok(true);
        };
        let was_loaded = self.owners.loaded.has(ino);
        match self.load(ino) {
            Ok(()) => {}
            Err(error) if error.kind() == FsErrorKind::Io => return Err(error),
            Err(_) => self.keep_unchecked(ino),
        }
        self.checked = ino;
        self.owners.cache_mut(ino).set_checked();
        if !was_loaded {
            self.owners.loaded.remove(ino);
        }
        Ok(true)
    }

    fn next_unchecked(&self) -> Option<u32> {
        let mut left = self.owners.inodes.range(self.checked.saturating_add(1));
        let is_next = |cache: &InodeCache| !cache.is_checked() && cache.names() > 0;
        left.find(|(_, cache)| is_next(cache)).map(|(ino, _)| ino)
    }

    /// Keeps the remains of an unreadable inode unchanged.
    fn keep_unchecked(&mut self, owner: u32) {
        let places: Vec<u32> = self
            .store
            .blocks
            .iter()
            .flat_map(|(_, block)| &block.refs)
            .filter(|node| node.state() == RefState::Unchecked && node.owner == owner)
            .map(|node| node.place())
            .collect();
        for place in places {
            self.store.blocks.check_off(place, RefState::Pristine);
        }
    }
}
