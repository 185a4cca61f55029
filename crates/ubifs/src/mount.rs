//! Opens a volume: a read-only mount in memory (spec: ubifs-runtime 5.3).
//!
//! # Invariants
//! 1. The device is never written.
//! 2. Strict opening fails at the first thing that Linux would refuse; salvaging turns it into a
//!    finding and continues with the rest.

use crate::codes;
use crate::error::UbifsError;
use crate::inode::InodeCache;
use crate::log;
use crate::master::{self, Selected};
use crate::orphan;
use crate::read::ScratchPool;
use crate::replay;
use crate::report::{Report, leb_start};
use crate::rescue;
use crate::sb;
use crate::tnc::Tnc;
use crate::volume::Volume;
use eraseblock_base::{Findings, Leb, Location};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::constants::{ROOT_INO, master_flags};
use eraseblock_ubifs_format::{Master, Superblock};
use std::collections::HashMap;
use std::sync::Arc;

/// Options of opening a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// Fail at the first thing that makes Linux refuse the mount, instead of salvaging.
    pub strict: bool,
}

/// The result of opening.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MountInfo {
    /// Whether the volume was unmounted cleanly.
    pub is_clean: bool,
    /// Whether there was no usable superblock, master node or index, so that everything comes from
    /// a scan of all nodes.
    pub is_rescued: bool,
    /// Buds of the journal.
    pub buds: u64,
    /// Nodes of the journal that were applied.
    pub replayed_nodes: u64,
    /// Bytes of these nodes.
    pub journal_bytes: u64,
    /// Orphans removed.
    pub orphans_removed: u64,
    /// Xattrs that were removed with them. Linux 6.1 leaves their inodes.
    pub orphan_attributes_removed: u64,
    /// Inodes whose size was raised to the end of their content.
    pub sizes_fixed: u64,
}

/// Returns the error for a superblock without the rest: most of the image is missing.
fn nothing_left(volume: &Volume) -> UbifsError {
    let lebs = volume.sb.leb_cnt;
    let is_mapped = |leb: &u32| volume.is_mapped(Leb::new(*leb)).unwrap_or(true);
    let mapped = (0..volume.main_end()).filter(is_mapped).count();
    let message = format!(
        "the superblock describes {lebs} LEBs of {} bytes, of which {mapped} are there, and no node \
         of a file: the image may be cut short",
        volume.leb_size()
    );
    UbifsError::Refused { at: Location::Whole, code: codes::IMAGE_CUT_SHORT, message }
}

/// An opened file system.
#[derive(Debug)]
pub struct Ubifs {
    pub(crate) tnc: Tnc,
    pub(crate) inodes: InodeCache,
    pub(crate) scratch: ScratchPool,
    pub(crate) sizes: HashMap<u32, u64>,
    pub(crate) master: Option<Master>,
    pub(crate) info: MountInfo,
}

impl Ubifs {
    /// Opens the file system on a volume for reading and returns the findings.
    ///
    /// Fails if the device fails, if there is no UBIFS on it, and with [`OpenOptions::strict`] at
    /// everything that makes Linux refuse the mount.
    pub fn open(
        device: Arc<dyn LebDevice>,
        options: &OpenOptions,
    ) -> Result<(Self, Findings), UbifsError> {
        let mut report = Report::new(options.strict);
        let found = sb::load(device, &mut report)?;
        let (volume, is_guess) = (Arc::new(Volume::new(found.device, found.sb)), found.is_guess);
        let selected = if is_guess { None } else { master::select(&volume, &mut report)? };
        let mut fs = match selected {
            Some(selected) => Self::mount(&volume, selected, &mut report)?,
            None if is_guess => Self::rescue(&volume, None).ok_or(UbifsError::NotUbifs {
                lebs: volume.main_end(),
                leb_size: volume.leb_size(),
            })?,
            None => Self::rescue(&volume, None).ok_or_else(|| nothing_left(&volume))?,
        };
        fs.check_root_directory(&mut report)?;
        fs.note_what_happened(&mut report);
        report.findings.append(volume.late.snapshot());
        Ok((fs, report.findings))
    }

    pub(crate) fn new(tnc: Tnc, master: Option<Master>) -> Self {
        Self {
            tnc,
            inodes: InodeCache::new(),
            scratch: ScratchPool::default(),
            sizes: HashMap::new(),
            master,
            info: MountInfo::default(),
        }
    }

