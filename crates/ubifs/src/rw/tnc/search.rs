//! Finds leaves and index nodes (layer 5; spec: ubifs-runtime 10.4, 10.5).

use super::{Position, Tnc, Zbranch, ZnodeId};
use crate::rw::error::Step;
use crate::rw::flash::Flash;
use crate::rw::place::Place;
use crate::rw::tnc::ScannedNode;
use eraseblock_ubifs_format::Key;
use std::ops::ControlFlow;

impl Tnc {
    /// Returns the leaf znode for `key`, after all keys that are not above it, and the slot for a
    /// new branch with that key.
    pub(in crate::rw) fn place_for(&mut self, flash: &Flash, key: Key) -> Step<Position> {
        let mut id = self.root_node(flash)?;
        loop {
            let node = &self.nodes[id.index()];
            node.touch();
            let slot = node.branches.partition_point(|branch| branch.key <= key);
            if node.level == 0 {
                return Ok(Position { znode: id, slot });
            }
            id = self.child(flash, id, slot.saturating_sub(1))?;
        }
    }

    /// Returns the leaf of a key that occurs once.
    pub(in crate::rw) fn find(&mut self, flash: &Flash, key: Key) -> Step<Option<Position>> {
        let Position { znode, slot } = self.place_for(flash, key)?;
        let Some(slot) = slot.checked_sub(1) else { return Ok(None) };
        let found = self.nodes[znode.index()].branches[slot].key == key;
        Ok(found.then_some(Position { znode, slot }))
    }

    /// Returns the first leaf whose key is `key` or above it.
    pub(in crate::rw) fn first_from(&mut self, flash: &Flash, key: Key) -> Step<Option<Position>> {
        let mut id = self.root_node(flash)?;
        loop {
            let node = &self.nodes[id.index()];
            node.touch();
            let slot = node.branches.partition_point(|branch| branch.key < key);
            if node.level > 0 {
                id = self.child(flash, id, slot.saturating_sub(1))?;
                continue;
            }
            if slot < node.branches.len() {
                return Ok(Some(Position { znode: id, slot }));
            }
            return self.next_leaf(flash, id);
        }
    }

    /// Returns the leaf after a position.
    pub(in crate::rw) fn next(
        &mut self,
        flash: &Flash,
        position: Position,
    ) -> Step<Option<Position>> {
        let Position { znode, slot } = position;
        if slot + 1 < self.nodes[znode.index()].branches.len() {
            return Ok(Some(Position { znode, slot: slot + 1 }));
        }
        self.next_leaf(flash, znode)
    }

    /// Returns the first leaf of the znode to the right.
    fn next_leaf(&mut self, flash: &Flash, id: ZnodeId) -> Step<Option<Position>> {
        let mut id = id;
        loop {
            let Some(Position { znode: parent, slot }) = self.above(id) else { return Ok(None) };
            let slot = slot + 1;
            if slot < self.nodes[parent.index()].branches.len() {
                id = self.child(flash, parent, slot)?;
                break;
            }
            id = parent;
        }
        while self.nodes[id.index()].level > 0 {
            id = self.child(flash, id, 0)?;
        }
        Ok(Some(Position { znode: id, slot: 0 }))
    }

    /// Calls `sink` for the branches with keys from `from` to `to` until it returns false, while
    /// all znodes on the way are in memory; returns whether they were.
    pub(in crate::rw) fn scan_loaded(
        &self,
        from: Key,
        to: Key,
        sink: &mut dyn FnMut(&Zbranch) -> bool,
    ) -> bool {
        let root = self.root.child;
        root.is_some_and(|root| self.scan_below(root, from, to, sink).break_value().unwrap_or(true))
    }

    /// Breaks at the end, with whether all znodes so far were in memory.
    fn scan_below(
        &self,
        id: ZnodeId,
        from: Key,
        to: Key,
        sink: &mut dyn FnMut(&Zbranch) -> bool,
    ) -> ControlFlow<bool> {
        let node = &self.nodes[id.index()];
        node.touch();
        let first = node.branches.partition_point(|branch| branch.key < from);
        if node.level == 0 {
            for branch in &node.branches[first..] {
                if branch.key > to || !sink(branch) {
                    return ControlFlow::Break(true);
                }
            }
            return ControlFlow::Continue(());
        }
        // The first key of the previous child is below, its last one may not be.
        let first = first.saturating_sub(1);
        for (at, branch) in node.branches.iter().enumerate().skip(first) {
            if at > first && branch.key > to {
                return ControlFlow::Break(true);
            }
            let Some(child) = branch.child else { return ControlFlow::Break(false) };
            self.scan_below(child, from, to, sink)?;
        }
        ControlFlow::Continue(())
    }

    /// Returns the position of a key whose node has this place.
    pub(in crate::rw) fn position_at(
        &mut self,
        flash: &Flash,
        key: Key,
        place: Place,
    ) -> Step<Option<Position>> {
        let mut next = self.first_from(flash, key)?;
        while let Some(position) = next {
            let branch = self.at(position);
            if branch.key != key {
                return Ok(None);
            }
            if branch.place() == place {
                return Ok(Some(position));
            }
            next = self.next(flash, position)?;
        }
        Ok(None)
    }

    /// Returns the znode of an index node in a LEB, or nothing if it is no longer part of the tree
    /// or was changed.
    pub(in crate::rw) fn find_clean(
        &mut self,
        flash: &Flash,
        leb: u32,
        node: &ScannedNode,
    ) -> Step<Option<ZnodeId>> {
        let root = self.root_node(flash)?;
        let place = Place { leb, offset: node.offset };
        if self.root.place() == place {
            return Ok(Some(root));
        }
        self.find_clean_below(flash, root, place, node)
    }

    fn find_clean_below(
        &mut self,
        flash: &Flash,
        id: ZnodeId,
        place: Place,
        wanted: &ScannedNode,
    ) -> Step<Option<ZnodeId>> {
        let &ScannedNode { level, first_key: key, .. } = wanted;
        let node = &self.nodes[id.index()];
        if node.level <= level {
            return Ok(None);
        }
        // Equal keys may begin in the branch before the first that is not below.
        let from = node.branches.partition_point(|branch| branch.key < key).saturating_sub(1);
        let to = node.branches.partition_point(|branch| branch.key <= key).max(from + 1);
        for slot in from..to.min(node.branches.len()) {
            let node = &self.nodes[id.index()];
            if node.level == level + 1 {
                if node.branches[slot].place() == place {
                    return self.child(flash, id, slot).map(Some);
                }
                continue;
            }
            let child = self.child(flash, id, slot)?;
            if let Some(found) = self.find_clean_below(flash, child, place, wanted)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
