//! Commits the changes of the journal to the index (spec: ubifs-runtime 11).
//!
//! A commit runs as one step between operations, so there is no copy-on-write and every commit is
//! complete or has turned the file system read-only.
//!
//! # Invariants
//! 1. Everything that the last master refers to stays unchanged until both copies of the next one
//!    are on flash.
//! 2. Children are written before their parents; the master comes last.

use super::core::Core;
use super::error::Step;
use eraseblock_ubifs_format::Master;
use eraseblock_ubifs_format::constants::{MASTER_LEB, master_flags};
use eraseblock_ubifs_format::encode;

impl Core {
    /// Returns whether there are changes that the index on flash does not contain.
    pub(super) fn has_uncommitted(&self) -> bool {
        self.tnc.is_dirty() || self.lprops.lpt.is_dirty() || !self.gc.queued.is_empty()
    }

    /// Commits if there is anything to commit.
    pub(super) fn commit(&mut self) -> Step<()> {
        self.flash.check_writable()?;
        self.sync_heads()?;
        if !self.has_uncommitted() {
            self.log.wants_commit = false;
            return Ok(());
        }
        self.commit_always()
    }

    /// Commits even when there is nothing to commit.
    pub(super) fn commit_always(&mut self) -> Step<()> {
        let result = self.run_commit();
        self.must(result, "commit")
    }

    fn run_commit(&mut self) -> Step<()> {
        self.sync_heads()?;
        self.cmt_no += 1;
        self.flash.activity.commits += 1;
        self.gc_start_commit()?;
        let tail = self.log_start_commit()?;
        self.write_index()?;
        self.budget_committed(self.tnc.index_size);
        self.lprops.write(&mut self.flash)?;
        self.write_orphans()?;
        self.fill_master(tail);
        self.write_master()?;
        self.tnc.old.clear();
        self.log_end_commit(tail)?;
        self.gc_end_commit()?;
        self.let_go()?;
        let Self { flash, lprops, .. } = self;
        lprops.lpt.committed(flash)
    }

    fn fill_master(&mut self, tail: u32) {
        let unsigned = |value: i64| u64::try_from(value).unwrap_or(0);
        let count = |value: i64| u32::try_from(value).unwrap_or(0);
        let stats = self.lprops.stats;
        let lpt = &self.lprops.lpt;
        let root = self.tnc.root;
        let flags = self.master.flags & !master_flags::NO_ORPHANS;
        let no_orphans = if self.orphans.is_empty() { master_flags::NO_ORPHANS } else { 0 };
        self.master = Master {
            cmt_no: self.cmt_no,
            flags: flags | no_orphans,
            log_lnum: tail,
            root_lnum: root.leb,
            root_offs: root.offset,
            root_len: root.len,
            index_size: self.tnc.index_size,
            total_free: unsigned(stats.total_free),
            total_dirty: unsigned(stats.total_dirty),
            total_used: unsigned(stats.total_used),
            total_dead: unsigned(stats.total_dead),
            total_dark: unsigned(stats.total_dark),
            lpt_lnum: lpt.root().leb,
            lpt_offs: lpt.root().offset,
            nhead_lnum: lpt.head.leb,
            nhead_offs: lpt.head.offset,
            ltab_lnum: lpt.ltab_at.leb,
            ltab_offs: lpt.ltab_at.offset,
            lsave_lnum: lpt.lsave_at.leb,
            lsave_offs: lpt.lsave_at.offset,
            lscan_lnum: self.lprops.lscan,
            empty_lebs: count(stats.empty_lebs),
            idx_lebs: count(stats.idx_lebs),
            leb_cnt: self.flash.leb_cnt,
            ..self.master.clone()
        };
    }

    /// Appends the master node to both master LEBs (spec: ubifs-runtime 6.2).
    pub(super) fn write_master(&mut self) -> Step<()> {
        let slot = self.flash.mst_alsz;
        let mut offset = self.master_offset + slot;
        if offset + slot > self.flash.leb_size {
            self.flash.unmap(MASTER_LEB)?;
            offset = 0;
        }
        self.master.highest_inum = self.highest_inum.into();
        let mut node = Vec::with_capacity(slot as usize);
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            if offset == 0 && leb != MASTER_LEB {
                self.flash.unmap(leb)?;
            }
            self.master.sqnum = self.next_sqnum()?;
            node.clear();
            encode::master(&mut node, &self.master);
            encode::pad(&mut node, self.flash.min_io);
            self.flash.write(leb, offset, &node)?;
        }
        self.master_offset = offset;
        Ok(())
    }
}