    /// Returns everything found by a scan of all nodes, or `None` if there is nothing.
    fn rescue(volume: &Arc<Volume>, master: Option<Master>) -> Option<Self> {
        let rescued = rescue::collect(volume);
        if rescued.nodes == 0 {
            return None;
        }
        let mut tnc = Tnc::new(Arc::clone(volume), None);
        tnc.overlay = rescued.overlay;
        let mut fs = Self::new(tnc, master);
        fs.info.is_rescued = true;
        fs.info.replayed_nodes = rescued.nodes;
        fs.info.sizes_fixed = rescued.sizes.len() as u64;
        fs.sizes = rescued.sizes;
        Some(fs)
    }

    fn mount(
        volume: &Arc<Volume>,
        selected: Selected,
        report: &mut Report,
    ) -> Result<Self, UbifsError> {
        let master = selected.master;
        let mut tnc = Tnc::new(Arc::clone(volume), Some(master.root()));
        let root_sqnum = match tnc.index.check_root() {
            Ok(sqnum) => sqnum,
            Err(error) => {
                report.refuse_node("index-root-lost", error)?;
                return Self::rescue(volume, Some(master)).ok_or_else(|| nothing_left(volume));
            }
        };
        let need_recovery = selected.was_recovered || master.has(master_flags::DIRTY);
        let log = log::walk(volume, &master, need_recovery, report)?;
        let mut journal = if log.is_lost {
            replay::read_newer_than(volume, root_sqnum, report)
        } else {
            replay::read_buds(volume, &log, need_recovery, report)?
        };
        if !report.is_strict() {
            journal.drop_outdated(&tnc, log.cs_sqnum);
        }
        let journal_bytes = journal.bytes;
        let outcome = if need_recovery || log.is_lost {
            journal.apply_and_fix(&mut tnc, report)
        } else {
            journal.apply(&mut tnc, report)
        };
        let mut killed = orphan::Killed::default();
        if need_recovery && !master.has(master_flags::NO_ORPHANS) {
            killed = orphan::kill(&mut tnc, report)?;
        }
        let mut fs = Self::new(tnc, Some(master));
        fs.info = MountInfo {
            is_clean: !need_recovery,
            is_rescued: false,
            buds: log.buds.len() as u64,
            replayed_nodes: outcome.nodes,
            journal_bytes,
            orphans_removed: killed.inodes,
            orphan_attributes_removed: killed.attributes,
            sizes_fixed: outcome.sizes.len() as u64,
        };
        fs.sizes = outcome.sizes;
        Ok(fs)
    }

    /// Linux reads the root directory last and fails if it cannot (5.1 step 19).
    pub(crate) fn check_root_directory(&self, report: &mut Report) -> Result<(), UbifsError> {
        let Err(error) = self.stored_inode(ROOT_INO) else { return Ok(()) };
        let message = format!("{error}; a directory with mode 0755 and owner 0 is assumed");
        report.refuse(Location::Inode(ROOT_INO.into()), "root-lost", message)
    }

    fn note_what_happened(&mut self, report: &mut Report) {
        let info = &self.info;
        if info.replayed_nodes > 0 && !info.is_rescued {
            let message = format!("{} nodes of {} buds", info.replayed_nodes, info.buds);
            report.findings.note(Location::Whole, codes::JOURNAL_REPLAYED, message);
        }
        if info.orphans_removed > 0 {
            let message = format!("{} deleted files that were open", info.orphans_removed);
            report.findings.note(
                leb_start(self.superblock().orph_first()),
                codes::ORPHANS_REMOVED,
                message,
            );
        }
    }

    /// Returns the superblock, grown to the volume. If it was lost, returns a substitute.
    pub fn superblock(&self) -> &Superblock {
        &self.tnc.volume.sb
    }

    /// Returns the master node in use, or `None` if there is none.
    pub fn master(&self) -> Option<&Master> {
        self.master.as_ref()
    }

    /// Returns the result of opening.
    pub fn info(&self) -> &MountInfo {
        &self.info
    }

    /// Returns findings made since the volume was opened, when damaged nodes were read.
    pub fn late_findings(&self) -> Findings {
        self.tnc.volume.late.snapshot()
    }
}
