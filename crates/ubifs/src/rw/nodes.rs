//! Nodes by key and name: the journal they are appended to, the index that finds them, and the
//! accounting of those that are replaced (layer 6; spec: ubifs-runtime 10.6, 10.7, 10.14 to 10.16).
//!
//! # Invariants
//! 1. A node is appended to the journal before the index refers to it.
//! 2. A node that the index no longer refers to counts as dirty in its LEB.

use super::error::{Fault, Step};
use super::flash::Flash;
use super::journal::Journal;
use super::lprops::Lprops;
use super::place::Written;
use super::tnc::{Position, Tnc, Zbranch};
use super::wbuf::Head;
use crate::error::UbifsError;
use crate::tnc::check_leaf;
use eraseblock_ubifs_format::constants::sb_flags;
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::key::VALUE_MASK;
use eraseblock_ubifs_format::{Dent, Key};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The nodes on flash and in the write buffers.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) flash: Flash,
    pub(super) lprops: Lprops,
    pub(super) journal: Journal,
    pub(super) tnc: Tnc,
}

/// Whether entries that cannot be read are an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unreadable {
    /// They are.
    Fails,
    /// They are not: during replay, garbage collection may have erased the LEB of an entry that a
    /// later node of the journal deletes (spec: ubifs-runtime 10.7).
    Passes,
}

/// The position of an entry with a certain name, or where it would be inserted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolved {
    /// The entry of that name.
    pub(super) found: Option<Position>,
    /// The position for a new one.
    place: Position,
    /// An entry of the same hash that cannot be read (spec: ubifs-runtime 10.7).
    dangling: Option<Zbranch>,
}

