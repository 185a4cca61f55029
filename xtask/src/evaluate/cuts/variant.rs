//! What is recorded: file systems of Linux on disks with and without a cache, and faults planted to see
//! whether the judge finds them.

use super::served::Recorder;
use super::state::Level;
use crate::evaluate::disk::System;
use anyhow::{Context, Result};

/// A file system on a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Variant {
    /// Its name in the ids of states.
    pub(super) name: &'static str,
    pub(super) system: System,
    /// Options of mount(8).
    pub(super) options: &'static str,
    pub(super) has_cache: bool,
    pub(super) recorder: Recorder,
    /// One recorded write never arrives.
    pub(super) loses_a_write: bool,
}

const fn plain(name: &'static str, system: System, has_cache: bool) -> Variant {
    let recorder = Recorder::On;
    Variant { name, system, options: "", has_cache, recorder, loses_a_write: false }
}

const EXT4: Variant = plain("ext4", System::Ext4, true);

/// Each file system on a disk with a cache, and without one.
const PLAIN: [Variant; 12] = [
    EXT4,
    plain("btrfs", System::Btrfs, true),
    plain("f2fs", System::F2fs, true),
    plain("nilfs2", System::Nilfs2, true),
    plain("xfs", System::Xfs, true),
    plain("vfat", System::Vfat, true),
    plain("ext4_through", System::Ext4, false),
    plain("btrfs_through", System::Btrfs, false),
    plain("f2fs_through", System::F2fs, false),
    plain("nilfs2_through", System::Nilfs2, false),
    plain("xfs_through", System::Xfs, false),
    plain("vfat_through", System::Vfat, false),
];

/// Faults that the judge must find at V1.
pub(super) const PLANTED: [Variant; 4] = [
    Variant { name: "ext4_nobarrier", options: "-o nobarrier", ..EXT4 },
    Variant { name: "ext4_writeback", options: "-o data=writeback", ..EXT4 },
    Variant { name: "ext4_flushless", recorder: Recorder::IgnoringFlushes, ..EXT4 },
    Variant { name: "ext4_lossy", loses_a_write: true, ..EXT4 },
];

impl Variant {
    /// Returns the variant of that name.
    pub(super) fn find(name: &str) -> Result<Self> {
        let found = PLAIN.iter().chain(&PLANTED).find(|variant| variant.name == name);
        found.copied().with_context(|| format!("no file system {name}"))
    }

    /// Returns what a level cuts of a file system.
    pub(super) fn of(system: System, level: Level) -> Option<Self> {
        let fits = |variant: &&Self| {
            variant.system == system && variant.has_cache != level.is_write_through()
        };
        PLAIN.iter().find(fits).copied()
    }

    /// Returns the bytes of the disk.
    pub(super) const fn size(&self) -> u64 {
        match self.system {
            System::Xfs => 320 << 20,
            _ => 128 << 20,
        }
    }

    /// Returns the tool that checks the file system, if there is one.
    pub(super) const fn tool(&self) -> Option<&'static str> {
        match self.system {
            System::F2fs => Some("fsck.f2fs"),
            System::Ext4 => Some("e2fsck"),
            System::Btrfs => Some("btrfs"),
            System::Xfs => Some("xfs_repair"),
            System::Vfat => Some("fsck.fat"),
            System::Nilfs2 | System::Ubifs | System::UbifsNc => None,
        }
    }
}
