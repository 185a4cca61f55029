//! The read-write run time: a log of nodes that is written, collected and checked as Linux does it
//! (spec: jffs2 11 to 19).
//!
//! Mounting reads every block or its summary and keeps 16 bytes for a node and 32 for an inode. An
//! inode is loaded, and its nodes are checked, when it is wanted first, and what is loaded is
//! bounded. Every change is a node or two at the end of the open block; a line appended to a file is
//! one small node, and garbage collection makes large ones of many. On NAND the nodes of the last
//! page wait in a write buffer until it is full or somebody asks for durability.
//!
//! What JFFS2 cannot do is refused: files without names, exchanging names, whiteouts, inode flags.
//! A rename is two nodes: a power cut between them leaves both names.

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
/// 1. There is one lock; no method calls foreign code but the device's while it holds it.
/// 2. What is on flash is at every moment something a mount accepts: the same names and contents
///    as before or after each node of the operation at work.
#[derive(Debug)]
pub struct Jffs2Rw {
    state: Mutex<State>,
}

impl Jffs2Rw {
    /// Mounts a device. An erased one becomes an empty file system.
    ///
    /// Damaged nodes are findings. Fails when the device does, when it holds something that is not
    /// JFFS2, or nodes that forbid the mount, and for devices JFFS2 cannot live on.
    pub fn mount(
        mtd: Arc<dyn Mtd>,
        options: &RwOptions,
    ) -> Result<(Self, MountReport), Jffs2Error> {
        let (state, report) = build::mount(mtd, options)?;
        Ok((Self { state: Mutex::new(state) }, report))
    }

    /// What was found since mounting.
    pub fn late_findings(&self) -> Findings {
        self.lock().late.clone()
    }

    /// Erase blocks that can be written at once.
    pub fn free_blocks(&self) -> u32 {
        self.lock().blocks.len(nodelist::List::Free)
    }

    /// Before an operation: what is loaded without being at work is bounded.
    fn start(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.loaded.trim();
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere left at worst what a power cut leaves.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
