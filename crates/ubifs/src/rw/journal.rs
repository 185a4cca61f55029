//! The journal: its heads, the log of their LEBs, and the sequence numbers of all nodes (layer 4;
//! spec: ubifs-runtime 7.6, 8.1).
//!
//! The journal neither finds LEBs nor commits. It returns [`Fault::CommitFirst`] if the log is
//! full, and the driver (`make_room`) gives a head its next LEB.
//!
//! # Invariants
//! 1. Space is reserved before sequence numbers are taken, so that within a head they ascend.
//! 2. Nodes of one operation lie in one LEB, one after the other.
//! 3. The LEB of a head that can still be written to is a bud of the log.

use super::error::{Fault, Step};
use super::flash::Flash;
use super::log::{Bud, Log};
use super::lprops::{Lprops, Use};
use super::place::Place;
use super::sqnum::Sqnums;
use super::wbuf::{Head, Wbuf};

/// The journal.
#[derive(Debug)]
pub(super) struct Journal {
    heads: [Wbuf; Head::ALL.len()],
    pub(super) log: Log,
    pub(super) sqnums: Sqnums,
}

impl Journal {
    /// Returns a journal without LEBs.
    pub(super) fn new(log: Log, sqnums: Sqnums) -> Self {
        Self { heads: Default::default(), log, sqnums }
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.log.memory() + self.heads.iter().map(Wbuf::memory).sum::<usize>()
    }

    pub(super) fn head(&self, head: Head) -> &Wbuf {
        &self.heads[head as usize]
    }

    fn head_mut(&mut self, head: Head) -> &mut Wbuf {
        &mut self.heads[head as usize]
    }

    /// Returns the head that writes to a LEB.
    pub(super) fn head_in(&self, leb: u32) -> Option<&Wbuf> {
        self.heads.iter().find(|head| head.leb() == Some(leb))
    }

    /// Returns whether `len` bytes fit in the LEB of a head.
    pub(super) fn has_room_for(&self, flash: &Flash, head: Head, len: u32) -> bool {
        self.head(head).leb().is_some() && self.head(head).room(flash) >= len
    }

    /// Continues a head at `start`, in a LEB that is taken. Returns the LEB if it cannot.
    pub(super) fn move_head(
        &mut self,
        flash: &mut Flash,
        lprops: &mut Lprops,
        head: Head,
        start: Place,
    ) -> Step<()> {
        #[cfg(debug_assertions)]
        lprops.assert_taken(flash, start.leb);
        // The old LEB is complete on flash before the log names the next one: a mount expects torn
        // nodes only in the last LEB of each head.
        self.sync_head(flash, lprops, head)?;
        if let Err(fault) = self.log.add_bud(flash, &mut self.sqnums, head, start) {
            if !matches!(fault, Fault::CommitFirst) {
                let reason = format!("moving a journal head: {}", fault.describe());
                flash.turn_read_only(&reason);
            }
            lprops.set_use(flash, start.leb, Use::Available)?;
            return Err(fault);
        }
        self.head_mut(head).seek(start);
        Ok(())
    }

    /// Makes `leb`, which is empty and taken, the LEB of the head of garbage collection. The buffer
    /// of that head must be on flash.
    pub(super) fn start_gc_leb(&mut self, flash: &mut Flash, leb: u32) -> Step<()> {
        let start = Place::start_of(leb);
        self.log.add_bud(flash, &mut self.sqnums, Head::Gc, start)?;
        self.head_mut(Head::Gc).seek(start);
        Ok(())
    }

    /// Continues a head after the replayed nodes of a bud; invariant 2 of `replay`.
    pub(super) fn take_replayed_bud(&mut self, flash: &Flash, leb: u32, bud: Bud, end: u32) {
        self.log.take_replayed_bud(flash, leb, bud);
        self.head_mut(bud.head).seek(Place { leb, offset: end });
    }

    /// Writes out one write-buffer.
    pub(super) fn sync_head(
        &mut self,
        flash: &mut Flash,
        lprops: &mut Lprops,
        head: Head,
    ) -> Step<()> {
        self.head_mut(head).sync(flash, lprops)
    }

    /// Writes out all write-buffers.
    pub(super) fn sync_heads(&mut self, flash: &mut Flash, lprops: &mut Lprops) -> Step<()> {
        for head in [Head::Base, Head::Data, Head::Gc] {
            self.sync_head(flash, lprops, head)?;
        }
        Ok(())
    }

    /// Writes out the buffers that the durability of an inode depends on.
    pub(super) fn sync_inode_heads(
        &mut self,
        flash: &mut Flash,
        lprops: &mut Lprops,
        ino: u32,
    ) -> Step<()> {
        for head in [Head::Base, Head::Data] {
            if self.head(head).inos.contains(&ino) {
                self.sync_head(flash, lprops, head)?;
            }
        }
        Ok(())
    }

    /// Appends nodes for which space was reserved to a head.
    pub(super) fn append(
        &mut self,
        flash: &mut Flash,
        lprops: &mut Lprops,
        head: Head,
        nodes: &[u8],
    ) -> Step<Place> {
        let result = self.head_mut(head).append(flash, lprops, nodes);
        if let Err(fault) = &result {
            flash.turn_read_only(&format!("writing the journal: {}", fault.describe()));
        }
        result
    }

    /// Records that the durability of inodes depends on the buffer of a head.
    pub(super) fn depends(&mut self, head: Head, inos: &[u32]) {
        self.head_mut(head).inos.extend(inos);
    }

    /// Starts the log of the next commit; returns its first LEB. All buffers must be on flash,
    /// because the new log refers to the end of each head.
    pub(super) fn begin_commit(&mut self, flash: &mut Flash, cmt_no: u64) -> Step<u32> {
        debug_assert!(self.heads.iter().all(Wbuf::is_synced), "a commit begins with a full buffer");
        self.log.begin_next(flash, &mut self.sqnums, &mut self.heads, cmt_no)
    }

    /// Reads a node from flash or from the write-buffer that still holds it.
    pub(super) fn read_node(&self, flash: &Flash, place: Place, buf: &mut [u8]) -> Step<()> {
        if u64::from(place.offset) + buf.len() as u64 > u64::from(flash.leb_size) {
            let message = "a node leaves its LEB";
            return Err(Fault::refused(place.location(), "node-leaves-leb", message));
        }
        if !self.heads.iter().any(|wbuf| wbuf.holds(place)) {
            flash.read(place.leb, place.offset, buf)?;
        }
        self.overlay(place, buf);
        Ok(())
    }

    /// Replaces bytes read from a place by newer ones of the write-buffers.
    pub(super) fn overlay(&self, place: Place, bytes: &mut [u8]) {
        for wbuf in &self.heads {
            wbuf.overlay(place, bytes);
        }
    }

    /// Asserts invariant 3, and that the LEBs of the journal are taken.
    #[cfg(debug_assertions)]
    pub(super) fn assert_heads(&self, flash: &Flash, lprops: &Lprops) {
        for place in self.heads.iter().filter_map(|head| head.open_place(flash)) {
            assert!(self.contains(place), "the log does not name the head at {place:?}");
        }
        for leb in self.log.buds().keys() {
            lprops.assert_taken(flash, *leb);
        }
    }

    /// Returns whether a place is in the journal.
    pub(super) fn contains(&self, place: Place) -> bool {
        self.log.buds().get(&place.leb).is_some_and(|bud| place.offset >= bud.start)
    }
}
