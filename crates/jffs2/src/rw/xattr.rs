//! Extended attributes: pairs of name and value, and the references of inodes to them
//! (spec: jffs2 10).
//!
//! # Invariants
//! 1. Every live XATTR node is that of a pair with references; every live XREF node is in
//!    `references`.
//! 2. A deleted reference stays alive while an older one for the same inode and pair is on flash.

use super::nodelist::{NodeRef, RefKind, RefState};
use super::nodemgmt::Alloc;
use super::state::State;
use super::summary::record_len;
use super::write::NewNode;
use crate::codes;
use eraseblock_jffs2_format::constants::XREF_LEN;
use eraseblock_jffs2_format::summary::RecordNode;
use eraseblock_jffs2_format::{Xattr, Xref, crc32, decode, encode};
use eraseblock_vfs::{FsError, FsErrorKind, XattrMode};
use std::collections::{BTreeMap, BTreeSet};

/// A pair of name and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) place: u32,
    pub(crate) version: u32,
    hash: u32,
    /// Number of live references to it.
    pub(crate) users: u32,
}

/// The newest reference of an inode to a pair, or its deletion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    pub(crate) place: u32,
    /// Odd if the reference is deleted.
    pub(crate) xseqno: u32,
}

impl Reference {
    fn is_deleted(self) -> bool {
        self.xseqno & 1 != 0
    }
}

/// All pairs and references.
#[derive(Debug, Default)]
pub(crate) struct Xattrs {
    pub(crate) pairs: BTreeMap<u32, Pair>,
    /// By inode and xid.
    pub(crate) references: BTreeMap<(u32, u32), Reference>,
    by_hash: BTreeSet<(u32, u32)>,
    /// References written by Linux that a newer one for the same name hides. They would reappear if
    /// only the newer one were deleted.
    hidden: BTreeSet<(u32, u32)>,
    highest_xid: u32,
    highest_xseqno: u32,
}

/// Name space, name and value.
pub(crate) type Stored = (u8, Vec<u8>, Vec<u8>);

fn hash(prefix: u8, name: &[u8], value: &[u8]) -> u32 {
    crc32(&[&[prefix], name, &[0], value].concat())
}

impl Xattrs {
    pub(crate) fn relocate(&mut self, old: NodeRef, new: u32) {
        if old.kind() == RefKind::Xattr {
            if let Some(pair) = self.pairs.get_mut(&old.owner) {
                pair.place = new;
            }
            return;
        }
        let mine = self.references.range_mut((old.owner, 0)..=(old.owner, u32::MAX));
        for (_, reference) in mine.filter(|(_, reference)| reference.place == old.place()) {
            reference.place = new;
        }
    }

    fn next_xseqno(&mut self) -> u32 {
        self.highest_xseqno = self.highest_xseqno.saturating_add(2);
        self.highest_xseqno
    }

    /// Returns the pairs of an inode.
    fn of(&self, ino: u32) -> Vec<(u32, Pair)> {
        self.references
            .range((ino, 0)..=(ino, u32::MAX))
            .filter(|(_, reference)| !reference.is_deleted())
            .filter_map(|((_, xid), _)| self.pairs.get(xid).map(|pair| (*xid, *pair)))
            .collect()
    }
}

impl State {
    /// Decides at mount which pairs and references are live (spec: jffs2 10, resolution).
    pub(crate) fn build_xattrs(
        &mut self,
        pairs: &[u32],
        references: &[u32],
    ) -> Result<(), FsError> {
        for place in pairs {
            self.build_pair(*place)?;
        }
        for place in references {
            self.build_reference(*place)?;
        }
        let all: Vec<((u32, u32), Reference)> =
            self.xattrs.references.iter().map(|(key, reference)| (*key, *reference)).collect();
        for ((ino, xid), reference) in all {
            let lives = self.cache(ino).is_some_and(|cache| cache.names() > 0);
            let known = reference.is_deleted() || self.xattrs.pairs.contains_key(&xid);
            if !lives || !known {
                self.xattrs.references.remove(&(ino, xid));
                self.obsolete(reference.place);
            }
        }
        self.hide_older_names()?;
        let keys: Vec<(u32, u32)> = self.xattrs.references.keys().copied().collect();
        for key in keys {
            let deleted = self.xattrs.references.get(&key).is_some_and(|one| one.is_deleted());
            if let Some(pair) = self.xattrs.pairs.get_mut(&key.1).filter(|_| !deleted) {
                pair.users += 1;
            }
        }
        let unused: Vec<u32> = self
            .xattrs
            .pairs
            .iter()
            .filter(|(_, pair)| pair.users == 0)
            .map(|(xid, _)| *xid)
            .collect();
        for xid in unused {
            self.drop_pair(xid);
        }
        Ok(())
    }

