//! The index in memory: a tree of znodes loaded on demand (layer 5; spec: ubifs-runtime 10).
//!
//! Nothing else runs during a commit, so there is no copy-on-write: a znode is either clean, the
//! same as on flash, or dirty.
//!
//! # Invariants
//! 1. A dirty znode has dirty ancestors and no place on flash; its old copy is counted as dirty
//!    bytes and stays in `old` until the next commit is complete, because it is still part of the
//!    committed index.
//! 2. Branch keys ascend in a znode; equal ones are entries with different names in name order. A
//!    branch's key is not above the first key of its child.
//! 3. `index_size` is the size of all clean nodes: after a commit, of the index.

mod edit;
#[cfg(debug_assertions)]
mod invariants;
mod search;
#[cfg(test)]
mod tests;

use super::error::{Fault, Step, at};
use super::flash::{Flash, align8};
use super::lprops::Lprops;
use super::place::{Place, Written};
use eraseblock_base::Leb;
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::{Branch, Expected, FormatError, Key, decode};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};

/// A znode by its place in the arena, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ZnodeId(NonZeroU32);

impl ZnodeId {
    fn new(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index as u32))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A branch by its znode and the slot in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    pub(super) znode: ZnodeId,
    pub(super) slot: usize,
}

/// A branch; `leb` 0 is no place on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Zbranch {
    pub(super) key: Key,
    pub(super) leb: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
    child: Option<ZnodeId>,
}

impl Zbranch {
    /// Returns a leaf.
    pub(super) fn leaf(key: Key, place: Place, len: u32) -> Self {
        Self { key, leb: place.leb, offset: place.offset, len, child: None }
    }

    /// Returns the place of the node.
    pub(super) fn place(&self) -> Place {
        Place { leb: self.leb, offset: self.offset }
    }

    /// Returns the branch in the type of the format crate.
    pub(super) fn branch(&self) -> Branch {
        let Self { key, leb, offset, len, .. } = *self;
        Branch { key, leb: Leb::new(leb), offset, len }
    }

    /// Converts a branch of an index node.
    fn of(branch: &Branch) -> Self {
        Self::leaf(branch.key, Place::of(branch), branch.len)
    }
}

/// An index node in a LEB that is scanned.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScannedNode {
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) level: u32,
    pub(super) first_key: Key,
}

/// Returns the index nodes of a LEB; fails if its content is damaged.
pub(super) fn scan_leb(flash: &Flash, leb: u32, bytes: &[u8]) -> Step<Vec<ScannedNode>> {
    let mut scanner = Scanner::new(Leb::new(leb), bytes, 0, flash.limits);
    let mut found = Vec::new();
    for (offset, node) in scanner.by_ref() {
        let index = node.index(&flash.limits, flash.main_first, flash.leb_cnt)?;
        let first_key = index.branches.first().map_or(Key::MIN, |branch| branch.key);
        found.push(ScannedNode { offset, len: node.header.len, level: index.level, first_key });
    }
    match scanner.strict_error(flash.min_io) {
        None => Ok(found),
        Some(error) => Err(error.into()),
    }
}

#[derive(Debug)]
struct Znode {
    parent: Option<ZnodeId>,
    level: u32,
    dirty: bool,
    /// Used since the last sweep.
    used: AtomicBool,
    branches: Vec<Zbranch>,
}

impl Znode {
    /// Keeps it in memory until the sweep after next.
    fn touch(&self) {
        self.used.store(true, Ordering::Relaxed);
    }
}

/// The index.
#[derive(Debug)]
pub(super) struct Tnc {
    nodes: Vec<Znode>,
    free: Vec<ZnodeId>,
    /// The branch to the root.
    pub(super) root: Zbranch,
    pub(super) dirty_count: usize,
    pub(super) index_size: u64,
    /// Nodes of the committed index that the tree no longer contains.
    pub(super) old: BTreeSet<Place>,
    /// The position at which the next memory sweep begins.
    hand: usize,
}

