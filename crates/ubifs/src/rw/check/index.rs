//! The index of the last commit on flash, and the leaves of the index in memory (layer 15; spec:
//! ubifs-format 21.4).

use super::breaches::Breaches;
use super::{Areas, Committed};
use crate::report::leb_start;
use crate::rw::core::Core;
use crate::rw::error::{Step, at};
use crate::rw::flash::align8;
use crate::rw::nodes::Nodes;
use crate::rw::place::Place;
use crate::rw::tnc::Zbranch;
use crate::tnc::LeafError;
use eraseblock_base::Location;
use eraseblock_ubifs_format::constants::{MASTER_LEB, NodeType, master_flags};
use eraseblock_ubifs_format::{Branch, IndexNode, Key, KeyKind, decode};
use std::collections::BTreeSet;

/// What a LEB of the main area holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Index,
    Leaf,
}

/// A node to which the index in memory refers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) branch: Zbranch,
    pub(super) is_index: bool,
}

/// Positions of inode nodes in the committed index: inode, LEB, offset; by ascending number.
pub(super) type InodePlaces = Vec<(u32, Place)>;

/// An index node to be checked.
struct Pending {
    branch: Branch,
    /// Its required level; the root may have any.
    level: Option<u32>,
    /// Sequence number of its parent.
    below: u64,
    /// No key in its subtree is above this.
    most: Option<Key>,
}

/// A walk over the committed index.
struct Walk<'a> {
    areas: Areas<'a>,
    committed: &'a Committed,
    breaches: &'a mut Breaches,
    pending: Vec<Pending>,
    seen: BTreeSet<Place>,
    size: u64,
    highest: u32,
    inodes: InodePlaces,
    is_broken: bool,
}

impl Areas<'_> {
    /// Checks I1 to I3, I5 to I8, I10, Q2, M4, M8; returns `None` if a part of the index is lost.
    pub(super) fn check_committed_index(
        &self,
        committed: &Committed,
        breaches: &mut Breaches,
    ) -> Option<InodePlaces> {
        let master = &committed.master;
        // The root of such a master may have any length.
        if !committed.is_sound {
            return None;
        }
        let root = Pending { branch: master.root(), level: None, below: master.sqnum, most: None };
        let mut walk = Walk {
            areas: *self,
            committed,
            breaches,
            pending: vec![root],
            seen: BTreeSet::new(),
            size: 0,
            highest: 0,
            inodes: Vec::new(),
            is_broken: false,
        };
        while let Some(pending) = walk.pending.pop() {
            walk.node(&pending);
        }
        let Walk { size, highest, mut inodes, is_broken, .. } = walk;
        let place = leb_start(MASTER_LEB);
        if is_broken {
            return None;
        }
        if size != master.index_size {
            let message = format!("index size {}, expected {size}", master.index_size);
            breaches.add(place, "index-wrong", "I6", message);
        }
        if u64::from(highest) > master.highest_inum {
            let message = format!(
                "highest inode number {}, but there is inode {highest}",
                master.highest_inum
            );
            breaches.add(place, "index-wrong", "M8", message);
        }
        inodes.sort_unstable();
        Some(inodes)
    }
}

impl Core {
    /// Returns all nodes of the index in memory that have a place, leaves in key order.
    pub(super) fn all_nodes(&mut self) -> Step<Vec<Placed>> {
        let mut nodes = Vec::new();
        let Nodes { tnc, flash, .. } = &mut self.store.nodes;
        tnc.walk(flash, &mut |level, branch| {
            if branch.leb != 0 {
                nodes.push(Placed { branch: *branch, is_index: level.is_some() });
            }
        })?;
        Ok(nodes)
    }
}

