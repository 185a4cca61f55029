//! UBIFS mounted for writing: [`UbifsMount`] (spec: ubifs-runtime).
//!
//! The layers, bottom to top. A file calls only files of lower layers, and those named before it in
//! its own; `cargo xtask circles crates/ubifs/src/rw` finds no circle of calls.
//!
//! 1. `error`, `activity`, `place`: errors, counts, positions on flash.
//! 2. `patient`, `shadow`, `make`, `ahead`, `flash`: the volume, and the primitives for all writes.
//! 3. `lpt`, `lprops`, `supply`, `find`: free and dirty space of each LEB, and which one to use.
//! 4. `sqnum`, `wbuf`, `log`, `journal`: where nodes are appended.
//! 5. `tnc`, `orphan`, `master`: the index in memory, unlinked inodes, the root of everything.
//! 6. `nodes`, `group`: nodes by key, and those of one operation.
//! 7. `budget`: space that is promised.
//! 8. `gc`, `index_write`: move what is live; write what is dirty in the index.
//! 9. `store`, `commit`, `make_room`: everything that a commit writes, the commit, and the driver.
//! 10. `inode`, `pages`, `core`, `load`: inodes and content in memory.
//! 11. `bulk`, `write_back`: read content; write inodes and pages to the journal.
//! 12. `admit`: reserve space for an operation.
//! 13. `data`, `dir`, `rename`, `xattr`: operations.
//! 14. `recovery`, `replay`, `mount`, `reading`, `rest`: mounts, the read interface, unmounts.
//! 15. `check`: consistency checks.
//! 16. `fs`: the interface.
//!
//! The steps below layer 9 never call upwards. They return `Fault::CommitFirst`, or no LEB, and the
//! driver in `make_room` commits or collects garbage and repeats them. Apart from it, only a sync
//! (`rest`) and a recovery start a commit.
//!
//! # Invariants
//! 1. One lock protects everything: an operation, a commit and a round of garbage collection each
//!    run alone. Only reads of data in memory, and device reads of nodes already found, run in
//!    parallel. No other lock is held while it is taken.
//! 2. Changes of the flash depend only on its content, the options and the calls; threads only
//!    compress.

mod activity;
mod admit;
mod ahead;
mod budget;
mod bulk;
mod check;
mod commit;
mod core;
mod data;
mod dir;
mod error;
mod find;
mod flash;
mod fs;
mod gc;
mod group;
mod index_write;
mod inode;
mod journal;
mod load;
mod log;
mod lprops;
mod lpt;
mod make;
mod make_room;
mod master;
mod mount;
mod nodes;
mod orphan;
mod pages;
mod patient;
mod place;
mod reading;
mod recovery;
mod rename;
mod replay;
mod rest;
mod shadow;
mod sqnum;
mod store;
mod supply;
#[cfg(test)]
mod tests;
mod tnc;
mod wbuf;
mod write_back;
mod xattr;

pub use self::activity::{Activity, BigLptActivity};
use self::bulk::Reading;
pub use self::check::CHECK_INCOMPLETE;
use self::core::Core;
use self::flash::Flash;
use crate::error::UbifsError;
use eraseblock_base::Findings;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::Compression;
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Do not change the device; make repairs in memory.
    pub read_only: bool,
    /// Compressor of new files; by default that of the superblock.
    pub compression: Option<Compression>,
    /// Make every operation durable before it returns.
    pub sync: bool,
    /// Maximum number of bytes of written content kept in memory.
    pub dirty_bytes: usize,
    /// Approximate maximum number of bytes of the index kept in memory.
    pub index_bytes: usize,
    /// Read adjacent data nodes with one device read, and read ahead for sequential readers (Linux:
    /// `bulk_read`, off by default). If off, every node is read alone.
    pub bulk_read: bool,
    /// Number of bytes stored in an image file that may be truncated: a volume with live data after
    /// them is refused.
    pub stored_bytes: Option<u64>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            compression: None,
            sync: false,
            dirty_bytes: 16 << 20,
            index_bytes: 16 << 20,
            bulk_read: true,
            stored_bytes: None,
        }
    }
}

impl MountOptions {
    /// Returns the maximum number of index nodes kept in memory.
    fn index_nodes_most(&self, flash: &Flash) -> usize {
        let branch = size_of::<tnc::Zbranch>();
        (self.index_bytes / (flash.sb.fanout as usize * branch + 64)).max(64)
    }

    /// Returns the maximum number of dirty pages kept in memory.
    fn dirty_pages_most(&self) -> usize {
        (self.dirty_bytes / BLOCK_SIZE as usize).max(16)
    }
}

/// Maximum number of buffers kept for readers.
const SPARE_READERS: usize = 8;

/// A file system mounted for writing. Dropping it is a power cut: only durable data remains.
#[derive(Debug)]
pub struct UbifsMount {
    core: RwLock<Core>,
    /// Buffers of finished reads, reused by later ones.
    spare: Mutex<Vec<Reading>>,
}

impl UbifsMount {
    /// Mounts the file system on a volume: replays the journal, repairs the consequences of a power
    /// cut, and prepares for writing (spec: ubifs-runtime 5.1). On an empty volume, creates a file
    /// system first. Also returns the findings.
    ///
    /// Refuses what Linux refuses; such a volume can still be read with [`crate::Ubifs::open`].
    pub fn mount(
        device: Arc<dyn LebDevice>,
        options: MountOptions,
    ) -> Result<(Self, Findings), UbifsError> {
        let mut core = mount::mount(device, options)?;
        let findings = std::mem::take(&mut core.findings);
        Ok((Self { core: RwLock::new(core), spare: Mutex::default() }, findings))
    }

    // After a panic in another thread, memory may be half changed and must not be written.
    fn lock(&self) -> RwLockWriteGuard<'_, Core> {
        self.core.write().unwrap_or_else(|poisoned| {
            let mut core = PoisonError::into_inner(poisoned);
            core.store
                .nodes
                .flash
                .turn_read_only("a thread panicked in the middle of an operation");
            core
        })
    }

    fn lock_shared(&self) -> RwLockReadGuard<'_, Core> {
        self.core.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare_reading(&self) -> Reading {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn keep_reading(&self, reading: Reading) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_READERS {
            spare.push(reading);
        }
    }

    /// Returns counts of activities since the mount.
    pub fn activity(&self) -> Activity {
        self.lock().store.nodes.flash.activity
    }

    /// Returns the approximate memory of the mount in bytes: the loaded part of the index, the
    /// properties of LEBs, inodes, orphans, the journal, write buffers and content not written yet.
    /// Does not count the memory of the underlying volume.
    pub fn memory(&self) -> u64 {
        self.lock_shared().memory() as u64
    }

    /// Checks what is on flash of a volume that [`UbifsMount::mount`] refuses, and names the row of the
    /// specification (ubifs-format 21) in each finding: superblock, master, log, journal, LEB
    /// properties, orphans, and the index as far as it leads. Without a superblock, checks nothing else.
    ///
    /// # Errors
    ///
    /// Fails if the device does.
    pub fn check_refused(device: Arc<dyn LebDevice>) -> Result<Findings, UbifsError> {
        check::refused(device)
    }

    /// Checks everything that must hold between two operations, in memory and on flash, without
    /// writing (spec: ubifs-format 21). Fails if the device does.
    pub fn check(&self) -> Result<Findings, UbifsError> {
        let verdict = self.lock().check().map_err(error::Fault::into_ubifs)?;
        // The lock is released: paths are looked up through the public interface.
        Ok(verdict.named(self))
    }
}
