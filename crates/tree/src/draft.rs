//! A tree under construction: entries come in any order, parents may come after children, and a
//! later entry replaces an earlier one. [`Draft::finish`] turns it into a [`SourceTree`].
//!
//! # Invariants
//! 1. Node 0 is the root and a directory.
//! 2. Children of replaced entries stay in the table but are no longer reachable; only reachable
//!    nodes become part of the source tree.
//! 3. The source tree numbers its nodes depth first in name order, so equal sources give equal
//!    trees, regardless of the order of reading.

use eraseblock_vfs::rules::is_acl_name;
use eraseblock_vfs::source::{NodeId, SourceError, check_name};
use eraseblock_vfs::walk::MAX_DEPTH;
use eraseblock_vfs::{FileKind, SourceKind, SourceNode, SourceTree, Timestamp};
use std::collections::BTreeMap;
use std::collections::btree_map::IntoIter;

/// Number of a node in a [`Draft`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DraftId(usize);

/// An entry that cannot be placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PlaceError {
    /// The path has a forbidden component.
    Name(&'static str),
    /// A component of the path is not a directory.
    ThroughFile,
    /// The target of a hard link does not exist.
    NoTarget,
    /// A hard link to a directory.
    DirectoryTarget,
    /// The root would no longer be a directory.
    RootKind,
}

impl PlaceError {
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Name(reason) => reason,
            Self::ThroughFile => "its parent is not a directory",
            Self::NoTarget => "it is a hard link to a member that does not precede it",
            Self::DirectoryTarget => "it is a hard link to a directory",
            Self::RootKind => "the root can only be a directory",
        }
    }
}

/// The result of placing an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    /// The name was free.
    New,
    /// An earlier entry with that name was replaced.
    Replaced,
    /// A directory with entries was replaced; its entries are lost.
    ReplacedTree,
}

#[derive(Debug)]
struct DraftNode {
    /// Its own directory map stays empty; `children` holds the entries.
    node: SourceNode,
    children: BTreeMap<Vec<u8>, DraftId>,
    /// Created as the parent of another entry; an explicit entry may still follow.
    implied: bool,
}

#[derive(Debug)]
pub(crate) struct Draft {
    nodes: Vec<DraftNode>,
}

/// Returns an empty directory.
pub(crate) fn directory(permissions: u32) -> SourceNode {
    SourceNode::new(SourceKind::Directory(BTreeMap::new()), permissions)
}

/// Returns whether an image can store an xattr: ACLs yes, other `system.*` attributes no.
pub(crate) fn is_kept_xattr(name: &[u8]) -> bool {
    let kept = [&b"user."[..], b"trusted.", b"security."];
    is_acl_name(name)
        || name.len() <= 255
            && !name.contains(&0)
            && kept.iter().any(|prefix| name.starts_with(prefix) && name.len() > prefix.len())
}

/// Splits the path of an archive member into components; drops leading slashes, `.` and empty
/// components.
fn components(path: &[u8]) -> Result<Vec<&[u8]>, PlaceError> {
    let mut parts = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return Err(PlaceError::Name("`..` is not allowed in a path")),
            part => {
                check_name(part).map_err(|error| match error {
                    SourceError::Name { reason, .. } => PlaceError::Name(reason),
                    _ => PlaceError::Name("it is not allowed"),
                })?;
                parts.push(part);
                if parts.len() > MAX_DEPTH {
                    return Err(PlaceError::Name("it is nested too deep"));
                }
            }
        }
    }
    Ok(parts)
}

impl Draft {
    pub(crate) const ROOT: DraftId = DraftId(0);

    pub(crate) fn new(root: SourceNode) -> Self {
        Self { nodes: vec![DraftNode { node: root, children: BTreeMap::new(), implied: true }] }
    }

    /// Adds a node to a directory; the name must be free and legal.
    pub(crate) fn add(&mut self, dir: DraftId, name: Vec<u8>, node: SourceNode) -> DraftId {
        let id = self.push(node);
        self.nodes[dir.0].children.insert(name, id);
        id
    }

    /// Adds one more name for a node; the name must be free and legal.
    pub(crate) fn add_link(&mut self, dir: DraftId, name: Vec<u8>, target: DraftId) {
        self.nodes[dir.0].children.insert(name, target);
    }

