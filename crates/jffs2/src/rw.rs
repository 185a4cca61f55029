//! The read-write run time: writes, collects and checks a log of nodes as Linux does (spec: jffs2
//! 11 to 19).
//!
//! A mount reads every block or its summary and keeps 16 bytes for each node and 32 for each inode.
//! The first use of an inode loads it and checks its nodes; the memory for loaded inodes is
//! bounded. Every change appends one or two nodes to the open block. A line appended to a file is
//! one small node; garbage collection merges small nodes into large ones. On NAND, the nodes of the
//! last page wait in a write buffer until it is full or a caller requests durability.
//!
//! Operations that JFFS2 does not support are refused: files without names, exchanging names,
//! whiteouts, inode flags. A rename writes two nodes: a power cut between them leaves both names.

mod build;
mod check;
mod compress;
mod content;
mod dents;
mod erase;
mod flash;
mod fs;
mod gc;
mod inode;
mod inodes;
mod loaded;
mod names;
mod nodelist;
mod nodemgmt;
mod options;
mod readinode;
mod remains;
mod scan;
mod state;
mod summary;
mod suspect;
#[cfg(test)]
mod tests;
mod wbuf;
mod write;
mod xattr;

pub(crate) use build::blank;
pub use flash::MIN_BLOCKS;
pub use options::{Compression, MountReport, RwOptions};

use crate::error::Jffs2Error;
use eraseblock_base::Findings;
use eraseblock_mtd::Mtd;
use state::State;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A mounted file system on a flash device.
///
/// # Invariants
/// 1. There is one lock. A method that holds it calls no foreign code except the device.
/// 2. At every moment a mount accepts the flash, with the names and contents before or after each
///    node of the current operation.
#[derive(Debug)]
pub struct Jffs2Rw {
    state: Mutex<State>,
}

impl Jffs2Rw {
    /// Mounts a device. An erased one becomes an empty file system.
    ///
    /// Damaged nodes are findings. Fails if the device fails, is unsuitable for JFFS2, or holds
    /// data that is not JFFS2 or nodes that forbid the mount.
    pub fn mount(
        mtd: Arc<dyn Mtd>,
        options: &RwOptions,
    ) -> Result<(Self, MountReport), Jffs2Error> {
        let (state, report) = build::mount(mtd, options)?;
        Ok((Self { state: Mutex::new(state) }, report))
    }

    /// Returns the findings since mounting.
    pub fn late_findings(&self) -> Findings {
        self.lock().late.clone()
    }

    /// Returns the number of eraseblocks that can be written at once.
    pub fn free_blocks(&self) -> u32 {
        self.lock().blocks.len(nodelist::List::Free)
    }

    /// Begins an operation; drops loaded inodes beyond the memory limit.
    fn start(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.loaded.trim();
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic in another thread, the flash is at worst as after a power cut.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
