//! What a sequence does besides its operations: the device works and fails, and programs use the
//! file system in other ways.

use crate::powercut::Plan;
use eraseblock_vfs_testkit::ops::{Change, Object, Op, Texture};

/// What a sequence does besides its operations.
#[allow(clippy::struct_excessive_bools)] // independent switches
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Habit {
    /// Nothing is mounted again, and `sync` takes the place of what would: the master area fills
    /// up only if it is not started again by a mount.
    pub is_steady: bool,
    /// Directories and files get the flags S and D.
    pub sets_flags: bool,
    /// Files are large and few are removed, so that the volume is full most of the time, and one
    /// write-back is longer than the journal may grow.
    pub fills: bool,
    /// A block that is no longer mapped is erased at once. Otherwise it is erased when a block is
    /// needed, and a cut in between brings its content back, which may hide a mistake.
    pub erases_at_once: bool,
    /// The background work of the device runs between its calls, as it does below a real mount.
    pub works_below: bool,
    /// Programs and erases fail.
    pub fails: bool,
    /// The medium was collected by a driver that copies nodes with their versions, and the erases
    /// of some blocks were cut.
    pub has_copies: bool,
}

impl Habit {
    /// Returns the habit of a sequence: sequences on an old file system have one of eight, by their
    /// seed; four of these, and all other sequences, only perform their operations.
    ///
    /// Only if it `fills` are files large: where a write that finds no space may be there in part,
    /// the model, which knows whole writes only, does not apply.
    pub(crate) fn of(plan: Plan, fills: bool) -> Self {
        let none = Self::default();
        let Plan::Aged(seed) = plan else { return none };
        match seed % 8 {
            5 => Self { is_steady: true, erases_at_once: true, ..none },
            6 => {
                Self { sets_flags: true, works_below: true, fails: true, has_copies: true, ..none }
            }
            7 => Self { fills, erases_at_once: true, fails: true, ..none },
            0 => Self {
                is_steady: true,
                sets_flags: true,
                works_below: true,
                has_copies: true,
                ..none
            },
            _ => none,
        }
    }

    /// Returns the habit of a recovery, in which nothing more fails.
    pub(crate) fn of_recovery(self) -> Self {
        Self { fails: false, ..self }
    }

    /// Returns the operation that takes the place of a random one.
    pub(crate) fn apply(self, op: Op) -> Op {
        const FLAGS: [u8; 4] = [1, 1 | 2, 1 | 16, 1 | 2 | 16];
        match op {
            Op::Restart | Op::ReadOnlyAndBack | Op::Step if self.is_steady => Op::Sync,
            Op::Change(object, Change::Times(time, _)) if self.sets_flags => {
                Op::Change(object, Change::Flags(FLAGS[time as usize % FLAGS.len()]))
            }
            Op::Write { object, offset, len, .. } if self.fills => match offset % 3 {
                0 => Op::Change(object, Change::Size(0)),
                _ => Op::Write { object, offset, len: 8 * len.max(2000), texture: Texture::Random },
            },
            Op::Unlink(at) if self.fills && at.name % 2 == 0 => {
                Op::Append(Object::At(at), 6000, Texture::Random)
            }
            op => op,
        }
    }
}
