//! Extended attributes in memory: pairs of name and value, and the references of inodes to them
//! (spec: jffs2 10).
//!
//! Layer: above `store`, from which values are read and where nodes die. Writes nothing.
//!
//! # Invariants
//! 1. Every live XATTR node is that of a pair with references; every live XREF node is in
//!    `references`.
//! 2. A deleted reference stays alive while an older one for the same inode and pair is on flash.
//! 3. `users` of a pair is the number of references to it that are not deleted.

use super::failure::corrupted;
use super::nodelist::{NodeRef, RefKind};
use super::store::Store;
use eraseblock_jffs2_format::{crc32, decode};
use eraseblock_vfs::FsError;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// A pair of name and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) place: u32,
    pub(crate) version: u32,
    pub(crate) hash: u32,
    /// Number of live references to it.
    pub(crate) users: u32,
}

/// The inode and the pair of a reference. They are ordered by inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RefKey {
    pub(crate) ino: u32,
    pub(crate) xid: u32,
}

impl RefKey {
    /// Returns the keys of all references of an inode.
    pub(crate) fn all_of(ino: u32) -> RangeInclusive<Self> {
        Self { ino, xid: 0 }..=Self { ino, xid: u32::MAX }
    }
}

/// Whether a reference adds a pair to an inode or removes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// The inode has the pair.
    Attach,
    /// It has it no more; hides older references.
    Detach,
}

/// The newest reference of an inode to a pair, or its deletion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    pub(crate) place: u32,
    /// Odd if the reference is deleted.
    pub(crate) xseqno: u32,
}

impl Reference {
    pub(crate) fn link(self) -> Link {
        if self.xseqno & 1 != 0 { Link::Detach } else { Link::Attach }
    }

    pub(crate) fn is_deleted(self) -> bool {
        self.link() == Link::Detach
    }
}

/// Name space, name and value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Content<'a> {
    pub(crate) prefix: u8,
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl Content<'_> {
    fn hash(&self) -> u32 {
        crc32(&[&[self.prefix], self.name, &[0], self.value].concat())
    }
}

/// Name space, name and value as read from flash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    pub(crate) prefix: u8,
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Stored {
    pub(crate) fn content(&self) -> Content<'_> {
        Content { prefix: self.prefix, name: &self.name, value: &self.value }
    }
}

/// A pair by the hash of its content. They are ordered by hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Hashed {
    hash: u32,
    xid: u32,
}

/// All pairs and references.
#[derive(Debug, Default)]
pub(crate) struct Xattrs {
    pub(crate) pairs: BTreeMap<u32, Pair>,
    pub(crate) references: BTreeMap<RefKey, Reference>,
    by_hash: BTreeSet<Hashed>,
    /// References written by Linux that a newer one for the same name hides. They would reappear if
    /// only the newer one were deleted.
    pub(crate) hidden: BTreeSet<RefKey>,
    highest_xid: u32,
    highest_xseqno: u32,
}

/// Returns name space, name and value of the pair at `place`.
pub(crate) fn read_pair(store: &Store, place: u32) -> Result<Stored, FsError> {
    let bytes = store.read_node(store.node(place))?;
    let at = store.flash.location(place);
    let found = decode::xattr(store.flash.order, &bytes, at).map_err(corrupted)?;
    Ok(Stored { prefix: found.prefix, name: found.name.to_vec(), value: found.value.to_vec() })
}

impl Xattrs {
    pub(crate) fn relocate(&mut self, old: NodeRef, new: u32) {
        if old.kind() == RefKind::Xattr {
            if let Some(pair) = self.pairs.get_mut(&old.owner) {
                pair.place = new;
            }
            return;
        }
        let mine = self.references.range_mut(RefKey::all_of(old.owner));
        for (_, reference) in mine.filter(|(_, reference)| reference.place == old.place()) {
            reference.place = new;
        }
    }

    /// Returns the number for the next pair.
    pub(crate) fn next_xid(&self) -> u32 {
        self.highest_xid.saturating_add(1)
    }

    /// Returns the sequence number for the next reference.
    pub(crate) fn next_xseqno(&mut self, link: Link) -> u32 {
        self.highest_xseqno = self.highest_xseqno.saturating_add(2);
        self.highest_xseqno | u32::from(link == Link::Detach)
    }

    /// Records numbers found on flash, so that they are not assigned again.
    pub(crate) fn see_xid(&mut self, xid: u32) {
        self.highest_xid = self.highest_xid.max(xid);
    }