impl Tnc {
    pub(super) fn new(root: Branch, index_size: u64) -> Self {
        let root = Zbranch::of(&root);
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            root,
            dirty_count: 0,
            index_size,
            old: BTreeSet::new(),
            hand: 0,
        }
    }

    /// Returns whether anything waits for a commit.
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty_count > 0
    }

    fn add_node(&mut self, znode: Znode) -> ZnodeId {
        if let Some(id) = self.free.pop() {
            self.nodes[id.index()] = znode;
            return id;
        }
        self.nodes.push(znode);
        ZnodeId::new(self.nodes.len() - 1)
    }

    fn drop_node(&mut self, id: ZnodeId) {
        let node = &mut self.nodes[id.index()];
        if std::mem::take(&mut node.dirty) {
            self.dirty_count -= 1;
        }
        node.parent = None;
        node.branches = Vec::new();
        self.free.push(id);
    }

    /// Returns the branches of a znode.
    pub(super) fn branches(&self, id: ZnodeId) -> &[Zbranch] {
        &self.nodes[id.index()].branches
    }

    /// Returns the branch at a position.
    pub(super) fn at(&self, position: Position) -> Zbranch {
        self.nodes[position.znode.index()].branches[position.slot]
    }

    /// Returns the position of the branch that leads to a znode; nothing for the root.
    fn above(&self, id: ZnodeId) -> Option<Position> {
        let znode = self.nodes[id.index()].parent?;
        let branches = &self.nodes[znode.index()].branches;
        let slot = branches.iter().position(|branch| branch.child == Some(id));
        Some(Position { znode, slot: slot.expect("a child is in its parent") })
    }

    /// Returns the branch that leads to a znode.
    fn branch_to(&mut self, id: ZnodeId) -> &mut Zbranch {
        match self.above(id) {
            None => &mut self.root,
            Some(Position { znode, slot }) => &mut self.nodes[znode.index()].branches[slot],
        }
    }

    /// Returns the root, loaded.
    pub(super) fn root_node(&mut self, flash: &Flash) -> Step<ZnodeId> {
        if let Some(root) = self.root.child {
            return Ok(root);
        }
        let branch = self.root;
        let root = self.load(flash, &branch, None, None)?;
        self.root.child = Some(root);
        Ok(root)
    }

    /// Returns the child of a branch, loaded.
    fn child(&mut self, flash: &Flash, id: ZnodeId, slot: usize) -> Step<ZnodeId> {
        let branch = self.nodes[id.index()].branches[slot];
        if let Some(child) = branch.child {
            self.nodes[child.index()].touch();
            return Ok(child);
        }
        let level = self.nodes[id.index()].level;
        let child = self.load(flash, &branch, Some(id), Some(level - 1))?;
        self.nodes[id.index()].branches[slot].child = Some(child);
        Ok(child)
    }

    fn load(
        &mut self,
        flash: &Flash,
        branch: &Zbranch,
        parent: Option<ZnodeId>,
        level: Option<u32>,
    ) -> Step<ZnodeId> {
        let place = at(branch.leb, branch.offset);
        let mut bytes = vec![0; branch.len as usize];
        flash.read_near(branch.leb, branch.offset, &mut bytes)?;
        let node = decode::expect(&bytes, NodeType::Index, &flash.limits, place)?;
        let index = node.index(&flash.limits, flash.main_first, flash.leb_cnt)?;
        let wrong_level = level.is_some_and(|level| level != index.level);
        if wrong_level || index.branches.first().is_some_and(|first| first.key < branch.key) {
            return Err(Fault::from(FormatError::Field {
                at: place,
                what: NodeType::Index,
                field: "level",
                found: index.level.into(),
                expected: Expected::Words("what its parent says"),
            }));
        }
        Ok(self.add_node(Znode {
            parent,
            level: index.level,
            dirty: false,
            used: true.into(),
            branches: index.branches.iter().map(Zbranch::of).collect(),
        }))
    }

    /// Marks a znode and its ancestors dirty.
    pub(super) fn dirty(&mut self, flash: &Flash, lprops: &mut Lprops, id: ZnodeId) -> Step<()> {
        let mut next = Some(id);
        while let Some(id) = next
            && !self.nodes[id.index()].dirty
        {
            self.nodes[id.index()].dirty = true;
            self.dirty_count += 1;
            let branch = self.branch_to(id);
            let (place, len) = (branch.place(), branch.len);
            (branch.leb, branch.offset) = (0, 0);
            debug_assert!(place.leb != 0, "a clean znode without a place");
            self.old.insert(place);
            self.index_size = self.index_size.saturating_sub(align8(len).into());
            lprops.add_dirt(flash, place.leb, len)?;
            next = self.nodes[id.index()].parent;
        }
        Ok(())
    }

    /// Calls `sink` for every branch: with the level of the index node it refers to, or without one
    /// for a leaf. Loads everything on the way.
    pub(super) fn walk(
        &mut self,
        flash: &Flash,
        sink: &mut dyn FnMut(Option<u32>, &Zbranch),
    ) -> Step<()> {
        let root = self.root_node(flash)?;
        sink(Some(self.nodes[root.index()].level), &self.root);
        self.walk_below(flash, root, sink)
    }

    fn walk_below(
        &mut self,
        flash: &Flash,
        id: ZnodeId,
        sink: &mut dyn FnMut(Option<u32>, &Zbranch),
    ) -> Step<()> {
        let level = self.nodes[id.index()].level;
        for slot in 0..self.nodes[id.index()].branches.len() {
            let below = level.checked_sub(1);
            sink(below, &self.nodes[id.index()].branches[slot]);
            if below.is_some() {
                let child = self.child(flash, id, slot)?;
                self.walk_below(flash, child, sink)?;
            }
        }
        Ok(())
    }

    /// Returns dirty znodes, children before parents, from left to right.
    pub(super) fn dirty_in_order(&self) -> Vec<ZnodeId> {
        let mut order = Vec::with_capacity(self.dirty_count);
        if let Some(root) = self.root.child {
            self.collect_dirty(root, &mut order);
        }
        order
    }

    fn collect_dirty(&self, id: ZnodeId, order: &mut Vec<ZnodeId>) {
        let node = &self.nodes[id.index()];
        if !node.dirty {
            return;
        }
        if node.level > 0 {
            for child in node.branches.iter().filter_map(|branch| branch.child) {
                self.collect_dirty(child, order);
            }
        }
        order.push(id);
    }

    /// Returns level and branches of a znode about to be written.
    pub(super) fn content(&self, id: ZnodeId) -> (u32, &[Zbranch]) {
        let node = &self.nodes[id.index()];
        (node.level, &node.branches)
    }

    /// Records that a dirty znode was written: it is clean, and has this place.
    pub(super) fn written(&mut self, id: ZnodeId, Written { place, len }: Written) {
        let node = &mut self.nodes[id.index()];
        debug_assert!(
            node.branches.iter().all(|branch| branch.leb != 0),
            "{node:?} before a child"
        );
        if std::mem::take(&mut node.dirty) {
            self.dirty_count -= 1;
        }
        let branch = self.branch_to(id);
        (branch.leb, branch.offset, branch.len) = (place.leb, place.offset, len);
        self.index_size += u64::from(align8(len));
    }

    /// Drops clean znodes without loaded children until at most `most` are loaded. Earlier
    /// positions become invalid.
    pub(super) fn shrink(&mut self, most: usize) {
        let mut left = 2 * self.nodes.len();
        while self.nodes.len() - self.free.len() > most && left > 0 {
            left -= 1;
            self.hand = (self.hand + 1) % self.nodes.len();
            let id = ZnodeId::new(self.hand);
            let node = &mut self.nodes[self.hand];
            let idle = !node.dirty
                && !node.branches.is_empty()
                && !std::mem::take(node.used.get_mut())
                && (node.level == 0 || node.branches.iter().all(|branch| branch.child.is_none()));
            if idle {
                self.branch_to(id).child = None;
                self.drop_node(id);
            }
        }
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let branches: usize = self.nodes.iter().map(|node| node.branches.capacity()).sum();
        self.nodes.capacity() * size_of::<Znode>()
            + branches * size_of::<Zbranch>()
            + self.free.capacity() * size_of::<ZnodeId>()
            + size_of_val(&self.old)
            + self.old.len() * size_of::<Place>()
    }

    /// Returns the number of loaded znodes.
    pub(super) fn loaded(&self) -> usize {
        self.nodes.len() - self.free.len()
    }
}
