//! Object numbers and limits, determined before anything is written.
//!
//! # Invariants
//! 1. Object numbers follow the order in which objects are written: a directory, then everything in
//!    it in the order of names.
//! 2. Everything with a name can be stored.

use super::error::{MkfsError, NodeProblem};
use crate::layout::Layout;
use eraseblock_vfs::source::{NodeId, SourceKind, SourceNode, SourceTree};
use eraseblock_yaffs_format::constants::{HEADER_LEN, MAX_CHUNK, MAX_TARGET_LEN, object};
use eraseblock_yaffs_format::xattr;
use std::collections::HashMap;

/// The longest name that the reference stores whole.
const MAX_NAME: usize = 254;

/// An object to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'t> {
    pub(super) node: NodeId,
    pub(super) id: u32,
    pub(super) parent: u32,
    pub(super) name: &'t [u8],
    /// The object that a further name of a node links to; otherwise the object itself.
    pub(super) target: u32,
}

impl Step<'_> {
    /// Returns whether it is a further name of a node.
    pub(super) fn is_link(&self) -> bool {
        self.id != self.target
    }
}

/// A tree ready to be written.
#[derive(Debug)]
pub(super) struct Plan<'t> {
    /// All names, in the order in which they are written.
    pub(super) steps: Vec<Step<'t>>,
}

impl<'t> Plan<'t> {
    /// Numbers and checks everything.
    pub(super) fn new(tree: &'t SourceTree, layout: &Layout) -> Result<Self, MkfsError> {
        let mut plan = Self { steps: Vec::new() };
        let mut first: HashMap<NodeId, u32> = HashMap::new();
        storable(tree, NodeId::ROOT, b"", layout)?;
        // Entries that are left of each directory on the way down.
        let mut open = vec![(object::ROOT, tree.entries(NodeId::ROOT))];
        while let Some((parent, entries)) = open.last_mut() {
            let Some((name, node)) = entries.next() else {
                open.pop();
                continue;
            };
            let parent = *parent;
            storable(tree, node, name, layout)?;
            let id = object::FIRST + plan.steps.len() as u32;
            if id > object::MAX {
                return Err(MkfsError::TooManyObjects(plan.steps.len() + 1));
            }
            let target = *first.entry(node).or_insert(id);
            plan.steps.push(Step { node, id, parent, name, target });
            if matches!(tree.node(node).kind, SourceKind::Directory(_)) {
                open.push((id, tree.entries(node)));
            }
        }
        Ok(plan)
    }

    /// The root, whose parent is no object.
    pub(super) fn root() -> Step<'static> {
        let id = object::ROOT;
        Step { node: NodeId::ROOT, id, parent: 0, name: b"", target: id }
    }

    /// The number of objects, the root included.
    pub(super) fn objects(&self) -> u32 {
        self.steps.len() as u32 + 1
    }
}

/// Refuses what the format cannot store.
fn storable(tree: &SourceTree, id: NodeId, name: &[u8], layout: &Layout) -> Result<(), MkfsError> {
    let node = tree.node(id);
    let problem = if name.len() > MAX_NAME {
        Some(NodeProblem::Name(name.len()))
    } else {
        problem(node, layout)
    };
    problem.map_or(Ok(()), |problem| Err(MkfsError::Node { path: path_of(tree, id), problem }))
}

fn problem(node: &SourceNode, layout: &Layout) -> Option<NodeProblem> {
    let most = u64::from(MAX_CHUNK) * u64::from(layout.data());
    let own = match &node.kind {
        SourceKind::Regular(content) if content.size() > most => {
            Some(NodeProblem::FileSize(content.size()))
        }
        SourceKind::Symlink(target) if !(1..=MAX_TARGET_LEN).contains(&target.len()) => {
            Some(NodeProblem::Target(target.len()))
        }
        SourceKind::BlockDevice(major, minor) | SourceKind::CharDevice(major, minor)
            if *major > 0xFF || *minor > 0xFF =>
        {
            Some(NodeProblem::Device(*major, *minor))
        }
        _ => None,
    };
    let room = layout.data() as usize - HEADER_LEN;
    let records: Vec<(&[u8], &[u8])> =
        node.xattrs.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let fits = xattr::encode(layout.order, &records, room).is_some();
    own.or_else(|| (!fits).then_some(NodeProblem::Attributes(room)))
}

/// The first path of a node, without a leading slash.
pub(super) fn path_of(tree: &SourceTree, id: NodeId) -> Vec<u8> {
    let mut open = vec![(Vec::new(), NodeId::ROOT)];
    while let Some((path, dir)) = open.pop() {
        if dir == id {
            return path;
        }
        for (name, child) in tree.entries(dir) {
            let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
            open.push(([&path, slash, name].concat(), child));
        }
    }
    Vec::new()
}
