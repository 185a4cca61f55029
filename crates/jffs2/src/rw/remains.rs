//! Remains of nodes that belonged to an unknown file (spec: jffs2 8.6). While they are on flash, a
//! gap in a file is lost content. Once they are erased, every reader would show the gap as zeros.
//!
//! Layer: data. `load` reports the gaps, `log` writes the marker before the first erase.
//!
//! # Invariants
//! 1. Before the first erase of a mount, every inode has been checked if there are remains.
//! 2. If a file has a gap that they may have filled, a damage marker is on flash before the first
//!    erase. Collection copies it, so it stays.

use crate::damage::Unassigned;

/// Whether remains may be erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    /// There are none, no file misses them, or a marker replaces them.
    Settled,
    /// Not every file has been examined.
    Unknown,
    /// A file has a gap that they may have filled.
    Missed,
}

/// Damaged nodes that may belong to any file.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) unassigned: Unassigned,
    progress: Progress,
}

/// Whether a damage marker must be written before the next erase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DamageMarker {
    /// A file misses content that only the remains explain.
    Wanted,
    /// No file does.
    Unneeded,
}

impl Remains {
    /// Returns the state after a scan, which found a damage marker or did not.
    pub(crate) fn new(unassigned: Unassigned, has_marker: bool) -> Self {
        let is_settled = unassigned.is_empty() || has_marker;
        let progress = if is_settled { Progress::Settled } else { Progress::Unknown };
        Self { unassigned, progress }
    }

    /// Records that a file has a gap that they may have filled.
    pub(crate) fn are_missed(&mut self) {
        if self.progress == Progress::Unknown {
            self.progress = Progress::Missed;
        }
    }

    /// Returns whether blocks may be erased without examining files first.
    pub(crate) fn are_settled(&self) -> bool {
        self.progress == Progress::Settled
    }

    /// Records that every file has been examined.
    pub(crate) fn settle(&mut self) -> DamageMarker {
        match std::mem::replace(&mut self.progress, Progress::Settled) {
            Progress::Missed => DamageMarker::Wanted,
            Progress::Unknown | Progress::Settled => DamageMarker::Unneeded,
        }
    }
}