    fn build_pair(&mut self, place: u32) -> Result<(), FsError> {
        let node = self.node(place);
        let bytes = self.read_node(node)?;
        let at = self.flash.location(place);
        let found = match decode::xattr(self.flash.order, &bytes, at) {
            Ok(found) => found,
            Err(error) => {
                self.late.warn(at, codes::XATTR_DAMAGED, error.to_string());
                self.obsolete(place);
                return Ok(());
            }
        };
        let (xid, version) = (found.xid, found.version);
        let hash = hash(found.prefix, found.name, found.value);
        self.blocks.check_off(place, RefState::Normal);
        self.xattrs.highest_xid = self.xattrs.highest_xid.max(xid);
        let old = self.xattrs.pairs.get(&xid).copied();
        if let Some(old) = old {
            if old.version > version {
                self.obsolete(place);
                return Ok(());
            }
            self.xattrs.by_hash.remove(&(old.hash, xid));
            self.obsolete(old.place);
        }
        self.xattrs.by_hash.insert((hash, xid));
        self.xattrs.pairs.insert(xid, Pair { place, version, hash, users: 0 });
        Ok(())
    }

    fn build_reference(&mut self, place: u32) -> Result<(), FsError> {
        let node = self.node(place);
        let bytes = self.read_node(node)?;
        let at = self.flash.location(place);
        let found = match decode::xref(self.flash.order, &bytes, at) {
            Ok(found) => found,
            Err(error) => {
                self.late.warn(at, codes::XREF_DAMAGED, error.to_string());
                self.obsolete(place);
                return Ok(());
            }
        };
        self.blocks.set_owner(place, found.ino);
        self.blocks.check_off(place, RefState::Normal);
        let seen = found.xseqno & !1;
        self.xattrs.highest_xseqno = self.xattrs.highest_xseqno.max(seen);
        let key = (found.ino, found.xid);
        let old = self.xattrs.references.get(&key).copied();
        if let Some(old) = old {
            if old.xseqno > found.xseqno {
                self.obsolete(place);
                return Ok(());
            }
            self.obsolete(old.place);
        }
        self.xattrs.references.insert(key, Reference { place, xseqno: found.xseqno });
        Ok(())
    }

    /// Hides the older one of two references for one name of an inode.
    fn hide_older_names(&mut self) -> Result<(), FsError> {
        let mut inodes: Vec<u32> = self.xattrs.references.keys().map(|key| key.0).collect();
        inodes.dedup();
        for ino in inodes {
            let mut newest: BTreeMap<(u8, Vec<u8>), (u32, u32)> = BTreeMap::new();
            let pairs = self.xattrs.of(ino);
            if pairs.len() < 2 {
                continue;
            }
            for (xid, pair) in pairs {
                let (prefix, name, _) = match self.read_pair(pair.place) {
                    Ok(stored) => stored,
                    Err(error) if error.kind() == FsErrorKind::Corrupted => continue,
                    Err(error) => return Err(error),
                };
                let xseqno = self.xattrs.references.get(&(ino, xid)).map_or(0, |one| one.xseqno);
                let loser = match newest.insert((prefix, name.clone()), (xseqno, xid)) {
                    Some(old) if old.0 > xseqno => {
                        newest.insert((prefix, name), old);
                        Some(xid)
                    }
                    old => old.map(|old| old.1),
                };
                if let Some(loser) = loser
                    && let Some(gone) = self.xattrs.references.remove(&(ino, loser))
                {
                    self.xattrs.hidden.insert((ino, loser));
                    self.obsolete(gone.place);
                }
            }
        }
        Ok(())
    }

    fn drop_pair(&mut self, xid: u32) {
        if let Some(pair) = self.xattrs.pairs.remove(&xid) {
            self.xattrs.by_hash.remove(&(pair.hash, xid));
            self.obsolete(pair.place);
        }
    }

    /// Returns name space, name and value of the pair at `place`.
    pub(crate) fn read_pair(&self, place: u32) -> Result<Stored, FsError> {
        let bytes = self.read_node(self.node(place))?;
        let at = self.flash.location(place);
        let found = decode::xattr(self.flash.order, &bytes, at)
            .map_err(|error| FsError::from_source(FsErrorKind::Corrupted, error))?;
        Ok((found.prefix, found.name.to_vec(), found.value.to_vec()))
    }

