//! The versions of the file system, and which of them are durable.

use super::stack::{Order, Rules};
use super::tree::Tree;
use eraseblock_vfs::{FileSystem, Ino, RenameMode};
use eraseblock_vfs_testkit::ModelFs;
use eraseblock_vfs_testkit::ops::{Object, Op, Slots, find};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The file system after the operations up to some point.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) model: ModelFs,
    /// The tree without contents.
    pub(crate) tree: Tree,
    /// The operation that made it, if it was a rename, with the old path.
    pub(crate) renamed: Option<Vec<u8>>,
    /// Inodes whose names, entries or extended attributes the operation changed.
    involved: Vec<Ino>,
}

/// Versions since the last moment at which everything was durable, and the floors in them.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) versions: Vec<Arc<Version>>,
    /// The earliest version that names may have.
    pub(crate) names_floor: usize,
    /// The earliest version that attributes and data of an inode may have, if above 0.
    pub(crate) inode_floors: BTreeMap<Ino, usize>,
}

impl History {
    /// Starts with a durable state.
    pub(crate) fn new(model: &ModelFs) -> Result<Self, String> {
        let tree = Tree::read(model, false)?;
        let version = Version { model: model.clone(), tree, renamed: None, involved: Vec::new() };
        let versions = vec![Arc::new(version)];
        Ok(Self { versions, names_floor: 0, inode_floors: BTreeMap::new() })
    }

    /// Returns the latest version.
    pub(crate) fn last(&self) -> usize {
        self.versions.len() - 1
    }

    /// Adds the state of the model after `op`.
    pub(crate) fn push(&mut self, op: &Op, model: &ModelFs) -> Result<(), String> {
        let tree = Tree::read(model, false)?;
        let before = &self.versions[self.last()].tree;
        let exchanged = matches!(op, Op::Rename(_, _, RenameMode::Exchange));
        let involved = involved(before, &tree, exchanged);
        let renamed = match op {
            Op::Rename(from, _, _) => Some(from.path()),
            _ => None,
        };
        self.versions.push(Arc::new(Version { model: model.clone(), tree, renamed, involved }));
        Ok(())
    }

    /// Records that an operation that makes something durable has returned.
    pub(crate) fn settle(&mut self, op: &Op, slots: &Slots, rules: &Rules) {
        match (op, rules.order) {
            (Op::SyncFile(_) | Op::Sync | Op::ReadOnlyAndBack | Op::Restart, Order::Total)
            | (Op::Sync | Op::ReadOnlyAndBack | Op::Restart, Order::Names) => {
                self.versions = self.versions.split_off(self.last());
                self.names_floor = 0;
                self.inode_floors.clear();
            }
            (Op::SyncFile(object), Order::Names) => self.settle_file(*object, slots),
            (Op::Write { object, .. } | Op::Append(object, ..), Order::Names)
                if self.is_sync(*object, slots) =>
            {
                self.settle_file(*object, slots);
            }
            _ => {}
        }
    }

    /// Returns whether writes to a file are durable at once.
    fn is_sync(&self, object: Object, slots: &Slots) -> bool {
        let model = &self.versions[self.last()].model;
        find(model, slots, object).and_then(|ino| model.attr(ino)).is_ok_and(|attr| attr.flags.sync)
    }

    /// Makes the inode durable, with every change of names it took part in and all before that.
    fn settle_file(&mut self, object: Object, slots: &Slots) {
        let last = self.last();
        let Ok(ino) = find(&self.versions[last].model, slots, object) else { return };
        self.inode_floors.insert(ino, last);
        let changed = self.versions.iter().rposition(|version| version.involved.contains(&ino));
        self.names_floor = self.names_floor.max(changed.unwrap_or(0));
    }
}

/// Returns inodes and directories of the names that differ, and inodes with different xattrs.
/// Inodes that only exchanged names are not included, because nothing of their own was written.
fn involved(before: &Tree, after: &Tree, exchanged: bool) -> Vec<Ino> {
    let entries = |tree: &Tree| -> BTreeSet<(Ino, Vec<u8>, Ino)> {
        tree.names.iter().map(|name| (name.dir, name.last.clone(), name.ino)).collect()
    };
    let (before_names, after_names) = (entries(before), entries(after));
    let mut inodes = BTreeSet::new();
    for (dir, _, ino) in before_names.symmetric_difference(&after_names) {
        inodes.insert(*dir);
        if !exchanged {
            inodes.insert(*ino);
        }
    }
    for (ino, inode) in &after.inodes {
        if before.inodes.get(ino).is_some_and(|before| before.xattrs != inode.xattrs) {
            inodes.insert(*ino);
        }
    }
    inodes.into_iter().collect()
}