impl Walk<'_> {
    fn read(&self, branch: &Branch) -> Result<IndexNode, LeafError> {
        let flash = self.areas.flash;
        let place = Location::Leb(branch.leb, branch.offset);
        let mut bytes = vec![0xFF; branch.len as usize];
        if branch.leb.get() < self.areas.as_found.leb_count() {
            self.areas.as_found.read(branch.leb, branch.offset, &mut bytes)?;
        }
        let node = decode::expect(&bytes, NodeType::Index, &flash.limits, place)?;
        Ok(node.index(&flash.limits, flash.main_first, flash.leb_cnt)?)
    }

    fn add(&mut self, branch: &Branch, id: &str, message: impl std::fmt::Display) {
        let place = Location::Leb(branch.leb, branch.offset);
        self.breaches.add(place, "index-wrong", id, message);
    }

    fn node(&mut self, pending: &Pending) {
        let Pending { branch, level, below, most } = pending;
        let is_root = level.is_none();
        if !self.seen.insert(Place::of(branch)) {
            self.is_broken = true;
            return self.add(branch, "I7", "an index node has two parents");
        }
        let node = match self.read(branch) {
            Ok(node) => node,
            Err(error) => {
                self.is_broken = true;
                let message = match &error {
                    LeafError::Format(error) => error.to_string(),
                    LeafError::Device(error) => error.to_string(),
                };
                return self.add(branch, if is_root { "M4, I1" } else { "I1" }, message);
            }
        };
        self.size += u64::from(align8(branch.len));
        if node.sqnum >= *below {
            let (id, parent) = if is_root { ("Q2", "master") } else { ("I5", "parent") };
            let found = node.sqnum;
            let message = format!("sequence number {found}, that of its {parent} is {below}");
            self.add(branch, id, message);
        }
        if let Some(level) = level.filter(|level| *level != node.level) {
            self.is_broken = true;
            return self.add(branch, "I2", format!("level {}, expected {level}", node.level));
        }
        let keys = (node.branches.first(), node.branches.last());
        if let (Some(first), Some(last)) = keys {
            let is_above =
                most.is_some_and(|most| last.key > most || (last.key == most && !most.is_hashed()));
            if first.key < branch.key || is_above {
                let message = format!("keys from {} to {}", first.key, last.key);
                self.is_broken |= first.key < branch.key;
                self.add(branch, "I3", format!("{message} do not belong under its parent"));
            }
        }
        self.place(branch, Kind::Index);
        self.below(&node, *most);
    }

    fn below(&mut self, node: &IndexNode, most: Option<Key>) {
        for (slot, branch) in node.branches.iter().enumerate() {
            if node.level > 0 {
                let next = node.branches.get(slot + 1).map(|next| next.key);
                self.pending.push(Pending {
                    branch: *branch,
                    level: Some(node.level - 1),
                    below: node.sqnum,
                    most: next.or(most),
                });
                continue;
            }
            self.highest = self.highest.max(branch.key.ino());
            if branch.key.kind() == Some(KeyKind::Inode) {
                self.inodes.push((branch.key.ino(), Place::of(branch)));
            }
            self.place(branch, Kind::Leaf);
        }
    }

    /// I8, I10: a node is in a LEB of its kind, before the free space.
    fn place(&mut self, branch: &Branch, kind: Kind) {
        let flash = self.areas.flash;
        let leb = branch.leb.get();
        let index = leb.wrapping_sub(flash.main_first) as usize;
        let Some(props) = self.committed.props.as_ref().and_then(|props| props.get(index)) else {
            return;
        };
        let is_kept = self.committed.master.has(master_flags::DIRTY);
        let is_index = kind == Kind::Index;
        if props.index != is_index {
            let what = if is_index { "an index node in a LEB" } else { "a leaf in an index LEB" };
            let message = format!("{what} of the other kind");
            self.add(branch, "I8", message);
        } else if branch.offset + branch.len > flash.leb_size - props.free {
            let message = format!("a node where {} bytes at the end are free", props.free);
            self.add(branch, "I10", message);
        } else if leb == self.committed.master.gc_lnum && !is_kept {
            self.add(branch, "I10", "a node in the LEB reserved for garbage collection");
        }
    }
}

/// I4, I7 and their consequences: keys ascend.
pub(super) fn check_order(nodes: &[Placed], breaches: &mut Breaches) -> BTreeSet<Place> {
    let mut twins = BTreeSet::new();
    let mut before: Option<Zbranch> = None;
    for node in nodes.iter().filter(|node| !node.is_index) {
        let this = node.branch;
        if let Some(before) = before.replace(this) {
            if before.key == this.key && this.key.is_hashed() {
                twins.insert(before.place());
                twins.insert(this.place());
            } else if before.key >= this.key {
                let message = format!("{} follows {}", this.key, before.key);
                breaches.add(at(this.leb, this.offset), "keys-disordered", "I4", message);
            }
        }
    }
    twins
}