impl Nodes {
    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.flash.memory() + self.lprops.memory() + self.journal.memory() + self.tnc.memory()
    }

    /// Writes out one write-buffer.
    pub(super) fn sync_head(&mut self, head: Head) -> Step<()> {
        self.journal.sync_head(&mut self.flash, &mut self.lprops, head)
    }

    /// Writes out all write-buffers.
    pub(super) fn sync_heads(&mut self) -> Step<()> {
        self.journal.sync_heads(&mut self.flash, &mut self.lprops)
    }

    /// Appends one node for which space was reserved to a head.
    pub(super) fn append_node(&mut self, head: Head, node: &[u8]) -> Step<Written> {
        let Self { flash, lprops, journal, .. } = self;
        let place = journal.append(flash, lprops, head, node)?;
        Ok(Written { place, len: node.len() as u32 })
    }

    /// Returns the next sequence number.
    pub(super) fn next_sqnum(&mut self) -> Step<u64> {
        self.journal.sqnums.take(&mut self.flash)
    }

    /// Returns the cookie of a new entry: any number if entries have cookies, otherwise 0 (spec:
    /// ubifs-runtime 8.4).
    pub(super) fn cookie(&self) -> u32 {
        if !self.flash.sb.has(sb_flags::DOUBLE_HASH) {
            return 0;
        }
        let next = self.journal.sqnums.highest().wrapping_add(1);
        (next.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
    }

    /// Reads the leaf of a branch into `buf` and checks it against the branch.
    pub(super) fn leaf<'a>(&self, branch: &Zbranch, buf: &'a mut Vec<u8>) -> Step<Node<'a>> {
        buf.resize(branch.len as usize, 0);
        self.journal.read_node(&self.flash, branch.place(), buf)?;
        self.check_leaf(branch, buf)
    }

    /// Checks the bytes of a leaf against its branch.
    pub(super) fn check_leaf<'a>(&self, branch: &Zbranch, bytes: &'a [u8]) -> Step<Node<'a>> {
        Ok(check_leaf(&self.flash.limits, &branch.branch(), bytes)?)
    }

    /// Returns the branch of a key that occurs once.
    pub(super) fn find(&mut self, key: Key) -> Step<Option<Zbranch>> {
        let Self { tnc, flash, .. } = self;
        Ok(tnc.find(flash, key)?.map(|position| tnc.at(position)))
    }

    /// Finds a name among the entries of its hash. During replay, unreadable entries are reported
    /// separately instead of being an error.
    pub(super) fn resolve(
        &mut self,
        key: Key,
        name: &[u8],
        unreadable: Unreadable,
    ) -> Step<Resolved> {
        Ok(self.seek(key, name, unreadable, |_| ())?.0)
    }

    /// Like [`Self::resolve`]; also returns what `take` makes of the entry.
    fn seek<T>(
        &mut self,
        key: Key,
        name: &[u8],
        unreadable: Unreadable,
        take: impl FnOnce(&Dent<'_>) -> T,
    ) -> Step<(Resolved, Option<T>)> {
        let mut place = None;
        let mut dangling = None;
        let mut next = self.tnc.first_from(&self.flash, key)?;
        let mut buf = Vec::new();
        while let Some(position) = next {
            let branch = self.tnc.at(position);
            if branch.key != key {
                break;
            }
            let entry = self.leaf(&branch, &mut buf).and_then(|node| Ok(node.dent()?));
            match entry {
                Ok(dent) => match dent.name.cmp(name) {
                    Ordering::Equal => {
                        let found = Some(position);
                        let taken = take(&dent);
                        return Ok((Resolved { found, place: position, dangling }, Some(taken)));
                    }
                    Ordering::Greater if place.is_none() => place = Some(position),
                    Ordering::Greater if unreadable == Unreadable::Fails => break,
                    Ordering::Greater => {}
                    Ordering::Less => {
                        place = None;
                    }
                },
                Err(Fault::Ubifs(UbifsError::Format(_))) if unreadable == Unreadable::Passes => {
                    dangling = dangling.or(Some(branch));
                }
                Err(fault) => return Err(fault),
            }
            next = self.tnc.next(&self.flash, position)?;
        }
        let place = match place {
            Some(place) => place,
            None => self.tnc.place_for(&self.flash, key)?,
        };
        Ok((Resolved { found: None, place, dangling }, None))
    }

    /// Returns the entry of a name.
    pub(super) fn find_entry<T>(
        &mut self,
        key: Key,
        name: &[u8],
        take: impl FnOnce(&Dent<'_>) -> T,
    ) -> Step<Option<T>> {
        Ok(self.seek(key, name, Unreadable::Fails, take)?.1)
    }

    /// Calls `sink` for the branches with keys from `from` to `to` until it returns false.
    pub(super) fn scan(
        &mut self,
        from: Key,
        to: Key,
        sink: &mut dyn FnMut(&Zbranch) -> bool,
    ) -> Step<()> {
        let mut next = self.tnc.first_from(&self.flash, from)?;
        while let Some(position) = next {
            let branch = self.tnc.at(position);
            if branch.key > to || !sink(&branch) {
                break;
            }
            next = self.tnc.next(&self.flash, position)?;
        }
        Ok(())
    }

    /// Returns whether there is any key in a range.
    pub(super) fn has_keys(&mut self, from: Key, to: Key) -> Step<bool> {
        let mut any = false;
        self.scan(from, to, &mut |_| {
            any = true;
            false
        })?;
        Ok(any)
    }

    /// Adds the node of a key that occurs once to the index; its predecessor becomes dirty.
    pub(super) fn add_leaf(&mut self, key: Key, node: Written) -> Step<()> {
        let new = Zbranch::leaf(key, node.place, node.len);
        let Self { tnc, flash, lprops, .. } = self;
        let place = tnc.place_for(flash, key)?;
        let before = place.slot.checked_sub(1).map(|slot| Position { slot, ..place });
        match before {
            Some(position) if tnc.at(position).key == key => {
                let old = tnc.at(position);
                lprops.add_dirt(flash, old.leb, old.len)?;
                tnc.replace(flash, lprops, position, new)
            }
            _ => tnc.insert(flash, lprops, place, new),
        }
    }

    /// Adds an entry to the index; the one with the same name becomes dirty.
    pub(super) fn add_entry(
        &mut self,
        key: Key,
        name: &[u8],
        node: Written,
        unreadable: Unreadable,
    ) -> Step<()> {
        let new = Zbranch::leaf(key, node.place, node.len);
        let resolved = self.resolve(key, name, unreadable)?;
        let Self { tnc, flash, lprops, .. } = self;
        if let Some(position) = resolved.found {
            let old = tnc.at(position);
            lprops.add_dirt(flash, old.leb, old.len)?;
            return tnc.replace(flash, lprops, position, new);
        }
        tnc.insert(flash, lprops, resolved.place, new)?;
        match resolved.dangling {
            Some(dangling) => self.remove_branch(&dangling),
            None => Ok(()),
        }
    }

    /// Removes an entry from the index. During replay, an unreadable entry counts as the one with
    /// this name if no other has it: it was collected after the deletion.
    pub(super) fn remove_entry(
        &mut self,
        key: Key,
        name: &[u8],
        unreadable: Unreadable,
    ) -> Step<()> {
        let resolved = self.resolve(key, name, unreadable)?;
        if let Some(position) = resolved.found {
            return self.remove_at(position);
        }
        match resolved.dangling {
            Some(dangling) => self.remove_branch(&dangling),
            None => Ok(()),
        }
    }

    fn remove_at(&mut self, position: Position) -> Step<()> {
        let Self { tnc, flash, lprops, .. } = self;
        let old = tnc.at(position);
        lprops.add_dirt(flash, old.leb, old.len)?;
        tnc.delete(flash, lprops, position)
    }

    /// Removes exactly this branch from the index.
    fn remove_branch(&mut self, branch: &Zbranch) -> Step<()> {
        match self.tnc.position_at(&self.flash, branch.key, branch.place())? {
            Some(position) => self.remove_at(position),
            None => Ok(()),
        }
    }

    /// Removes all keys of a range from the index.
    pub(super) fn remove_range(&mut self, from: Key, to: Key) -> Step<()> {
        while let Some(position) = self.tnc.first_from(&self.flash, from)? {
            if self.tnc.at(position).key > to {
                break;
            }
            self.remove_at(position)?;
        }
        Ok(())
    }

    /// Returns the branches of the xattr entries of an inode.
    fn xattr_entries(&mut self, ino: u32) -> Step<Vec<Zbranch>> {
        let mut branches = Vec::new();
        self.scan(Key::xent(ino, 0), Key::xent(ino, VALUE_MASK), &mut |branch| {
            branches.push(*branch);
            true
        })?;
        Ok(branches)
    }

    /// Returns the inodes that hold the xattrs of an inode.
    pub(super) fn xattr_inodes(&mut self, ino: u32) -> Step<Vec<u32>> {
        let entries = self.xattr_entries(ino)?;
        let mut buf = Vec::new();
        entries.iter().map(|entry| Ok(self.leaf(entry, &mut buf)?.dent()?.ino)).collect()
    }

    /// Removes everything of an inode from the index, including its xattrs (spec: ubifs-runtime
    /// 10.15).
    pub(super) fn remove_inode_keys(&mut self, ino: u32) -> Step<()> {
        for value in self.xattr_inodes(ino)? {
            self.remove_range(Key::first_of(value), Key::last_of(value))?;
        }
        self.remove_range(Key::first_of(ino), Key::last_of(ino))
    }

    /// Like [`Self::remove_inode_keys`], for the recovery at mount: unreadable entries were already
    /// deleted.
    pub(super) fn remove_dead_inode(&mut self, ino: u32) -> Step<Dead> {
        let mut dead = Dead::default();
        let mut buf = Vec::new();
        for entry in self.xattr_entries(ino)? {
            match self.leaf(&entry, &mut buf).and_then(|node| Ok(node.dent()?.ino)) {
                Ok(value) => {
                    dead.read.insert(entry.leb);
                    self.remove_range(Key::first_of(value), Key::last_of(value))?;
                    dead.values.push(value);
                }
                Err(Fault::Ubifs(UbifsError::Format(_))) => {}
                Err(fault) => return Err(fault),
            }
        }
        self.remove_range(Key::first_of(ino), Key::last_of(ino))?;
        Ok(dead)
    }

    /// Counts the bytes of a node that nothing refers to, such as a deletion, as dirty.
    pub(super) fn waste(&mut self, node: &Written) -> Step<()> {
        self.lprops.add_dirt(&self.flash, node.place.leb, node.len)
    }
}

/// The keys of a dead inode that a recovery removed.
#[derive(Debug, Default)]
pub(super) struct Dead {
    /// The inodes that held its xattrs.
    pub(super) values: Vec<u32>,
    /// The LEBs whose nodes were read for it. If the power fails before the next commit, the next
    /// mount reads them again (spec: ubifs-runtime 18.6).
    pub(super) read: BTreeSet<u32>,
}

impl Dead {
    /// Adds another inode.
    pub(super) fn extend(&mut self, mut other: Self) {
        self.values.append(&mut other.values);
        self.read.append(&mut other.read);
    }
}