    /// Returns all attributes of an inode, as stored.
    pub(crate) fn pairs_of(&self, ino: u32) -> Result<Vec<(u32, Stored)>, FsError> {
        let pairs = self.xattrs.of(ino).into_iter();
        pairs.map(|(xid, pair)| Ok((xid, self.read_pair(pair.place)?))).collect()
    }

    fn find_name(&self, ino: u32, prefix: u8, name: &[u8]) -> Result<Option<u32>, FsError> {
        let pairs = self.pairs_of(ino)?;
        let found = pairs.into_iter().find(|(_, pair)| pair.0 == prefix && pair.1 == name);
        Ok(found.map(|found| found.0))
    }

    /// Sets an attribute (spec: jffs2 10).
    pub(crate) fn put_xattr(
        &mut self,
        ino: u32,
        prefix: u8,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), FsError> {
        let old = self.find_name(ino, prefix, name)?;
        match (mode, old) {
            (XattrMode::Create, Some(_)) => {
                return Err(FsError::new(FsErrorKind::Exists, "the attribute exists"));
            }
            (XattrMode::Replace, None) => {
                return Err(FsError::new(FsErrorKind::NoAttribute, "no such attribute"));
            }
            _ => {}
        }
        let xid = match self.identical(prefix, name, value)? {
            Some(xid) if old == Some(xid) => return Ok(()),
            Some(xid) => xid,
            None => self.put_pair(prefix, name, value)?,
        };
        let done = self.put_reference(ino, xid, false);
        if done.is_err() {
            if self.xattrs.pairs.get(&xid).is_some_and(|pair| pair.users == 0) {
                self.drop_pair(xid);
            }
            return done;
        }
        match old {
            Some(old) => self.put_reference(ino, old, true),
            None => Ok(()),
        }
    }

    /// Removes an attribute.
    pub(crate) fn delete_xattr(
        &mut self,
        ino: u32,
        prefix: u8,
        name: &[u8],
    ) -> Result<(), FsError> {
        let missing = || FsError::new(FsErrorKind::NoAttribute, "no such attribute");
        let xid = self.find_name(ino, prefix, name)?.ok_or_else(missing)?;
        let hidden: Vec<(u32, u32)> =
            self.xattrs.hidden.range((ino, 0)..=(ino, u32::MAX)).copied().collect();
        for key in hidden {
            self.put_reference(ino, key.1, true)?;
            self.xattrs.hidden.remove(&key);
        }
        self.put_reference(ino, xid, true)
    }

    fn identical(&self, prefix: u8, name: &[u8], value: &[u8]) -> Result<Option<u32>, FsError> {
        let hash = hash(prefix, name, value);
        for (_, xid) in self.xattrs.by_hash.range((hash, 0)..=(hash, u32::MAX)) {
            let Some(pair) = self.xattrs.pairs.get(xid) else { continue };
            let found = self.read_pair(pair.place)?;
            if (found.0, &*found.1, &*found.2) == (prefix, name, value) {
                return Ok(Some(*xid));
            }
        }
        Ok(None)
    }

    fn put_pair(&mut self, prefix: u8, name: &[u8], value: &[u8]) -> Result<u32, FsError> {
        let xid = self.xattrs.highest_xid.saturating_add(1);
        let place = self.put_xattr_node(xid, 1, (prefix, name, value), Alloc::Normal)?;
        self.xattrs.highest_xid = xid;
        let hash = hash(prefix, name, value);
        self.xattrs.by_hash.insert((hash, xid));
        self.xattrs.pairs.insert(xid, Pair { place, version: 1, hash, users: 0 });
        Ok(xid)
    }

    fn put_xattr_node(
        &mut self,
        xid: u32,
        version: u32,
        (prefix, name, value): (u8, &[u8], &[u8]),
        alloc: Alloc,
    ) -> Result<u32, FsError> {
        let len = encode::xattr_len(name.len(), value.len());
        self.reserve(len, alloc, record_len(RefKind::Xattr, 0))?;
        let mut bytes = Vec::with_capacity(len as usize);
        let node = Xattr { xid, version, prefix, name, value };
        encode::xattr(self.flash.order, &node, &mut bytes);
        let record = Some((RecordNode::Xattr { xid, version }, len));
        let state = RefState::Normal;
        self.put(&NewNode { kind: RefKind::Xattr, owner: xid, state, record, bytes: &bytes })
    }

