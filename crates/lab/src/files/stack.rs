//! A file system on a simulated chip, and its promises.

use super::habit::Habit;
use crate::story::flash;
use eraseblock_mtd::Access;
use eraseblock_nandsim::{Chip, Recorded};
use eraseblock_vfs::WritableFileSystem;
use eraseblock_vfs_testkit::{CompareOptions, ModelRules};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// A file system under test, with the chip it lives on.
pub trait Stack: Sync + Debug {
    /// Returns the first two words of replay ids: the file system and the chip.
    fn name(&self) -> (&'static str, &'static str);

    /// Returns its promises.
    fn rules(&self) -> Rules;

    /// Returns a new chip with an empty file system, unmounted cleanly.
    fn format(&self) -> Result<Chip, String>;

    /// Describes a flash event.
    fn describe(&self, event: &Recorded) -> String {
        flash::plain(event)
    }

    /// Mounts the file system on a chip that is powered on.
    fn mount(&self, chip: &Arc<Chip>, access: Access) -> Result<Box<dyn Mounted>, String>;

    /// Mounts it for a sequence with a habit, which a stack without such a device ignores.
    fn mount_with(
        &self,
        chip: &Arc<Chip>,
        access: Access,
        _habit: Habit,
    ) -> Result<Box<dyn Mounted>, String> {
        self.mount(chip, access)
    }

    /// Does to an unmounted medium what another driver may have left on it; returns counts of that.
    fn meddle(&self, _chip: &Chip, _habit: Habit) -> Result<Happened, String> {
        Ok(Happened::new())
    }

    /// Returns the names of what happens in sequences with a habit only.
    fn rare(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// Counts of activities.
pub type Happened = BTreeMap<&'static str, u64>;

/// A file system mounted by a [`Stack`].
pub trait Mounted {
    /// Returns the file system.
    fn fs(&self) -> &dyn WritableFileSystem;

    /// Verifies every structure, on the medium and in memory, without writing.
    fn check(&self) -> Result<(), String>;

    /// Returns a rare event of the mount, by its name in [`Mounted::activity`]: mounts after a cut are
    /// counted, too.
    fn met(&self) -> Option<&'static str> {
        None
    }

    /// Returns counts of activities since the mount.
    fn activity(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// What survives of pending changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Names and extended attributes: all operations up to some point. Data: each block of 4 KiB,
    /// and the attributes of each inode, as of any time since they were made durable (UBIFS).
    Names,
    /// Everything: all operations up to some point, and a part of the next one (JFFS2).
    Total,
    /// Everything: all operations that have returned, and a part of the next one (YAFFS2).
    Returned,
}

/// The promises of a file system, as far as they differ.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Limits and forms.
    pub model: ModelRules,
    /// What the comparison of attributes covers.
    pub compare: CompareOptions,
    /// What survives a cut.
    pub order: Order,
    /// Whether a rename that was cut may leave both names.
    pub rename_leaves_both: bool,
    /// Whether blocks whose erase was cut and that decay while they are read may make operations
    /// fail until a later mount, which is judged completely.
    pub decay_may_fail: bool,
    /// Number of blocks by which statfs may be lower after a recovery than after an earlier one.
    pub slack_blocks: u64,
    /// Number of blocks by which it may be lower after a recovery than at the worst moment before
    /// the cut since everything was durable.
    pub cut_blocks: u64,
    /// Number of free blocks with which a small file can be made.
    pub probe_blocks: u64,
}

impl Rules {
    /// Rules of UBIFS on a volume of UBI, which moves data that has become hard to read.
    pub const UBIFS: Self = Self {
        model: ModelRules::UBIFS,
        compare: CompareOptions::ALL,
        order: Order::Names,
        rename_leaves_both: false,
        decay_may_fail: true,
        slack_blocks: 16,
        cut_blocks: 16,
        probe_blocks: 16,
    };
}
