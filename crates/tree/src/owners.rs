//! Owners of a source tree: all set to root, or ids mapped by ranges.

use crate::error::TreeError;
use crate::times::ids;
use eraseblock_vfs::SourceTree;

/// Sets all owners to root, including those of the root directory.
pub fn squash(tree: &mut SourceTree) {
    for id in ids(tree) {
        let node = tree.node_mut(id);
        (node.uid, node.gid) = (0, 0);
    }
}

/// Maps owners and groups; ids outside the maps do not change.
pub fn map(tree: &mut SourceTree, uids: &IdMap, gids: &IdMap) {
    for id in ids(tree) {
        let node = tree.node_mut(id);
        (node.uid, node.gid) = (uids.translate(node.uid), gids.translate(node.gid));
    }
}

/// Disjoint ranges of ids and their targets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdMap {
    ranges: Vec<Range>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    from: u32,
    to: u32,
    count: u32,
}

impl Range {
    /// `FROM:TO[:COUNT]`
    fn parse(text: &str) -> Result<Self, &'static str> {
        let numbers: Vec<u32> = text
            .split(':')
            .map(|number| number.trim().parse())
            .collect::<Result<_, _>>()
            .map_err(|_| "ids are decimal numbers below 2^32")?;
        let (from, to, count) = match numbers[..] {
            [from, to] => (from, to, 1),
            [from, to, count] => (from, to, count),
            _ => return Err("a range is written FROM:TO or FROM:TO:COUNT"),
        };
        if count == 0 {
            return Err("a range holds at least one id");
        }
        // The last number means "unchanged" to chown and is not an id.
        if from.max(to).checked_add(count).is_none() {
            return Err("a range ends below 4294967295");
        }
        Ok(Self { from, to, count })
    }
}

impl IdMap {
    /// Parses a comma-separated list of `FROM:TO[:COUNT]` (default count 1).
    ///
    /// # Errors
    ///
    /// Fails if the syntax is wrong, or if ranges overlap or exceed 32 bits.
    pub fn parse(text: &str) -> Result<Self, TreeError> {
        let wrong = |reason| TreeError::IdMap { text: text.to_owned(), reason };
        let ranges = text.split(',').map(Range::parse).collect::<Result<Vec<_>, _>>();
        let mut ranges = ranges.map_err(wrong)?;
        ranges.sort_unstable_by_key(|range| range.from);
        if ranges.windows(2).any(|pair| pair[0].from + pair[0].count > pair[1].from) {
            return Err(wrong("ranges of ids to translate overlap"));
        }
        Ok(Self { ranges })
    }

    /// Returns the id that an id is mapped to.
    pub fn translate(&self, id: u32) -> u32 {
        let next = self.ranges.partition_point(|range| range.from <= id);
        match next.checked_sub(1).map(|index| self.ranges[index]) {
            Some(range) if id - range.from < range.count => range.to + (id - range.from),
            _ => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::directory;
    use eraseblock_vfs::source::NodeId;

    #[test]
    fn ids_are_translated_by_range() {
        let map = IdMap::parse("1000:0,100000:0:65536").unwrap();
        assert_eq!(map.translate(1000), 0);
        assert_eq!(map.translate(1001), 1001);
        assert_eq!(map.translate(100_033), 33);
        assert_eq!(map.translate(165_536), 165_536);
        assert_eq!(map.translate(5), 5);
        assert_eq!(IdMap::default().translate(7), 7);
    }

    #[test]
    fn bad_maps_are_refused() {
        for text in [
            "",
            "1",
            "1:2:0",
            "1:2:3:4",
            "a:b",
            "-1:0",
            "1:0:5,3:9",
            "4294967295:0",
            "0:1:4294967295",
        ] {
            assert!(IdMap::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn trees_change_owners() {
        let mut root = directory(0o755);
        (root.uid, root.gid) = (1000, 2000);
        let mut tree = SourceTree::new(root);
        map(&mut tree, &IdMap::parse("1000:1").unwrap(), &IdMap::parse("2000:2").unwrap());
        assert_eq!((tree.node(NodeId::ROOT).uid, tree.node(NodeId::ROOT).gid), (1, 2));
        squash(&mut tree);
        assert_eq!((tree.node(NodeId::ROOT).uid, tree.node(NodeId::ROOT).gid), (0, 0));
    }
}