    pub(crate) fn node_mut(&mut self, id: DraftId) -> &mut SourceNode {
        &mut self.nodes[id.0].node
    }

    /// Places a node at a path and creates missing parents.
    pub(crate) fn place(
        &mut self,
        path: &[u8],
        node: SourceNode,
    ) -> Result<(DraftId, Placed), PlaceError> {
        let parts = components(path)?;
        let is_dir = node.file_kind() == FileKind::Directory;
        let Some((name, parents)) = parts.split_last() else {
            if !is_dir {
                return Err(PlaceError::RootKind);
            }
            let root = &mut self.nodes[Self::ROOT.0];
            let was_implied = std::mem::replace(&mut root.implied, false);
            root.node = node;
            return Ok((Self::ROOT, if was_implied { Placed::New } else { Placed::Replaced }));
        };
        let dir = self.descend(parents, &node)?;
        if is_dir
            && let Some(id) = self.child(dir, name)
            && self.is_dir(id)
        {
            let slot = &mut self.nodes[id.0];
            let was_implied = std::mem::replace(&mut slot.implied, false);
            slot.node = node;
            return Ok((id, if was_implied { Placed::New } else { Placed::Replaced }));
        }
        let id = self.push(node);
        Ok((id, self.name(dir, name, id)))
    }

    /// Places a hard link to the node at path `target`; linking a node to its own name changes
    /// nothing.
    pub(crate) fn place_link(&mut self, path: &[u8], target: &[u8]) -> Result<Placed, PlaceError> {
        let target = self.find(target)?.ok_or(PlaceError::NoTarget)?;
        self.place_link_to(path, target)
    }

    /// Places a hard link to a node.
    pub(crate) fn place_link_to(
        &mut self,
        path: &[u8],
        target: DraftId,
    ) -> Result<Placed, PlaceError> {
        if self.is_dir(target) {
            return Err(PlaceError::DirectoryTarget);
        }
        let parts = components(path)?;
        let Some((name, parents)) = parts.split_last() else {
            return Err(PlaceError::RootKind);
        };
        let like = self.nodes[target.0].node.clone();
        let dir = self.descend(parents, &like)?;
        Ok(self.name(dir, name, target))
    }