    /// Like [`Self::see_xid`], for the sequence number of a reference.
    pub(crate) fn see_xseqno(&mut self, xseqno: u32) {
        self.highest_xseqno = self.highest_xseqno.max(xseqno & !1);
    }

    /// Returns the pairs of an inode with their numbers.
    pub(crate) fn of(&self, ino: u32) -> Vec<(u32, Pair)> {
        self.references
            .range(RefKey::all_of(ino))
            .filter(|(_, reference)| !reference.is_deleted())
            .filter_map(|(key, _)| self.pairs.get(&key.xid).map(|pair| (key.xid, *pair)))
            .collect()
    }

    /// Returns all attributes of an inode, as stored, with the numbers of their pairs.
    pub(crate) fn stored_of(&self, store: &Store, ino: u32) -> Result<Vec<(u32, Stored)>, FsError> {
        let pairs = self.of(ino).into_iter();
        pairs.map(|(xid, pair)| Ok((xid, read_pair(store, pair.place)?))).collect()
    }

    /// Returns the number of the pair that an inode has for a name.
    pub(crate) fn find_name(
        &self,
        store: &Store,
        ino: u32,
        prefix: u8,
        name: &[u8],
    ) -> Result<Option<u32>, FsError> {
        let pairs = self.stored_of(store, ino)?;
        let found = pairs.into_iter().find(|(_, pair)| pair.prefix == prefix && pair.name == name);
        Ok(found.map(|found| found.0))
    }

    /// Returns the number of an existing pair with this content.
    pub(crate) fn identical(
        &self,
        store: &Store,
        content: &Content<'_>,
    ) -> Result<Option<u32>, FsError> {
        let hash = content.hash();
        let range = Hashed { hash, xid: 0 }..=Hashed { hash, xid: u32::MAX };
        for Hashed { xid, .. } in self.by_hash.range(range) {
            let Some(pair) = self.pairs.get(xid) else { continue };
            if read_pair(store, pair.place)?.content() == *content {
                return Ok(Some(*xid));
            }
        }
        Ok(None)
    }

    /// Adds the node of a pair, which has no users yet. Returns the pair that it replaces.
    pub(crate) fn add_pair(
        &mut self,
        xid: u32,
        place: u32,
        version: u32,
        content: &Content<'_>,
    ) -> Option<Pair> {
        let hash = content.hash();
        let old = self.pairs.insert(xid, Pair { place, version, hash, users: 0 });
        if let Some(old) = old {
            self.by_hash.remove(&Hashed { hash: old.hash, xid });
        }
        self.by_hash.insert(Hashed { hash, xid });
        self.see_xid(xid);
        old
    }

    /// Forgets a pair without users; its node dies.
    pub(crate) fn drop_unused(&mut self, store: &mut Store, xid: u32) {
        if self.pairs.get(&xid).is_none_or(|pair| pair.users > 0) {
            return;
        }
        if let Some(pair) = self.pairs.remove(&xid) {
            self.by_hash.remove(&Hashed { hash: pair.hash, xid });
            store.obsolete(pair.place);
        }
    }

    /// Records a reference that was written. The node of the one it replaces dies, and so does the
    /// pair's if this was its last user.
    pub(crate) fn refer(&mut self, store: &mut Store, key: RefKey, new: Reference) {
        let old = self.references.insert(key, new);
        self.leave(store, old, key.xid);
        match new.link() {
            Link::Attach => {
                if let Some(pair) = self.pairs.get_mut(&key.xid) {
                    pair.users += 1;
                }
            }
            Link::Detach => self.drop_unused(store, key.xid),
        }
    }

    fn leave(&mut self, store: &mut Store, old: Option<Reference>, xid: u32) {
        let Some(old) = old else { return };
        store.obsolete(old.place);
        if !old.is_deleted()
            && let Some(pair) = self.pairs.get_mut(&xid)
        {
            pair.users -= 1;
        }
    }

    /// Removes the references of a deleted inode; nothing needs to be written.
    pub(crate) fn drop_inode(&mut self, store: &mut Store, ino: u32) {
        let range = self.references.range(RefKey::all_of(ino));
        let mine: Vec<RefKey> = range.map(|(key, _)| *key).collect();
        for key in mine {
            let old = self.references.remove(&key);
            self.leave(store, old, key.xid);
            self.drop_unused(store, key.xid);
        }
    }
}
