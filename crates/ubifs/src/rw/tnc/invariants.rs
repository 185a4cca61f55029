//! Asserts the invariants of the tree in debug builds (layer 5).

use super::{Tnc, ZnodeId};

impl Tnc {
    /// Asserts invariants 1 and 2 for all loaded znodes.
    pub(in crate::rw) fn assert_tree(&self) {
        let mut dirty = 0;
        if let Some(root) = self.root.child {
            assert_eq!(self.nodes[root.index()].parent, None, "the root has a parent");
            dirty = self.assert_below(root);
        }
        assert_eq!(dirty, self.dirty_count, "dirty znodes are miscounted");
    }

    /// Returns the number of dirty znodes in a subtree.
    fn assert_below(&self, id: ZnodeId) -> usize {
        let node = &self.nodes[id.index()];
        let mut dirty = usize::from(node.dirty);
        assert!(
            node.branches.is_sorted_by_key(|branch| branch.key),
            "keys of a znode do not ascend: {node:?}"
        );
        for branch in &node.branches {
            let Some(child_id) = branch.child else { continue };
            let child = &self.nodes[child_id.index()];
            assert!(
                node.level == child.level + 1 && child.parent == Some(id),
                "a lost child: {child:?}"
            );
            assert!(node.dirty || !child.dirty, "a dirty znode below a clean one: {child:?}");
            assert_eq!(branch.leb == 0, child.dirty, "only dirty znodes have no place: {child:?}");
            let first = child.branches.first();
            assert!(
                first.is_none_or(|first| branch.key <= first.key),
                "a branch above its child: {branch:?}"
            );
            dirty += self.assert_below(child_id);
        }
        dirty
    }
}
