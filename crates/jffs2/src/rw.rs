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
//!
//! # Layers
//!
//! Calls between files go down this list only. A lower step that needs something of a higher one
//! returns what it needs, and a driver does it and repeats the step.
//!
//! 1. Data: `options`, `failure`, `flash`, `nodelist` (nodes), `blocks`, `suspect` (pages of the
//!    scan), `wbuf` (write buffer), `space` (thresholds), `dents`, `inode`, `inodes`, `loaded`,
//!    `remains`, `summary`, `compress`.
//! 2. `store`: reads nodes, declares them dead. `erase` erases a block.
//! 3. `pairs` (extended attributes), `owners` (of nodes), `pairs_build`.
//! 4. `load`, `tree`, `read`, `query`: what the nodes mean. They write nothing.
//! 5. `log`: the driver of writing. Appends nodes; closes, opens, erases and leaves blocks.
//! 6. `write`, `xattr_write`: build nodes.
//! 7. `collect`: moves a node. `gc` chooses the next, `settle` moves those of suspect pages.
//! 8. `state`: the driver of space. Flushes, erases and collects until a write may begin.
//! 9. `names`, `content`, `xattr`: operations. `scan` and `build` mount, `check` verifies.
//! 10. `fs`: the file-system interface.

mod blocks;
mod build;
mod check;
mod collect;
mod compress;
mod content;
mod dents;
mod erase;
mod failure;
mod flash;
mod fs;
mod gc;
mod inode;
mod inodes;
mod load;
mod loaded;
mod log;
mod names;
mod nodelist;
mod options;
mod owners;
mod pairs;
mod pairs_build;
mod query;
mod read;
mod remains;
mod scan;
mod settle;
mod space;
mod state;
mod store;
mod summary;
mod suspect;
#[cfg(test)]
mod tests;
mod tree;
mod wbuf;
mod write;
mod xattr;
mod xattr_write;

pub(crate) use build::blank;
pub use flash::MIN_BLOCKS;
pub use options::{Compression, MountReport, RwOptions};

use crate::error::Jffs2Error;
use eraseblock_base::Findings;
use eraseblock_mtd::Mtd;
use eraseblock_vfs::FsError;
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
        self.lock().tree().store.late.clone()
    }

    /// Returns the number of eraseblocks that can be written at once.
    pub fn free_blocks(&self) -> u32 {
        self.lock().tree().store.blocks.len(blocks::List::Free)
    }

    /// Loads every inode, verifies all checksums, and compares accounts, lists and link counts with
    /// recomputed ones. Fails with [`eraseblock_vfs::FsErrorKind::Corrupted`] and the difference.
    pub fn check(&self) -> Result<(), FsError> {
        self.lock().tree_mut().check()
    }

    /// Begins an operation; drops loaded inodes beyond the memory limit.
    fn start(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.tree_mut().owners.loaded.trim();
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic in another thread, the flash is at worst as after a power cut.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
