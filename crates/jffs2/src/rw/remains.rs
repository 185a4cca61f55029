//! Remains of nodes that belonged to an unknown file (spec: jffs2 8.6). While they are on flash, a
//! gap in a file is lost content. Once they are erased, every reader would show the gap as zeros.
//!
//! # Invariants
//! 1. Before the first erase of a mount, every inode has been checked if there are remains.
//! 2. If a file has a gap that they may have filled, a damage marker is on flash before the first
//!    erase. Collection copies it, so it stays.

use super::nodelist::{RefKind, RefState};
use super::nodemgmt::Alloc;
use super::state::State;
use super::write::NewNode;
use crate::damage::Unassigned;
use eraseblock_base::Location;
use eraseblock_jffs2_format::constants::HEADER_LEN;
use eraseblock_jffs2_format::encode;
use eraseblock_vfs::{FsError, FsErrorKind};

/// Whether remains may be erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Remains {
    /// There are none, no file misses them, or a marker replaces them.
    Settled,
    /// Not every file has been examined.
    Unknown,
    /// A file has a gap that they may have filled.
    Missed,
}

impl Remains {
    /// Returns the state after a scan.
    pub(crate) fn new(unassigned: &Unassigned, has_marker: bool) -> Self {
        if unassigned.is_empty() || has_marker { Self::Settled } else { Self::Unknown }
    }

    /// Records that a file has a gap that they may have filled.
    pub(crate) fn are_missed(&mut self) {
        if *self == Self::Unknown {
            *self = Self::Missed;
        }
    }
}

impl State {
    /// Writes a damage marker if the next erase could turn lost content into zeros.
    pub(crate) fn mark_damage(&mut self) -> Result<(), FsError> {
        if self.remains == Remains::Settled {
            return Ok(());
        }
        while self.check_one()? {}
        // Set first, because writing the marker may itself need an erase.
        if std::mem::replace(&mut self.remains, Remains::Settled) != Remains::Missed {
            return Ok(());
        }
        match self.write_damage_marker() {
            Err(error) if error.kind() == FsErrorKind::NoSpace => {
                let message = "no space to note that content was lost; gaps of damaged files will \
                               read as zeros once their blocks are erased";
                self.late.warn(Location::Whole, "damage-unmarked", message);
                Ok(())
            }
            done => done,
        }
    }

    /// Writes the marker; it is on flash when this returns.
    fn write_damage_marker(&mut self) -> Result<(), FsError> {
        let mut bytes = Vec::with_capacity(HEADER_LEN as usize);
        encode::damage_marker(self.flash.order, &mut bytes);
        self.reserve(HEADER_LEN, Alloc::Collection, 0)?;
        self.end_summary();
        let (kind, state) = (RefKind::Copy, RefState::Pristine);
        self.put(&NewNode { kind, owner: 0, state, record: None, bytes: &bytes })?;
        self.flush()
    }
}
