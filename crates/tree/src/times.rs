//! Makes the times of a source tree reproducible.

use eraseblock_vfs::source::NodeId;
use eraseblock_vfs::{SourceTree, Timestamp};

/// Limits times to at most `epoch` (SOURCE_DATE_EPOCH).
pub fn clamp(tree: &mut SourceTree, epoch: Timestamp) {
    for id in ids(tree) {
        let node = tree.node_mut(id);
        for time in [&mut node.atime, &mut node.mtime, &mut node.ctime] {
            *time = (*time).min(epoch);
        }
    }
}

/// Sets atime and ctime to mtime: a host cannot preserve them, so copies of a directory differ in
/// them.
pub fn from_mtime(tree: &mut SourceTree) {
    for id in ids(tree) {
        let node = tree.node_mut(id);
        (node.atime, node.ctime) = (node.mtime, node.mtime);
    }
}

pub(crate) fn ids(tree: &SourceTree) -> Vec<NodeId> {
    tree.nodes().map(|(id, _)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::directory;

    #[test]
    fn later_times_are_clamped_and_lost_ones_replaced() {
        let mut root = directory(0o755);
        root.mtime = Timestamp { seconds: 100, nanoseconds: 7 };
        root.ctime = Timestamp::from_seconds(200);
        root.atime = Timestamp::from_seconds(5);
        let mut tree = SourceTree::new(root);
        clamp(&mut tree, Timestamp::from_seconds(150));
        let node = tree.node(NodeId::ROOT);
        assert_eq!((node.mtime.seconds, node.ctime.seconds, node.atime.seconds), (100, 150, 5));
        clamp(&mut tree, Timestamp::from_seconds(100));
        assert_eq!(tree.node(NodeId::ROOT).mtime, Timestamp::from_seconds(100));
        from_mtime(&mut tree);
        let node = tree.node(NodeId::ROOT);
        assert_eq!((node.ctime, node.atime), (node.mtime, node.mtime));
    }
}
