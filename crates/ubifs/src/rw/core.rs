//! The state of a file system mounted for writing.

use super::MountOptions;
use super::budget::Budget;
use super::error::Step;
use super::flash::Flash;
use super::gc::Gc;
use super::inode::InodeTable;
use super::log::Log;
use super::lprops::Lprops;
use super::orphan::Orphans;
use super::pages::Pages;
use super::tnc::Tnc;
use super::wbuf::Wbuf;
use eraseblock_base::Findings;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::Master;
use eraseblock_ubifs_format::constants::{INO_LIMIT, sb_flags};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The file system protected by its lock.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) flash: Flash,
    /// The volume without the repairs that a read-only mount makes in memory; otherwise the volume
    /// being written.
    pub(super) as_found: Arc<dyn LebDevice>,
    pub(super) master: Master,
    /// Offset of the last master node in both master LEBs.
    pub(super) master_offset: u32,
    pub(super) lprops: Lprops,
    pub(super) tnc: Tnc,
    pub(super) heads: [Wbuf; 3],
    pub(super) log: Log,
    pub(super) budget: Budget,
    pub(super) gc: Gc,
    /// LEBs kept only so that a mount after a power cut can still read dead inodes; taken until the
    /// next commit (spec: ubifs-runtime 18.6).
    pub(super) held: BTreeSet<u32>,
    pub(super) orphans: Orphans,
    pub(super) inodes: InodeTable,
    pub(super) pages: Pages,
    pub(super) options: MountOptions,
    pub(super) max_sqnum: u64,
    pub(super) highest_inum: u32,
    pub(super) cmt_no: u64,
    /// Mounted, or remounted, read-only by the caller.
    pub(super) is_read_only: bool,
    pub(super) findings: Findings,
}

impl Core {
    /// Returns the approximate memory in bytes: the loaded part of the index, the properties of all
    /// LEBs, inodes, orphans, buds, write buffers and pages.
    pub(super) fn memory(&self) -> usize {
        let heads: usize = self.heads.iter().map(Wbuf::memory).sum();
        size_of::<Self>()
            + self.flash.memory()
            + self.tnc.memory()
            + self.lprops.memory()
            + self.inodes.memory()
            + self.orphans.memory()
            + self.log.memory()
            + self.pages.memory()
            + heads
    }

    /// Returns a number for a new inode (spec: ubifs-runtime 9.16).
    pub(super) fn next_inum(&mut self) -> Step<u32> {
        if self.highest_inum + 1 >= INO_LIMIT {
            self.flash.turn_read_only("inode numbers are used up");
            self.flash.check_writable()?;
        }
        self.highest_inum += 1;
        Ok(self.highest_inum)
    }

    /// Returns the cookie of a new entry: any number if entries have cookies, otherwise 0 (spec:
    /// ubifs-runtime 8.4).
    pub(super) fn cookie(&self) -> u32 {
        if !self.flash.sb.has(sb_flags::DOUBLE_HASH) {
            return 0;
        }
        (self.max_sqnum.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
    }

    /// Turns read-only if a step failed that must not fail, because memory and flash may disagree.
    pub(super) fn must<T>(&mut self, result: Step<T>, what: &str) -> Step<T> {
        if let Err(fault) = &result {
            let reason = format!("{what}: {}", fault.describe());
            self.flash.turn_read_only(&reason);
        }
        result
    }

    /// Ends an operation: commits if the journal requires it, and frees memory beyond its limit.
    pub(super) fn end_operation(&mut self) -> Step<()> {
        if self.log.wants_commit && self.flash.why_read_only.is_none() {
            self.commit()?;
        }
        self.shrink();
        Ok(())
    }

    pub(super) fn shrink(&mut self) {
        let most = self.options.index_nodes_most(&self.flash);
        if self.tnc.loaded() > most {
            self.tnc.shrink(most - most / 8);
        }
        self.inodes.shrink();
    }
}
