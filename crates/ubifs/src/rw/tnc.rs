//! The index in memory: a tree of znodes loaded on demand (spec: ubifs-runtime 10).
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
mod search;

use super::error::{Fault, Step, at};
use super::flash::{Flash, align8};
use super::lprops::Lprops;
use eraseblock_base::Leb;
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::{Branch, Expected, FormatError, Key, decode};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// No znode.
pub(super) const NONE: u32 = u32::MAX;

/// A znode by its place in the arena.
pub(super) type ZnodeId = u32;

/// A leaf's branch: znode of level 0 and slot in it.
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
    child: ZnodeId,
}

impl Zbranch {
    /// Returns a leaf.
    pub(super) fn leaf(key: Key, leb: u32, offset: u32, len: u32) -> Self {
        Self { key, leb, offset, len, child: NONE }
    }

    /// Returns the branch in the type of the format crate.
    pub(super) fn branch(&self) -> Branch {
        let Self { key, leb, offset, len, .. } = *self;
        Branch { key, leb: Leb::new(leb), offset, len }
    }

    fn is_at(&self, leb: u32, offset: u32) -> bool {
        (self.leb, self.offset) == (leb, offset)
    }
}

#[derive(Debug)]
struct Znode {
    parent: ZnodeId,
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
    pub(super) old: BTreeSet<(u32, u32)>,
    /// The position at which the next memory sweep begins.
    hand: usize,
}

impl Tnc {
    pub(super) fn new(root: Branch, index_size: u64) -> Self {
        let root = Zbranch::leaf(root.key, root.leb.get(), root.offset, root.len);
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
            self.nodes[id as usize] = znode;
            return id;
        }
        self.nodes.push(znode);
        self.nodes.len() as u32 - 1
    }

    fn drop_node(&mut self, id: ZnodeId) {
        let node = &mut self.nodes[id as usize];
        if std::mem::take(&mut node.dirty) {
            self.dirty_count -= 1;
        }
        node.parent = NONE;
        node.branches = Vec::new();
        self.free.push(id);
    }

    /// Returns the branches of a znode.
    pub(super) fn branches(&self, id: ZnodeId) -> &[Zbranch] {
        &self.nodes[id as usize].branches
    }

    /// Returns the branch at a position.
    pub(super) fn at(&self, position: Position) -> Zbranch {
        self.nodes[position.znode as usize].branches[position.slot]
    }

    fn slot_in_parent(&self, id: ZnodeId) -> usize {
        let parent = self.nodes[id as usize].parent;
        let branches = &self.nodes[parent as usize].branches;
        branches.iter().position(|branch| branch.child == id).expect("a child is in its parent")
    }

    /// Returns the branch that leads to a znode.
    fn branch_to(&mut self, id: ZnodeId) -> &mut Zbranch {
        let parent = self.nodes[id as usize].parent;
        if parent == NONE {
            return &mut self.root;
        }
        let slot = self.slot_in_parent(id);
        &mut self.nodes[parent as usize].branches[slot]
    }

    /// Returns the root, loaded.
    pub(super) fn root_node(&mut self, flash: &Flash) -> Step<ZnodeId> {
        if self.root.child == NONE {
            let branch = self.root;
            self.root.child = self.load(flash, &branch, NONE, None)?;
        }
        Ok(self.root.child)
    }

    /// Returns the child of a branch, loaded.
    fn child(&mut self, flash: &Flash, id: ZnodeId, slot: usize) -> Step<ZnodeId> {
        let branch = self.nodes[id as usize].branches[slot];
        if branch.child != NONE {
            self.nodes[branch.child as usize].touch();
            return Ok(branch.child);
        }
        let level = self.nodes[id as usize].level;
        let child = self.load(flash, &branch, id, Some(level - 1))?;
        self.nodes[id as usize].branches[slot].child = child;
        Ok(child)
    }

    fn load(
        &mut self,
        flash: &Flash,
        branch: &Zbranch,
        parent: ZnodeId,
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
        let zbranch = |b: &Branch| Zbranch::leaf(b.key, b.leb.get(), b.offset, b.len);
        Ok(self.add_node(Znode {
            parent,
            level: index.level,
            dirty: false,
            used: true.into(),
            branches: index.branches.iter().map(zbranch).collect(),
        }))
    }

    /// Marks a znode and its ancestors dirty.
    pub(super) fn dirty(&mut self, flash: &Flash, lprops: &mut Lprops, id: ZnodeId) -> Step<()> {
        let mut id = id;
        while id != NONE && !self.nodes[id as usize].dirty {
            self.nodes[id as usize].dirty = true;
            self.dirty_count += 1;
            let branch = self.branch_to(id);
            let (leb, offset, len) = (branch.leb, branch.offset, branch.len);
            branch.leb = 0;
            branch.offset = 0;
            if leb != 0 {
                self.old.insert((leb, offset));
                self.index_size = self.index_size.saturating_sub(align8(len).into());
                lprops.add_dirt(flash, leb, len)?;
            }
            id = self.nodes[id as usize].parent;
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
        sink(Some(self.nodes[root as usize].level), &self.root);
        self.walk_below(flash, root, sink)
    }

    fn walk_below(
        &mut self,
        flash: &Flash,
        id: ZnodeId,
        sink: &mut dyn FnMut(Option<u32>, &Zbranch),
    ) -> Step<()> {
        let level = self.nodes[id as usize].level;
        for slot in 0..self.nodes[id as usize].branches.len() {
            let below = level.checked_sub(1);
            sink(below, &self.nodes[id as usize].branches[slot]);
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
        if self.root.child != NONE {
            self.collect_dirty(self.root.child, &mut order);
        }
        order
    }

    fn collect_dirty(&self, id: ZnodeId, order: &mut Vec<ZnodeId>) {
        let node = &self.nodes[id as usize];
        if !node.dirty {
            return;
        }
        if node.level > 0 {
            for branch in &node.branches {
                if branch.child != NONE {
                    self.collect_dirty(branch.child, order);
                }
            }
        }
        order.push(id);
    }

    /// Returns level and branches of a znode about to be written.
    pub(super) fn content(&self, id: ZnodeId) -> (u32, &[Zbranch]) {
        let node = &self.nodes[id as usize];
        (node.level, &node.branches)
    }

    /// Records that a dirty znode was written: it is clean, and has this place.
    pub(super) fn written(&mut self, id: ZnodeId, leb: u32, offset: u32, len: u32) {
        let node = &mut self.nodes[id as usize];
        if std::mem::take(&mut node.dirty) {
            self.dirty_count -= 1;
        }
        let branch = self.branch_to(id);
        (branch.leb, branch.offset, branch.len) = (leb, offset, len);
        self.index_size += u64::from(align8(len));
    }

    /// Drops clean znodes without loaded children until at most `most` are loaded. Earlier
    /// positions become invalid.
    pub(super) fn shrink(&mut self, most: usize) {
        let mut left = 2 * self.nodes.len();
        while self.nodes.len() - self.free.len() > most && left > 0 {
            left -= 1;
            self.hand = (self.hand + 1) % self.nodes.len();
            let id = self.hand as ZnodeId;
            let node = &mut self.nodes[self.hand];
            let idle = !node.dirty
                && !node.branches.is_empty()
                && !std::mem::take(node.used.get_mut())
                && (node.level == 0 || node.branches.iter().all(|branch| branch.child == NONE));
            if idle {
                self.branch_to(id).child = NONE;
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
            + self.old.len() * size_of::<(u32, u32)>()
    }

    /// Returns the number of loaded znodes.
    pub(super) fn loaded(&self) -> usize {
        self.nodes.len() - self.free.len()
    }
}
