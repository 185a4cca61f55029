//! The versions of the file system, and which of them are durable.

use super::stack::{Order, Rules};
use super::tree::{Contents, Tree};
use eraseblock_vfs::{Attr, FileKind, FileSystem, Ino, RenameMode};
use eraseblock_vfs_testkit::ModelFs;
use eraseblock_vfs_testkit::ops::{Object, Op, Place, Slots, find};
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
    /// The blocks that were free.
    free: u64,
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
    /// The same for attributes without size and data.
    pub(crate) attr_floors: BTreeMap<Ino, usize>,
}

/// The free space of a version of which it is not known.
pub(crate) const ANY_SPACE: u64 = 0;

impl History {
    /// Starts with a durable state.
    pub(crate) fn new(model: &ModelFs, free: u64) -> Result<Self, String> {
        let tree = Tree::read(model, Contents::Skip)?;
        let (renamed, involved) = (None, Vec::new());
        let version = Version { model: model.clone(), tree, renamed, free, involved };
        let versions = vec![Arc::new(version)];
        let (inode_floors, attr_floors) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { versions, names_floor: 0, inode_floors, attr_floors })
    }

    /// Returns the latest version.
    pub(crate) fn last(&self) -> usize {
        self.versions.len() - 1
    }

    /// Returns the blocks that were free at the worst moment: what was pending may be lost, so that
    /// any of the versions may be there again.
    pub(crate) fn least_free(&self) -> u64 {
        self.versions.iter().map(|version| version.free).min().unwrap_or(ANY_SPACE)
    }

    /// Adds the state of the model after `op`, with the number of free blocks.
    pub(crate) fn push(&mut self, op: &Op, model: &ModelFs, free: u64) -> Result<(), String> {
        let tree = Tree::read(model, Contents::Skip)?;
        let before = &self.versions[self.last()].tree;
        let exchanged = matches!(op, Op::Rename(_, _, RenameMode::Exchange));
        let involved = involved(before, &tree, exchanged);
        let renamed = match op {
            Op::Rename(from, _, _) => Some(from.path()),
            _ => None,
        };
        let model = model.clone();
        self.versions.push(Arc::new(Version { model, tree, renamed, free, involved }));
        Ok(())
    }

    /// Records that an operation that makes something durable has returned.
    pub(crate) fn settle(&mut self, op: &Op, slots: &Slots, rules: &Rules) {
        match (op, rules.order) {
            (_, Order::Returned)
            | (Op::SyncFile(_) | Op::Sync | Op::ReadOnlyAndBack | Op::Restart, Order::Total)
            | (Op::Sync | Op::ReadOnlyAndBack | Op::Restart, Order::Names) => {
                self.versions = self.versions.split_off(self.last());
                self.names_floor = 0;
                self.inode_floors.clear();
                self.attr_floors.clear();
            }
            (Op::SyncFile(object), Order::Names) => self.settle_file(*object, slots),
            (Op::Write { object, .. } | Op::Append(object, ..), Order::Names)
                if self.is_sync(*object, slots) =>
            {
                self.settle_file(*object, slots);
            }
            (op, Order::Names) => self.settle_flags(op, slots),
            _ => {}
        }
    }

    /// Makes a change of names durable if one of its directories is synchronous, and a change of
    /// attributes if the inode is: with the attributes of the inodes that are written with it, but
    /// not their data.
    fn settle_flags(&mut self, op: &Op, slots: &Slots) {
        let last = self.last();
        let (dirs, object): (&[Place], _) = match op {
            Op::Create(at, _) | Op::Unlink(at) | Op::RemoveDir(at) => (&[*at], None),
            Op::Link(object, at) => (&[*at], Some(*object)),
            Op::Rename(from, to, _) => (&[*from, *to], None),
            Op::Change(object, _) => (&[], Some(*object)),
            _ => return,
        };
        if let (Op::Change(..), Some(object)) = (op, object) {
            // An inode without a name is not written: a cut removes it, or its old name comes back
            // with its old attributes.
            let model = &self.versions[last].model;
            if self.is_sync(object, slots)
                && let Ok(ino) = find(model, slots, object)
                && model.attr(ino).is_ok_and(|attr| attr.nlink > 0)
            {
                self.attr_floors.insert(ino, last);
            }
            return;
        }
        let Some(before) = last.checked_sub(1).map(|before| self.versions[before].clone()) else {
            return;
        };
        // Renaming a file to a name that it has writes nothing.
        if self.versions[last].involved.is_empty() {
            return;
        }
        let dirs: Vec<Ino> =
            dirs.iter().filter_map(|at| before.model.resolve(at.dir_path()).ok()).collect();
        if !dirs.iter().any(|dir| is_sync(&before.model, *dir)) {
            return;
        }
        self.names_floor = last;
        self.attr_floors.extend(dirs.iter().map(|dir| (*dir, last)));
        // A renamed inode keeps its node, with the ctime that it had.
        if !matches!(op, Op::Rename(..)) {
            let involved = self.versions[last].involved.clone();
            self.attr_floors.extend(involved.iter().map(|ino| (*ino, last)));
        }
    }

    /// Returns whether writes to a file are durable at once.
    fn is_sync(&self, object: Object, slots: &Slots) -> bool {
        let model = &self.versions[self.last()].model;
        find(model, slots, object).is_ok_and(|ino| is_sync(model, ino))
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

/// Returns whether changes of an inode are durable at once: the flag S, or D of a directory.
fn is_sync(model: &ModelFs, ino: Ino) -> bool {
    let is_set =
        |attr: Attr| attr.flags.sync || attr.kind == FileKind::Directory && attr.flags.dirsync;
    model.attr(ino).is_ok_and(is_set)
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

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs::attr::InodeFlags;
    use eraseblock_vfs::{Caller, SetAttr, Timestamp, WritableFileSystem};
    use eraseblock_vfs_testkit::ModelRules;
    use eraseblock_vfs_testkit::ops::{Change, Make, apply};

    /// A rename of a file to itself, in a directory with the flag D, was taken as durable, and with
    /// it a file created before in another directory (`ubifs/subpage/aged-21000@1822.P2half`).
    #[test]
    fn what_changes_nothing_makes_nothing_durable() {
        let by = &Caller::owner(Timestamp::default());
        let model = ModelFs::new(ModelRules::UBIFS, Timestamp::default());
        let flags = InodeFlags { dirsync: true, ..InodeFlags::default() };
        let synchronous = SetAttr { flags: Some(flags), ..SetAttr::default() };
        let (slots, rules) = (&mut Slots::default(), Rules::UBIFS);
        let mut history = History::new(&model, ANY_SPACE).unwrap();
        let place = |dir, name| Place { dir, name };
        let mut run = |op: Op| {
            apply(&model, slots, &op, history.last() as u64).unwrap();
            history.push(&op, &model, ANY_SPACE).unwrap();
            history.settle(&op, slots, &rules);
            history.names_floor
        };
        let file = place(0, 0);
        assert_eq!(run(Op::Create(file, Make::Regular)), 0);
        model.set_attr(ModelFs::ROOT, &synchronous, by).unwrap();
        // The version before has no flag yet.
        assert_eq!(run(Op::Create(place(0, 1), Make::Regular)), 0);
        assert_eq!(run(Op::Rename(file, file, RenameMode::Replace)), 0);
        assert_eq!(run(Op::Create(place(0, 2), Make::Regular)), 4);
    }

    /// The flag S of an inode without a name was taken as durable
    /// (`ubifs/large/aged-102032@1848.off`).
    #[test]
    fn attributes_of_an_inode_without_a_name_are_not_durable() {
        let model = ModelFs::new(ModelRules::UBIFS, Timestamp::default());
        let (slots, rules) = (&mut Slots::default(), Rules::UBIFS);
        let mut history = History::new(&model, ANY_SPACE).unwrap();
        let (file, sync) = (Place { dir: 0, name: 0 }, Change::Flags(0b00010));
        let mut floors = Vec::new();
        for op in [
            Op::Create(file, Make::Regular),
            Op::Open(file, 0),
            Op::Change(Object::Slot(0), sync),
            Op::Unlink(file),
            Op::Change(Object::Slot(0), sync),
        ] {
            apply(&model, slots, &op, history.last() as u64).unwrap();
            history.push(&op, &model, ANY_SPACE).unwrap();
            history.settle(&op, slots, &rules);
            floors.push(history.attr_floors.values().copied().max());
        }
        assert_eq!(floors, [None, None, Some(3), Some(3), Some(3)]);
    }
}