    /// Writes a reference of an inode to a pair, or its deletion.
    fn put_reference(&mut self, ino: u32, xid: u32, delete: bool) -> Result<(), FsError> {
        let alloc = if delete { Alloc::Deletion } else { Alloc::Normal };
        self.reserve(XREF_LEN, alloc, record_len(RefKind::Xref, 0))?;
        let xseqno = self.xattrs.next_xseqno() | u32::from(delete);
        let place = self.put_xref_node(ino, xid, xseqno)?;
        let old = self.xattrs.references.insert((ino, xid), Reference { place, xseqno });
        self.leave_pair(old, xid);
        if let Some(pair) = self.xattrs.pairs.get_mut(&xid).filter(|_| !delete) {
            pair.users += 1;
        } else if self.xattrs.pairs.get(&xid).is_some_and(|pair| pair.users == 0) {
            self.drop_pair(xid);
        }
        Ok(())
    }

    fn put_xref_node(&mut self, ino: u32, xid: u32, xseqno: u32) -> Result<u32, FsError> {
        let mut bytes = Vec::with_capacity(XREF_LEN as usize);
        encode::xref(self.flash.order, &Xref { ino, xid, xseqno }, &mut bytes);
        let record = Some((RecordNode::Xref, XREF_LEN));
        let state = RefState::Normal;
        self.put(&NewNode { kind: RefKind::Xref, owner: ino, state, record, bytes: &bytes })
    }

    fn leave_pair(&mut self, old: Option<Reference>, xid: u32) {
        let Some(old) = old else { return };
        self.obsolete(old.place);
        if let Some(pair) = self.xattrs.pairs.get_mut(&xid).filter(|_| !old.is_deleted()) {
            pair.users -= 1;
        }
    }

    /// Removes the references of a deleted inode; nothing needs to be written.
    pub(crate) fn drop_xattrs(&mut self, ino: u32) {
        let mine: Vec<u32> = self
            .xattrs
            .references
            .range((ino, 0)..=(ino, u32::MAX))
            .map(|(key, _)| key.1)
            .collect();
        for xid in mine {
            let old = self.xattrs.references.remove(&(ino, xid));
            self.leave_pair(old, xid);
            if self.xattrs.pairs.get(&xid).is_some_and(|pair| pair.users == 0) {
                self.drop_pair(xid);
            }
        }
    }

    /// Collects an XATTR node (spec: jffs2 10).
    pub(crate) fn collect_pair(&mut self, node: NodeRef) -> Result<(), FsError> {
        let (prefix, name, value) = self.read_pair(node.place())?;
        let Some(pair) = self.xattrs.pairs.get(&node.owner).copied() else {
            self.obsolete(node.place());
            return Ok(());
        };
        let version = pair.version.saturating_add(1);
        let content = (prefix, &*name, &*value);
        let place = self.put_xattr_node(node.owner, version, content, Alloc::Collection)?;
        if let Some(pair) = self.xattrs.pairs.get_mut(&node.owner) {
            pair.place = place;
            pair.version = version;
        }
        self.obsolete(node.place());
        Ok(())
    }

    /// Collects an XREF node; drops a deleted reference if no older node of it is left.
    pub(crate) fn collect_reference(&mut self, node: NodeRef) -> Result<(), FsError> {
        let mine = self.xattrs.references.range((node.owner, 0)..=(node.owner, u32::MAX));
        let found = mine.map(|(key, one)| (*key, *one)).find(|(_, one)| one.place == node.place());
        let Some((key, reference)) = found else {
            self.obsolete(node.place());
            return Ok(());
        };
        if reference.is_deleted() && !self.is_still_on_flash(key)? {
            self.xattrs.references.remove(&key);
            self.obsolete(node.place());
            return Ok(());
        }
        self.reserve(XREF_LEN, Alloc::Collection, record_len(RefKind::Xref, 0))?;
        let xseqno = self.xattrs.next_xseqno() | reference.xseqno & 1;
        let place = self.put_xref_node(key.0, key.1, xseqno)?;
        self.xattrs.references.insert(key, Reference { place, xseqno });
        self.obsolete(node.place());
        Ok(())
    }

    /// Returns whether a scan can still find a dead reference of the inode to the pair: in another
    /// block, or in the same one while it is being erased.
    fn is_still_on_flash(&self, key: (u32, u32)) -> Result<bool, FsError> {
        for (block, entry) in self.blocks.iter() {
            let dead = entry.refs.iter().filter(|node| {
                node.kind() == RefKind::Xref && node.owner == key.0 && !node.is_live()
            });
            for node in dead {
                let bytes = self.read_node(*node)?;
                let at = self.flash.location(block * self.flash.block);
                if let Ok(xref) = decode::xref(self.flash.order, &bytes, at)
                    && xref.xid == key.1
                    && xref.xseqno & 1 == 0
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