    /// Returns the node at a path.
    fn find(&self, path: &[u8]) -> Result<Option<DraftId>, PlaceError> {
        let mut at = Self::ROOT;
        for part in components(path)? {
            match self.child(at, part) {
                Some(child) => at = child,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Finds the directory at a path and creates missing ones: owned by root, 0755, with the times
    /// of the entry that needs them.
    fn descend(&mut self, parents: &[&[u8]], like: &SourceNode) -> Result<DraftId, PlaceError> {
        let root = &mut self.nodes[Self::ROOT.0];
        if root.implied && root.node.mtime == Timestamp::default() {
            let root = &mut root.node;
            (root.atime, root.mtime, root.ctime) = (like.mtime, like.mtime, like.mtime);
        }
        let mut at = Self::ROOT;
        for part in parents {
            at = match self.child(at, part) {
                Some(child) if self.is_dir(child) => child,
                Some(_) => return Err(PlaceError::ThroughFile),
                None => {
                    let mut node = directory(0o755);
                    (node.atime, node.mtime, node.ctime) = (like.mtime, like.mtime, like.mtime);
                    let id = self.push(node);
                    self.nodes[id.0].implied = true;
                    self.nodes[at.0].children.insert(part.to_vec(), id);
                    id
                }
            };
        }
        Ok(at)
    }

    fn name(&mut self, dir: DraftId, name: &[u8], id: DraftId) -> Placed {
        match self.nodes[dir.0].children.insert(name.to_vec(), id) {
            None => Placed::New,
            Some(old) if self.nodes[old.0].children.is_empty() => Placed::Replaced,
            Some(_) => Placed::ReplacedTree,
        }
    }

    fn push(&mut self, node: SourceNode) -> DraftId {
        self.nodes.push(DraftNode { node, children: BTreeMap::new(), implied: false });
        DraftId(self.nodes.len() - 1)
    }

    fn child(&self, dir: DraftId, name: &[u8]) -> Option<DraftId> {
        self.nodes[dir.0].children.get(name).copied()
    }

    fn is_dir(&self, id: DraftId) -> bool {
        self.nodes[id.0].node.file_kind() == FileKind::Directory
    }

    /// Returns the source tree of the reachable nodes (invariants 2 and 3).
    pub(crate) fn finish(mut self) -> Result<SourceTree, SourceError> {
        let root = std::mem::replace(&mut self.nodes[0].node, directory(0));
        let mut tree = SourceTree::new(root);
        let mut moved: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let top = std::mem::take(&mut self.nodes[0].children);
        let mut levels: Vec<(NodeId, IntoIter<Vec<u8>, DraftId>)> =
            vec![(NodeId::ROOT, top.into_iter())];
        while let Some((dir, entries)) = levels.last_mut() {
            let dir = *dir;
            let Some((name, id)) = entries.next() else {
                levels.pop();
                continue;
            };
            if let Some(target) = moved[id.0] {
                tree.link(dir, &name, target)?;
                continue;
            }
            let slot = &mut self.nodes[id.0];
            let node = std::mem::replace(&mut slot.node, directory(0));
            let children = std::mem::take(&mut slot.children);
            let new = tree.add(dir, &name, node)?;
            moved[id.0] = Some(new);
            if !children.is_empty() {
                levels.push((new, children.into_iter()));
            }
        }
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn file(text: &str) -> SourceNode {
        let mut node =
            SourceNode::new(SourceKind::Regular(Arc::new(text.as_bytes().to_vec())), 0o644);
        node.mtime = Timestamp::from_seconds(7);
        node
    }

    #[test]
    fn parents_are_made_and_may_come_later() {
        let mut draft = Draft::new(directory(0o755));
        draft.place(b"./a/b/f", file("x")).unwrap();
        assert_eq!(draft.place(b"a/", directory(0o700)).unwrap().1, Placed::New);
        assert_eq!(draft.place(b"/a", directory(0o711)).unwrap().1, Placed::Replaced);
        let tree = draft.finish().unwrap();
        let a = tree.lookup(NodeId::ROOT, b"a").unwrap();
        let b = tree.lookup(a, b"b").unwrap();
        assert_eq!(tree.node(a).permissions, 0o711);
        assert_eq!((tree.node(b).permissions, tree.node(b).mtime.seconds), (0o755, 7));
        assert!(tree.lookup(b, b"f").is_some());
    }

    #[test]
    fn the_last_entry_wins_and_lost_ones_vanish() {
        let mut draft = Draft::new(directory(0o755));
        draft.place(b"a/f", file("x")).unwrap();
        assert_eq!(draft.place(b"a", file("y")).unwrap().1, Placed::ReplacedTree);
        assert_eq!(draft.place(b"a", file("z")).unwrap().1, Placed::Replaced);
        draft.place_link(b"l", b"a").unwrap();
        draft.place_link(b"l", b"l").unwrap();
        assert_eq!(draft.place(b"a", directory(0o755)).unwrap().1, Placed::Replaced);
        let tree = draft.finish().unwrap();
        assert_eq!(tree.len(), 3);
        assert_eq!(tree.name_counts(), [0, 1, 1]);
    }

    #[test]
    fn what_cannot_be_placed_is_refused() {
        let mut draft = Draft::new(directory(0o755));
        draft.place(b"f", file("x")).unwrap();
        let refused = |result: Result<_, PlaceError>| result.map(|_: (DraftId, Placed)| ()).err();
        assert_eq!(refused(draft.place(b"f/g", file(""))), Some(PlaceError::ThroughFile));
        assert_eq!(refused(draft.place(b"/", file(""))), Some(PlaceError::RootKind));
        assert!(matches!(refused(draft.place(b"a/../b", file(""))), Some(PlaceError::Name(_))));
        assert!(matches!(refused(draft.place(b"a\0", file(""))), Some(PlaceError::Name(_))));
        assert!(matches!(refused(draft.place(&[b'x'; 256], file(""))), Some(PlaceError::Name(_))));
        assert_eq!(draft.place_link(b"l", b"none"), Err(PlaceError::NoTarget));
        assert_eq!(draft.place_link(b"l", b"/"), Err(PlaceError::DirectoryTarget));
        assert_eq!(draft.place_link(b".", b"f"), Err(PlaceError::RootKind));
    }
}
