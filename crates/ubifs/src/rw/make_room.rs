//! The driver: runs commits and garbage collection for the steps that need one first (layer 9).
//!
//! The steps below never call upwards. A journal head that needs a LEB gets none from `find` and
//! asks for a collection; the log and garbage collection return [`Fault::CommitFirst`]. Only this
//! module answers them, by running the step that was asked for and repeating.
//!
//! # Invariants
//! 1. Every loop ends: a reservation after [`PATIENCE`] commits, and after two that freed nothing.
//! 2. The LEBs that the index may need stay empty as long as garbage collection can free others for the
//!    journal: a commit that finds none cannot write the index, and turns the file system read-only.

use super::error::{Fault, Step};
use super::find::Prefer;
use super::flash::align8;
use super::gc::Purpose;
use super::lprops::Use;
use super::nodes::Nodes;
use super::place::Place;
use super::store::Store;
use super::wbuf::Head;

/// Number of commits that a reservation tries before it gives up.
const PATIENCE: u32 = 128;

/// Number of LEBs that are collected for the index before the journal gets one.
const MOST_FOR_INDEX: u32 = 32;

/// Whether the journal may take the LEBs that the index may need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum IndexReserve {
    Kept,
    /// Nothing else is left for data that was accepted.
    Open,
}

impl Store {
    /// Ensures that `len` bytes can be appended to a head; commits and collects garbage if
    /// necessary.
    pub(super) fn reserve_in(&mut self, head: Head, len: u32) -> Step<()> {
        let mut no_space = 0;
        for _ in 0..PATIENCE {
            let reserve = if no_space < 2 { IndexReserve::Kept } else { IndexReserve::Open };
            match self.try_reserve(head, align8(len), reserve) {
                Err(Fault::CommitFirst) => self.commit()?,
                // A commit frees what the last one still needed, and then its own leftovers.
                Err(fault) if fault.is_no_space() && reserve == IndexReserve::Kept => {
                    no_space += 1;
                    self.commit()?;
                }
                result => return result,
            }
        }
        Err(Fault::no_space())
    }

    fn try_reserve(&mut self, head: Head, len: u32, reserve: IndexReserve) -> Step<()> {
        self.nodes.flash.check_writable()?;
        if self.nodes.journal.has_room_for(&self.nodes.flash, head, len) {
            return Ok(());
        }
        let start = self.find_or_collect(head, len, reserve)?;
        let Nodes { flash, lprops, journal, .. } = &mut self.nodes;
        // Garbage collection may have moved this head.
        if journal.has_room_for(flash, head, len) {
            return lprops.set_use(flash, start.leb, Use::Available);
        }
        journal.move_head(flash, lprops, head, start)
    }

    /// Takes a LEB with `len` free bytes at its end.
    fn find_or_collect(&mut self, head: Head, len: u32, reserve: IndexReserve) -> Step<Place> {
        let prefer = if head == Head::Base { Prefer::PartlyUsed } else { Prefer::Empty };
        for _ in 0..MOST_FOR_INDEX {
            let supply = self.supply();
            let Nodes { flash, lprops, .. } = &mut self.nodes;
            if let Some(start) = lprops.find_room(flash, supply, len, prefer)? {
                return Ok(start);
            }
            let leb = self.collect(Purpose::Journal)?;
            let supply = self.supply();
            let Nodes { flash, lprops, .. } = &mut self.nodes;
            if reserve == IndexReserve::Open || supply.has_index_reserve(lprops) {
                return Ok(Place::start_of(leb));
            }
            lprops.set_use(flash, leb, Use::Available)?;
        }
        Err(Fault::no_space())
    }

    fn collect(&mut self, purpose: Purpose) -> Step<u32> {
        let min_idx_lebs = self.budget.min_idx_lebs(&self.nodes.flash);
        self.gc.collect(&mut self.nodes, min_idx_lebs, purpose)
    }

    /// Frees space for the budget: collects garbage, or commits if that frees nothing (spec:
    /// ubifs-runtime 15.7). Fails if neither can.
    pub(super) fn free_space(&mut self) -> Step<()> {
        match self.collect(Purpose::Budget) {
            Ok(leb) => {
                let Nodes { flash, lprops, .. } = &mut self.nodes;
                return lprops.set_use(flash, leb, Use::Available);
            }
            Err(Fault::CommitFirst) => {}
            Err(fault) if fault.is_no_space() => {}
            Err(fault) => return Err(fault),
        }
        if self.has_uncommitted() {
            return self.commit();
        }
        Err(Fault::no_space())
    }

    /// Commits if the journal has grown so large that a commit is due.
    pub(super) fn commit_if_due(&mut self) -> Step<()> {
        let is_due = self.nodes.journal.log.wants_commit;
        if is_due && self.nodes.flash.why_read_only.is_none() { self.commit() } else { Ok(()) }
    }
}
