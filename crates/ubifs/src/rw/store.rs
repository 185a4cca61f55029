//! Everything of a mounted file system that a commit writes (layer 9).
//!
//! `commit` and `make_room` add their methods to [`Store`]. It knows neither inodes in memory nor
//! pages: operations write them to the journal in space that they reserved.
//!
//! # Invariants
//! 1. What holds between two steps is in `assert_consistent`, which debug builds run at each commit
//!    and unmount.

use super::budget::Budget;
use super::gc::Gc;
use super::master::MasterArea;
use super::nodes::Nodes;
use super::orphan::Orphans;
use super::supply::Supply;
use eraseblock_vfs::{Caller, StatFs};

/// The file system below its inodes.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) nodes: Nodes,
    pub(super) gc: Gc,
    pub(super) budget: Budget,
    pub(super) orphans: Orphans,
    pub(super) master: MasterArea,
    /// Number of the last commit.
    pub(super) cmt_no: u64,
}

impl Store {
    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.nodes.memory() + self.orphans.memory()
    }

    /// Returns what is known about empty LEBs.
    pub(super) fn supply(&self) -> Supply {
        self.gc.supply(self.budget.min_idx_lebs(&self.nodes.flash))
    }

    /// Names the caller of the operations that follow.
    pub(super) fn set_caller(&mut self, caller: &Caller) {
        self.budget.set_caller(&self.nodes.flash, caller);
    }

    /// Returns whether everything reserved can be written.
    pub(super) fn is_admissible(&self) -> bool {
        self.budget.is_admissible(&self.nodes.flash, &self.nodes.lprops, self.supply())
    }

    /// Returns whether a commit would free enough space to be worth its writes. Until the next
    /// commit, LEBs with only dead inodes stay in use, too.
    pub(super) fn is_space_waiting(&self) -> bool {
        let Nodes { flash, tnc, .. } = &self.nodes;
        let dirty = tnc.dirty_count as u64 * u64::from(flash.max_idx_node);
        let held = self.gc.pinned().len();
        self.budget.is_commit_worthwhile(flash, tnc.index_size + dirty, held)
    }

    /// Asserts what must hold in memory between two steps, as far as it is loaded.
    #[cfg(debug_assertions)]
    pub(super) fn assert_consistent(&self) {
        let Nodes { flash, lprops, tnc, journal } = &self.nodes;
        tnc.assert_tree();
        lprops.assert_sets(flash);
        journal.assert_heads(flash, lprops);
        self.gc.assert_kept(&self.nodes);
    }

    /// Returns sizes as Linux reports them.
    pub(super) fn stat_space(&self) -> StatFs {
        self.budget.stat_space(&self.nodes.flash, &self.nodes.lprops, self.supply())
    }
}

#[cfg(test)]
mod tests {
    use super::super::shadow::Shadow;
    use super::super::{MountOptions, UbifsMount};
    use eraseblock_mtd::LebFile;
    use eraseblock_vfs::{Caller, NewInode, NewKind, Timestamp, WritableFileSystem};
    use std::sync::Arc;

    const LEB: u32 = 15_872;

    #[test]
    fn memory_includes_the_orphans() {
        let file = LebFile::new(vec![0xFF; 40 * LEB as usize], LEB, 512, Some(40)).unwrap();
        let device = Arc::new(Shadow::new(Arc::new(file)));
        let (fs, _) = UbifsMount::mount(device, MountOptions::default()).unwrap();
        let by = &Caller::owner(Timestamp::default());
        let inode = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
        let ino = fs.create(1, b"gone", &inode, by).unwrap();
        fs.open(ino).unwrap();
        fs.unlink(1, b"gone", by).unwrap();
        let store = &fs.lock_shared().store;
        assert!(!store.orphans.is_empty());
        assert_eq!(store.memory() - store.nodes.memory(), store.orphans.memory());
    }
}
