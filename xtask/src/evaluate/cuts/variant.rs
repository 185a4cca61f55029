//! What is recorded: file systems of Linux on disks with and without a cache, and faults planted to see
//! whether the judge finds them.

use super::recording::{Event, Recording};
use super::session::Recorded;
use super::state::Level;
use crate::evaluate::disk::System;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file system on a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Variant {
    /// Its name in the ids of states.
    pub(super) name: &'static str,
    pub(super) system: System,
    /// Options of mount(8), without -o.
    pub(super) options: &'static str,
    pub(super) has_cache: bool,
    /// The variant whose recording it changes, or its own name.
    pub(super) recorded_as: &'static str,
    pub(super) disk: DiskFault,
}

/// What is wrong with the disk of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DiskFault {
    None,
    /// It acknowledges flushes without doing them.
    IgnoresFlushes,
    /// One write of an epoch never arrives.
    LosesAWrite,
}

const fn plain(name: &'static str, system: System, has_cache: bool) -> Variant {
    let disk = DiskFault::None;
    Variant { name, system, options: "", has_cache, recorded_as: name, disk }
}

const EXT4: Variant = plain("ext4", System::Ext4, true);

/// Each file system on a disk with a cache, and without one.
pub(super) const PLAIN: [Variant; 12] = [
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
    Variant { name: "ext4_nobarrier", options: "nobarrier", recorded_as: "ext4_nobarrier", ..EXT4 },
    Variant {
        name: "ext4_writeback",
        options: "data=writeback",
        recorded_as: "ext4_writeback",
        ..EXT4
    },
    Variant { name: "ext4_flushless", disk: DiskFault::IgnoresFlushes, ..EXT4 },
    Variant { name: "ext4_lossy", disk: DiskFault::LosesAWrite, ..EXT4 },
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

    /// Returns its recording with the fault of its disk; `None` if the workload was not recorded to its
    /// end.
    pub(super) fn of_recordings(
        &self,
        recordings: &BTreeMap<&'static str, Recorded>,
    ) -> Option<Arc<Recording>> {
        let recorded = recordings.get(self.recorded_as)?;
        self.faulty(&recorded.recording).ok()
    }

    /// Returns a recording with the fault of the disk.
    pub(super) fn faulty(&self, recording: &Arc<Recording>) -> Result<Arc<Recording>> {
        if self.disk == DiskFault::None {
            return Ok(Arc::clone(recording));
        }
        let mut faulty = (**recording).clone();
        match self.disk {
            DiskFault::IgnoresFlushes => faulty.events.retain(|event| *event != Event::Flush),
            _ => lose_a_write(&mut faulty)?,
        }
        Ok(Arc::new(faulty))
    }

    /// Returns the bytes of the disk.
    pub(super) const fn size(system: System) -> u64 {
        match system {
            System::Xfs => 320 << 20,
            _ => 128 << 20,
        }
    }
}

/// Returns the tool that checks a file system, if there is one.
pub(super) const fn tool(system: System) -> Option<&'static str> {
    match system {
        System::F2fs => Some("fsck.f2fs"),
        System::Ext4 => Some("e2fsck"),
        System::Btrfs => Some("btrfs"),
        System::Xfs => Some("xfs_repair"),
        System::Vfat => Some("fsck.fat"),
        System::Nilfs2 | System::Ubifs | System::UbifsNc => None,
    }
}

/// Removes the first write before the flush that precedes the middle mark.
fn lose_a_write(recording: &mut Recording) -> Result<()> {
    let marks = recording.events.iter().filter(|event| matches!(event, Event::Mark(_))).count();
    let mark = recording.position_of(u32::try_from(marks / 2)?)?;
    let flushes: Vec<usize> =
        (0..mark).filter(|at| recording.events[*at] == Event::Flush).rev().take(2).collect();
    let [end, begin] = flushes[..] else { bail!("the recording has no two flushes") };
    let is_write = |at: &usize| matches!(recording.events[*at], Event::Write { .. });
    let lost = (begin..end).find(is_write).context("nothing was written before the flush")?;
    recording.events.remove(lost);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::image::Image;
    use super::*;

    #[test]
    fn faults_of_the_disk_change_what_was_recorded() {
        let write = |offset| Event::Write { offset, data: vec![1; 512].into(), through: false };
        let mut honest = Recording::new(Image::new(1 << 20));
        honest.events = vec![
            Event::Mark(0),
            write(0),
            Event::Flush,
            write(512),
            write(1024),
            Event::Flush,
            Event::Mark(1),
        ];
        let honest = Arc::new(honest);
        let events = |name: &str| {
            let faulty = Variant::find(name).unwrap().faulty(&honest).unwrap();
            faulty.events.clone()
        };
        assert_eq!(events("ext4"), honest.events);
        let flushless = events("ext4_flushless");
        assert_eq!(flushless.len(), 5);
        assert!(!flushless.contains(&Event::Flush));
        let lossy = events("ext4_lossy");
        assert_eq!(lossy.len(), 6);
        assert!(!lossy.contains(&write(512)) && lossy.contains(&write(1024)));
    }
}
