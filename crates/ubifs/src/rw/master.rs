//! The master area: the root of everything on flash, in two copies (layer 5; spec: ubifs-runtime
//! 6).
//!
//! # Invariants
//! 1. At any time at least one of the two LEBs holds a complete master.
//! 2. Everything that a master refers to is on flash before the master is written.

use super::error::{Fault, Step};
use super::flash::Flash;
use super::place::Place;
use super::sqnum::Sqnums;
use eraseblock_ubifs_format::Master;
use eraseblock_ubifs_format::constants::{INO_LIMIT, MASTER_LEB, master_flags};
use eraseblock_ubifs_format::encode;

/// The last master and its place.
#[derive(Debug)]
pub(super) struct MasterArea {
    pub(super) node: Master,
    /// Offset of the last master node in both LEBs.
    offset: u32,
    highest_inum: u32,
}

impl MasterArea {
    /// Continues after a master node at `offset`.
    pub(super) fn new(node: Master, offset: u32) -> Self {
        let highest_inum = u32::try_from(node.highest_inum).unwrap_or(u32::MAX);
        Self { node, offset, highest_inum }
    }

    /// Returns the end of the last master node.
    pub(super) fn end(&self, flash: &Flash) -> u32 {
        self.offset + flash.mst_alsz
    }

    /// Returns the end of the index.
    pub(super) fn index_head(&self) -> Place {
        Place { leb: self.node.ihead_lnum, offset: self.node.ihead_offs }
    }

    /// Returns a number for a new inode (spec: ubifs-runtime 9.16).
    pub(super) fn next_inum(&mut self, flash: &mut Flash) -> Step<u32> {
        if self.highest_inum + 1 >= INO_LIMIT {
            flash.turn_read_only("inode numbers are used up");
            flash.check_writable()?;
        }
        self.highest_inum += 1;
        Ok(self.highest_inum)
    }

    /// Records an inode number found in the journal.
    pub(super) fn raise_inum(&mut self, found: u32) {
        self.highest_inum = self.highest_inum.max(found);
    }

    /// Appends the master node to both LEBs (spec: ubifs-runtime 6.2).
    pub(super) fn write(&mut self, flash: &mut Flash, sqnums: &mut Sqnums) -> Step<()> {
        let slot = flash.mst_alsz;
        let mut offset = self.offset + slot;
        if offset + slot > flash.leb_size {
            // One LEB after the other: until the first copy in the new round is complete, the
            // second LEB keeps the last master.
            flash.unmap(MASTER_LEB)?;
            flash.activity.master_wraps += 1;
            offset = 0;
        }
        self.node.highest_inum = self.highest_inum.into();
        let mut node = Vec::with_capacity(slot as usize);
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            if offset == 0 && leb != MASTER_LEB {
                flash.unmap(leb)?;
            }
            self.node.sqnum = sqnums.take(flash)?;
            node.clear();
            encode::master(&mut node, &self.node);
            encode::pad(&mut node, flash.min_io);
            flash.write(leb, offset, &node)?;
        }
        self.offset = offset;
        Ok(())
    }

    /// Replaces both LEBs atomically by the current master, which keeps its sequence number (6.4).
    pub(super) fn renew(&mut self, flash: &mut Flash) -> Step<()> {
        let mut master = self.node.clone();
        master.flags |= master_flags::RECOVERY;
        let mut node = Vec::new();
        encode::master(&mut node, &master);
        encode::pad(&mut node, flash.min_io);
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            flash.change(leb, &node)?;
        }
        self.offset = 0;
        Ok(())
    }

    /// Writes a clean master, the last write of an unmount (spec: ubifs-runtime 5.5). The next
    /// mount neither replays with recovery nor looks for orphans, and uses the reserved LEB.
    pub(super) fn write_clean(
        &mut self,
        flash: &mut Flash,
        sqnums: &mut Sqnums,
        reserved: Option<u32>,
    ) -> Step<()> {
        let Some(reserved) = reserved else {
            let message = "no LEB is reserved for garbage collection";
            return Err(Fault::refused(eraseblock_base::Location::Whole, "gc-leb-lost", message));
        };
        self.node.flags &= !master_flags::DIRTY;
        self.node.flags |= master_flags::NO_ORPHANS;
        self.node.gc_lnum = reserved;
        self.write(flash, sqnums)
    }

    /// Marks the file system as in use in a new master, if it is not. Before the first write to the
    /// journal: after a cut, the next mount must know that the ends of the journal may be torn.
    pub(super) fn write_in_use(&mut self, flash: &mut Flash, sqnums: &mut Sqnums) -> Step<()> {
        if self.node.has(master_flags::DIRTY) {
            return Ok(());
        }
        self.node.flags |= master_flags::DIRTY;
        self.write(flash, sqnums)
    }
}
