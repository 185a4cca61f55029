//! UBIFS mounted for writing: [`UbifsMount`] (spec: ubifs-runtime).
//!
//! The rooms, from the flash up: `patient` (second chances), `flash` (what every write goes through), `wbuf` (the
//! write-buffers of the journal heads), `log` and `journal` (where operations go first), `tnc` (the
//! index in memory), `leaves` (what it leads to), `lprops` and `lpt` (how full each LEB is), `find`
//! and `gc` (room for more), `budget` (promises of room), `index_write` and `commit` (the journal
//! becomes the index), `orphan`, `inode`, `pages`, `data`, `bulk`, `dir`, `rename`, `xattr` (operations), `reading` (looking),
//! `mount`, `replay` and `recovery` (getting there), `check` (what must hold), `fs` (the interface).
//!
//! # Invariants
//! 1. One lock over everything: an operation, a commit and a round of garbage collection each run
//!    alone; only fetching what a read has found, and looking at what is in memory, go beside each
//!    other. No other lock is held while it is taken.
//! 2. What happens to the flash is a function of its content, the options and the calls; threads
//!    only compress.

mod activity;
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
mod index_write;
mod inode;
mod journal;
mod leaves;
mod log;
mod lprops;
mod lpt;
mod make;
mod mount;
mod orphan;
mod pages;
mod patient;
mod reading;
mod recovery;
mod rename;
mod replay;
#[doc(hidden)]
mod shadow;
mod tnc;
mod wbuf;
mod xattr;

pub use self::activity::{Activity, BigLptActivity};
pub use self::check::CHECK_INCOMPLETE;
use self::core::Core;
use self::flash::Flash;
use crate::error::UbifsError;
use eraseblock_base::Findings;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::Compression;
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Change nothing on the device; what has to be repaired is repaired in memory.
    pub read_only: bool,
    /// Compressor of new files; the superblock's if not given.
    pub compression: Option<Compression>,
    /// Everything is durable when an operation returns.
    pub sync: bool,
    /// Bytes of written content kept in memory at most.
    pub dirty_bytes: usize,
    /// Bytes of the index kept in memory, about.
    pub index_bytes: usize,
    /// Data nodes that lie one behind the other are read with one device read, and what comes next
    /// is read ahead for whoever reads a file piece by piece (Linux: `bulk_read`, which is off
    /// unless asked for). Off, every node is read alone.
    pub bulk_read: bool,
    /// Bytes the device really has, where it is an image file that may have been cut short: a
    /// volume with live bytes behind them is refused.
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
    /// Index nodes kept in memory.
    fn index_nodes_most(&self, flash: &Flash) -> usize {
        let branch = size_of::<tnc::Zbranch>();
        (self.index_bytes / (flash.sb.fanout as usize * branch + 64)).max(64)
    }

    /// Dirty pages kept in memory.
    fn dirty_pages_most(&self) -> usize {
        (self.dirty_bytes / BLOCK_SIZE as usize).max(16)
    }
}

/// Readers whose buffers are kept.
const SPARE_READERS: usize = 8;

/// A file system mounted for writing. Dropping it is a power cut: only what was made durable stays.
#[derive(Debug)]
pub struct UbifsMount {
    core: RwLock<Core>,
    /// Of readers that are done, for the next.
    spare: Mutex<Vec<data::Reading>>,
}

impl UbifsMount {
    /// Mounts the file system on a volume: replays the journal, repairs what a power cut left, and
    /// makes it ready for writing (spec: ubifs-runtime 5.1). On an empty volume a file system is
    /// made first. Says what was found on the way.
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

    // After a panic in another thread memory may be half changed; nothing is written from it.
    fn lock(&self) -> RwLockWriteGuard<'_, Core> {
        self.core.write().unwrap_or_else(|poisoned| {
            let mut core = PoisonError::into_inner(poisoned);
            core.flash.turn_read_only("a thread panicked in the middle of an operation");
            core
        })
    }

    fn lock_shared(&self) -> RwLockReadGuard<'_, Core> {
        self.core.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare_reading(&self) -> data::Reading {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn keep_reading(&self, reading: data::Reading) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_READERS {
            spare.push(reading);
        }
    }

    /// What has happened since the mount.
    pub fn activity(&self) -> Activity {
        self.lock().flash.activity
    }

    /// Bytes of memory the mount takes now, about: the index as far as it is loaded, the properties
    /// of LEBs, inodes, orphans, the journal, write-buffers, content that waits to be written. What
    /// the volume under it takes is not counted.
    pub fn memory(&self) -> u64 {
        self.lock_shared().memory() as u64
    }

    /// Checks what must hold between two operations, in memory and on flash, without writing
    /// (spec: ubifs-format 21).
    pub fn check(&self) -> Result<Findings, UbifsError> {
        let verdict = self.lock().check().map_err(error::Fault::into_ubifs)?;
        // The lock is free again: paths are looked up as any user does.
        Ok(verdict.named(self))
    }
}
