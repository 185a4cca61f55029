//! Changes the tree (layer 5; spec: ubifs-runtime 10.10 to 10.14).

use super::{Position, Tnc, Zbranch, Znode, ZnodeId};
use crate::rw::error::Step;
use crate::rw::flash::Flash;
use crate::rw::lprops::Lprops;
use eraseblock_ubifs_format::{Key, KeyKind};

impl Tnc {
    /// Points a leaf's branch to another node. The old node is not counted as dirty here.
    pub(in crate::rw) fn replace(
        &mut self,
        flash: &Flash,
        lprops: &mut Lprops,
        position: Position,
        new: Zbranch,
    ) -> Step<()> {
        self.dirty(flash, lprops, position.znode)?;
        self.nodes[position.znode.index()].branches[position.slot] = new;
        Ok(())
    }

    /// Inserts a branch at a slot of a znode, splitting it if it is full.
    pub(in crate::rw) fn insert(
        &mut self,
        flash: &Flash,
        lprops: &mut Lprops,
        position: Position,
        new: Zbranch,
    ) -> Step<()> {
        self.dirty(flash, lprops, position.znode)?;
        self.insert_dirty(flash, position, new);
        Ok(())
    }

    fn insert_dirty(&mut self, flash: &Flash, position: Position, new: Zbranch) {
        let Position { znode: id, slot } = position;
        let fanout = flash.sb.fanout as usize;
        let is_full = self.nodes[id.index()].branches.len() >= fanout;
        let keep = if is_full { self.split_point(id, slot, &new, fanout) } else { 0 };
        if let Some(child) = new.child {
            self.nodes[child.index()].parent = Some(id);
        }
        self.nodes[id.index()].branches.insert(slot, new);
        if slot == 0 {
            self.lower_keys(id, new.key);
        }
        if is_full {
            self.split(flash, id, keep);
        }
    }

    /// Lowers the keys of the ancestors of a znode to its first one.
    fn lower_keys(&mut self, id: ZnodeId, key: Key) {
        let mut id = id;
        while let Some(Position { znode: parent, slot }) = self.above(id) {
            let branch = &mut self.nodes[parent.index()].branches[slot];
            if branch.key <= key {
                return;
            }
            branch.key = key;
            if slot > 0 {
                return;
            }
            id = parent;
        }
    }

    /// Returns how many branches a full znode keeps when one more is added: half, but blocks of one
    /// file stay together, and a file that grows at its end leaves full znodes.
    fn split_point(&self, id: ZnodeId, slot: usize, new: &Zbranch, fanout: usize) -> usize {
        let half = fanout.div_ceil(2);
        let branches = &self.nodes[id.index()].branches;
        if slot == fanout && self.is_rightmost(id) {
            return fanout;
        }
        let follows = |slot: usize| {
            let before = slot.checked_sub(1).and_then(|slot| branches.get(slot));
            before.is_some_and(|before| same_file(before.key, new.key))
        };
        if self.nodes[id.index()].level > 0 || !follows(slot) {
            return half;
        }
        match branches.get(slot) {
            None => fanout,
            Some(next) if !same_file(next.key, new.key) => slot + 1,
            Some(_) => half,
        }
    }

    fn is_rightmost(&self, id: ZnodeId) -> bool {
        let mut id = id;
        while let Some(parent) = self.nodes[id.index()].parent {
            let last = self.nodes[parent.index()].branches.last();
            if last.is_none_or(|last| last.child != Some(id)) {
                return false;
            }
            id = parent;
        }
        true
    }

    /// Moves the branches after the first `keep` to a new znode on the right.
    fn split(&mut self, flash: &Flash, id: ZnodeId, keep: usize) {
        let node = &mut self.nodes[id.index()];
        let moved = node.branches.split_off(keep);
        let (level, parent) = (node.level, node.parent);
        let first_key = node.branches.first().map_or(Key::MIN, |branch| branch.key);
        let key = moved.first().map_or(Key::MIN, |branch| branch.key);
        let children: Vec<ZnodeId> = moved.iter().filter_map(|branch| branch.child).collect();
        let right =
            self.add_node(Znode { parent, level, dirty: true, used: true.into(), branches: moved });
        self.dirty_count += 1;
        for child in children {
            self.nodes[child.index()].parent = Some(right);
        }
        let to_right = Zbranch { key, leb: 0, offset: 0, len: 0, child: Some(right) };
        if let Some(Position { znode, slot }) = self.above(id) {
            self.insert_dirty(flash, Position { znode, slot: slot + 1 }, to_right);
            return;
        }
        let to_left = Zbranch { key: first_key, ..self.root };
        let root = self.add_node(Znode {
            parent: None,
            level: level + 1,
            dirty: true,
            used: true.into(),
            branches: vec![to_left, to_right],
        });
        self.dirty_count += 1;
        self.nodes[id.index()].parent = Some(root);
        self.nodes[right.index()].parent = Some(root);
        self.root = Zbranch { key: Key::MIN, leb: 0, offset: 0, len: 0, child: Some(root) };
    }

    /// Removes a leaf's branch. Earlier positions become invalid.
    pub(in crate::rw) fn delete(
        &mut self,
        flash: &Flash,
        lprops: &mut Lprops,
        position: Position,
    ) -> Step<()> {
        let Position { znode: mut id, slot } = position;
        self.dirty(flash, lprops, id)?;
        self.nodes[id.index()].branches.remove(slot);
        while self.nodes[id.index()].branches.is_empty() {
            let Some(Position { znode: parent, slot }) = self.above(id) else { return Ok(()) };
            self.nodes[parent.index()].branches.remove(slot);
            self.drop_node(id);
            id = parent;
        }
        self.collapse_root();
        Ok(())
    }

    /// Replaces a root with a single child by that child.
    fn collapse_root(&mut self) {
        while let Some(root) = self.root.child {
            let node = &self.nodes[root.index()];
            let [only] = node.branches.as_slice() else { return };
            if node.level == 0 {
                return;
            }
            self.root = Zbranch { key: Key::MIN, ..*only };
            self.drop_node(root);
            if let Some(child) = self.root.child {
                self.nodes[child.index()].parent = None;
            }
        }
    }
}

fn same_file(one: Key, other: Key) -> bool {
    let both_data = one.kind() == Some(KeyKind::Data) && other.kind() == Some(KeyKind::Data);
    both_data && one.ino() == other.ino()
}
