//! The driver: runs commits and garbage collection for the steps that need one first (layer 9).
//!
//! The steps below never call upwards. A journal head that needs a LEB gets none from `find` and
//! asks for a collection; the log and garbage collection return [`Fault::CommitFirst`]. Only this
//! module answers them, by running the step that was asked for and repeating.
//!
//! # Invariants
//! 1. Every loop ends: a reservation after [`PATIENCE`] commits, and after two that freed nothing.

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

impl Store {
    /// Ensures that `len` bytes can be appended to a head; commits and collects garbage if
    /// necessary.
    pub(super) fn reserve_in(&mut self, head: Head, len: u32) -> Step<()> {
        let mut no_space = 0;
        for _ in 0..PATIENCE {
            match self.try_reserve(head, align8(len)) {
                Err(Fault::CommitFirst) => self.commit()?,
                // A commit frees what the last one still needed, and then its own leftovers.
                Err(fault) if fault.is_no_space() && no_space < 2 => {
                    no_space += 1;
                    self.commit()?;
                }
                result => return result,
            }
        }
        Err(Fault::no_space())
    }

    fn try_reserve(&mut self, head: Head, len: u32) -> Step<()> {
        self.nodes.flash.check_writable()?;
        if self.nodes.journal.has_room_for(&self.nodes.flash, head, len) {
            return Ok(());
        }
        let start = self.find_or_collect(head, len)?;
        let Nodes { flash, lprops, journal, .. } = &mut self.nodes;
        // Garbage collection may have moved this head.
        if journal.has_room_for(flash, head, len) {
            return lprops.set_use(flash, start.leb, Use::Available);
        }
        journal.move_head(flash, lprops, head, start)
    }

    /// Takes a LEB with `len` free bytes at its end.
    fn find_or_collect(&mut self, head: Head, len: u32) -> Step<Place> {
        let supply = self.supply();
        let Nodes { flash, lprops, .. } = &mut self.nodes;
        let prefer = if head == Head::Base { Prefer::PartlyUsed } else { Prefer::Empty };
        match lprops.find_room(flash, supply, len, prefer)? {
            Some(start) => Ok(start),
            None => self.collect(Purpose::Journal).map(Place::start_of),
        }
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
