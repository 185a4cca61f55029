//! Commits the changes of the journal to the index (layer 9; spec: ubifs-runtime 11).
//!
//! A commit runs as one step between operations, so there is no copy-on-write and every commit is
//! complete or has turned the file system read-only.
//!
//! # Invariants
//! 1. Everything that the last master refers to stays unchanged until both copies of the next one
//!    are on flash.
//! 2. Children are written before their parents; the master comes last.

use super::error::Step;
use super::index_write::write_index;
use super::nodes::Nodes;
use super::orphan::Numbers;
use super::place::Place;
use super::store::Store;
use eraseblock_ubifs_format::Master;
use eraseblock_ubifs_format::constants::master_flags;

impl Store {
    /// Returns whether there are changes that the index on flash does not contain.
    pub(super) fn has_uncommitted(&self) -> bool {
        let Nodes { tnc, lprops, .. } = &self.nodes;
        tnc.is_dirty() || lprops.lpt.is_dirty() || !self.gc.queued().is_empty()
    }

    /// Commits if there is anything to commit.
    pub(super) fn commit(&mut self) -> Step<()> {
        self.nodes.flash.check_writable()?;
        self.nodes.sync_heads()?;
        if !self.has_uncommitted() {
            self.nodes.journal.log.wants_commit = false;
            return Ok(());
        }
        self.commit_always()
    }

    /// Commits even when there is nothing to commit.
    pub(super) fn commit_always(&mut self) -> Step<()> {
        #[cfg(debug_assertions)]
        self.assert_consistent();
        let result = self.run_commit();
        #[cfg(debug_assertions)]
        if result.is_ok() {
            self.assert_consistent();
        }
        self.nodes.flash.must(result, "commit")
    }

    fn run_commit(&mut self) -> Step<()> {
        // The buffers first: the new log refers to the end of each head, and the new index to nodes
        // that would be lost with a buffer.
        self.nodes.sync_heads()?;
        self.cmt_no += 1;
        self.nodes.flash.activity.commits += 1;
        self.gc.prepare_commit(&mut self.nodes)?;
        // The log before the index: until the master below, a cut leaves the old tail, and a mount
        // replays the old log and the new one after it. The new log covers what is written to the
        // heads from now on.
        let tail = self.nodes.journal.begin_commit(&mut self.nodes.flash, self.cmt_no)?;
        self.write_trees()?;
        // The orphans before the master, which drops the deletions in the journal.
        let Nodes { flash, journal, .. } = &mut self.nodes;
        let numbers = Numbers { sqnums: &mut journal.sqnums, cmt_no: self.cmt_no };
        self.orphans.write(flash, numbers)?;
        // The switch: a cut before it leads to the old trees with the old log, one after it to the
        // new ones.
        self.fill_master(tail);
        self.write_master()?;
        self.drop_old(tail)
    }

    /// Writes the index, then the LPT, which accounts for the LEBs of the index.
    fn write_trees(&mut self) -> Step<()> {
        let head = write_index(&mut self.nodes, &mut self.gc, self.master.index_head())?;
        (self.master.node.ihead_lnum, self.master.node.ihead_offs) = (head.leb, head.offset);
        let Nodes { flash, lprops, tnc, .. } = &mut self.nodes;
        debug_assert!(!tnc.is_dirty(), "a dirty znode was not written");
        self.budget.committed(tnc.index_size);
        lprops.write(flash)
    }

    /// Gives up what only the old master referred to, once the new one is on flash. A cut in between
    /// leaves LEBs of the old log, which the next mount recognizes by their sequence numbers, and
    /// old index and LPT LEBs, which are erased before they are used again.
    fn drop_old(&mut self, tail: u32) -> Step<()> {
        let Nodes { flash, lprops, journal, tnc } = &mut self.nodes;
        tnc.old.clear();
        journal.log.drop_old(flash, lprops, tail)?;
        self.gc.erase_queued(&mut self.nodes)?;
        self.gc.unpin(&mut self.nodes)?;
        let Nodes { flash, lprops, .. } = &mut self.nodes;
        lprops.lpt.committed(flash)
    }

    pub(super) fn write_master(&mut self) -> Step<()> {
        let Nodes { flash, journal, .. } = &mut self.nodes;
        self.master.write(flash, &mut journal.sqnums)
    }

    /// Writes the master of a clean unmount; everything must be committed.
    pub(super) fn write_clean_master(&mut self) -> Step<()> {
        let Nodes { flash, journal, .. } = &mut self.nodes;
        self.master.write_clean(flash, &mut journal.sqnums, self.gc.reserved())
    }

    /// Writes a master that marks the file system as in use, after [`Store::write_clean_master`].
    pub(super) fn write_in_use_master(&mut self) -> Step<()> {
        let Nodes { flash, journal, .. } = &mut self.nodes;
        self.master.write_in_use(flash, &mut journal.sqnums)
    }

    fn fill_master(&mut self, tail: u32) {
        let Nodes { flash, lprops, tnc, .. } = &self.nodes;
        let unsigned = |value: i64| u64::try_from(value).unwrap_or(0);
        let count = |value: i64| u32::try_from(value).unwrap_or(0);
        let stats = lprops.stats;
        let lpt = &lprops.lpt;
        let root = tnc.root;
        let lpt_root = Place::stored(lpt.root());
        let flags = self.master.node.flags & !master_flags::NO_ORPHANS;
        let no_orphans = if self.orphans.is_empty() { master_flags::NO_ORPHANS } else { 0 };
        self.master.node = Master {
            cmt_no: self.cmt_no,
            flags: flags | no_orphans,
            log_lnum: tail,
            root_lnum: root.leb,
            root_offs: root.offset,
            root_len: root.len,
            index_size: tnc.index_size,
            total_free: unsigned(stats.total_free),
            total_dirty: unsigned(stats.total_dirty),
            total_used: unsigned(stats.total_used),
            total_dead: unsigned(stats.total_dead),
            total_dark: unsigned(stats.total_dark),
            lpt_lnum: lpt_root.0,
            lpt_offs: lpt_root.1,
            nhead_lnum: lpt.head.leb,
            nhead_offs: lpt.head.offset,
            ltab_lnum: lpt.ltab_at.leb,
            ltab_offs: lpt.ltab_at.offset,
            lsave_lnum: lpt.lsave_at.leb,
            lsave_offs: lpt.lsave_at.offset,
            lscan_lnum: lprops.lscan,
            empty_lebs: count(stats.empty_lebs),
            idx_lebs: count(stats.idx_lebs),
            leb_cnt: flash.leb_cnt,
            ..self.master.node.clone()
        };
    }
}
