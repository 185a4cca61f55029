//! The log, which lists the LEBs of the journal (layer 4; spec: ubifs-runtime 7).
//!
//! # Invariants
//! 1. Every LEB that a journal head writes to is in `buds`, with the offset at which its journal
//!    part begins.
//! 2. The head never runs into the tail: a LEB is kept for the next commit start.
//! 3. A LEB is referred to on flash before its first node is written, because a mount replays only
//!    the LEBs that the log names.

use super::error::{Fault, Step, at};
use super::flash::Flash;
use super::lprops::{Lprops, Use};
use super::place::Place;
use super::sqnum::Sqnums;
use super::wbuf::{Head, Wbuf};
use eraseblock_base::Leb;
use eraseblock_base::align::align_up_usize;
use eraseblock_ubifs_format::constants::{LOG_FIRST, NodeType};
use eraseblock_ubifs_format::encode::{self, Seal};
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::{CommitStart, Reference};
use std::collections::{BTreeMap, BTreeSet};

/// A LEB of the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bud {
    pub(super) head: Head,
    pub(super) start: u32,
}

/// The log in memory.
#[derive(Debug)]
pub(super) struct Log {
    /// Where the next reference goes.
    head: Place,
    /// The LEB with the last commit start.
    tail: u32,
    buds: BTreeMap<u32, Bud>,
    /// Buds that the running commit closes.
    old_buds: Vec<u32>,
    bud_bytes: u64,
    /// Bytes that leave the journal with the running commit.
    closing_bytes: u64,
    /// Bytes kept free for the next commit start.
    reserve: u64,
    /// Whether the journal has grown so large that a commit is due.
    pub(super) wants_commit: bool,
}

impl Log {
    /// Returns an empty log whose next reference goes to `head`.
    pub(super) fn new(flash: &Flash, head: Place, tail: u32) -> Self {
        Self {
            head,
            tail,
            buds: BTreeMap::new(),
            old_buds: Vec::new(),
            bud_bytes: 0,
            closing_bytes: 0,
            reserve: flash.leb_size.into(),
            wants_commit: false,
        }
    }

    /// Returns the LEBs of the journal.
    pub(super) fn buds(&self) -> &BTreeMap<u32, Bud> {
        &self.buds
    }

    /// Adds a LEB that the log on flash already refers to.
    pub(super) fn take_replayed_bud(&mut self, flash: &Flash, leb: u32, bud: Bud) {
        self.bud_bytes += u64::from(flash.leb_size - bud.start);
        self.buds.insert(leb, bud);
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.buds.len() * size_of::<(u32, Bud)>() + self.old_buds.capacity() * size_of::<u32>()
    }

    /// Returns the next log LEB.
    pub(super) fn next_leb(flash: &Flash, leb: u32) -> u32 {
        if leb >= flash.sb.log_last() { LOG_FIRST } else { leb + 1 }
    }

    /// Returns the number of bytes that can still be written (spec: ubifs-runtime 7.3).
    fn free_bytes(&self, flash: &Flash) -> u64 {
        let size = u64::from(flash.leb_size);
        let all = u64::from(flash.sb.log_lebs) * size;
        let head = u64::from(self.head.leb) * size + u64::from(self.head.offset);
        let tail = u64::from(self.tail) * size;
        match head.cmp(&tail) {
            std::cmp::Ordering::Greater => all - (head - tail),
            std::cmp::Ordering::Less => tail - head,
            std::cmp::Ordering::Equal if self.head.leb == self.tail => all,
            std::cmp::Ordering::Equal => 0,
        }
    }

    /// Moves the head to the next LEB of the log.
    fn enter_next_leb(&mut self, flash: &mut Flash) -> Step<()> {
        self.head = Place::start_of(Self::next_leb(flash, self.head.leb));
        flash.activity.log_wraps += u64::from(self.head.leb == LOG_FIRST);
        if self.head.leb == self.tail {
            return Err(Fault::refused(self.head.location(), "log-full", "the log is full"));
        }
        Ok(())
    }

    /// Makes a LEB the next one of a journal head, from `start` on (spec: ubifs-runtime 7.5). Fails
    /// with [`Fault::CommitFirst`], and changes nothing, if the log or the journal is full.
    pub(super) fn add_bud(
        &mut self,
        flash: &mut Flash,
        sqnums: &mut Sqnums,
        head: Head,
        start: Place,
    ) -> Step<()> {
        let slot = flash.ref_alsz;
        let added = u64::from(flash.leb_size - start.offset);
        let is_due = self.bud_bytes >= flash.bg_bud_bytes;
        let is_leb_full = self.head.offset > flash.leb_size - slot;
        // A commit that is due is not delayed until one more LEB of the log must be erased for it.
        if self.free_bytes(flash) < u64::from(slot) + self.reserve
            || self.bud_bytes + added > flash.max_bud_bytes
            || (is_due && is_leb_full)
        {
            return Err(Fault::CommitFirst);
        }
        self.wants_commit |= is_due;
        if is_leb_full {
            self.enter_next_leb(flash)?;
        }
        if self.head.offset == 0 {
            // A LEB that a commit dropped may hold its old references again after a power cut. They
            // would be replayed, so it is erased before the first reference is written.
            flash.unmap(self.head.leb)?;
        }
        if start.offset == 0 {
            // Mapped before the log refers to it: an unmapped LEB may show its old content again
            // after a power cut, and a mount would replay that.
            flash.map(start.leb)?;
        }
        let sqnum = sqnums.take(flash)?;
        let mut node = Vec::with_capacity(slot as usize);
        let reference =
            Reference { leb: Leb::new(start.leb), offset: start.offset, head: head as u32 };
        encode::reference(&mut node, &reference, Seal::single(sqnum));
        encode::pad(&mut node, flash.min_io);
        flash.write(self.head.leb, self.head.offset, &node)?;
        self.head.offset += slot;
        flash.activity.buds += 1;
        self.bud_bytes += added;
        self.buds.insert(start.leb, Bud { head, start: start.offset });
        Ok(())
    }

    /// Rewrites the log with one reference to each LEB after failed commits have filled it, so that
    /// there is space for the next (spec: ubifs-runtime 7.8).
    pub(super) fn consolidate(&mut self, flash: &mut Flash) -> Step<()> {
        if Self::next_leb(flash, self.head.leb) != self.tail {
            return Ok(());
        }
        let mut nodes: Vec<Vec<u8>> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut bytes = Vec::new();
        let mut leb = self.tail;
        loop {
            flash.read_leb(leb, &mut bytes)?;
            for (offset, node) in Scanner::new(Leb::new(leb), &bytes, 0, flash.limits) {
                let is_kept = match node.header.node_type {
                    NodeType::CommitStart => nodes.is_empty(),
                    NodeType::Reference => seen.insert(node.reference()?.leb),
                    _ => false,
                };
                if is_kept {
                    let end = (offset + node.header.len) as usize;
                    nodes.push(bytes[offset as usize..end].to_vec());
                }
            }
            if leb == self.head.leb {
                break;
            }
            leb = Self::next_leb(flash, leb);
        }
        self.write_consolidated(flash, &nodes)
    }

    fn write_consolidated(&mut self, flash: &mut Flash, nodes: &[Vec<u8>]) -> Step<()> {
        let old_head = self.head.leb;
        let mut leb = self.tail;
        let mut out: Vec<u8> = Vec::new();
        for node in nodes {
            if align_up_usize(out.len(), 8) + node.len() > flash.leb_size as usize {
                encode::pad(&mut out, flash.min_io);
                flash.change(leb, &out)?;
                out.clear();
                leb = Self::next_leb(flash, leb);
                if leb == old_head {
                    return Err(Fault::refused(at(leb, 0), "log-full", "the log is too full"));
                }
            }
            encode::start(&mut out);
            out.extend_from_slice(node);
        }
        encode::pad(&mut out, flash.min_io);
        flash.change(leb, &out)?;
        self.head = Place { leb, offset: out.len() as u32 };
        let mut rest = Vec::new();
        while leb != old_head {
            leb = Self::next_leb(flash, leb);
            rest.push(leb);
        }
        // Only after the rewrite: a cut before it still finds every reference in the old LEBs. The
        // last one first: those that a cut leaves continue the log. After an empty LEB, a mount would
        // not find them, give their numbers again, and take a torn commit start before them for damage.
        for leb in rest.into_iter().rev() {
            flash.wipe(leb)?;
        }
        Ok(())
    }

    /// Starts the log of the next commit and closes the full buds (spec: ubifs-runtime 11.3 step
    /// 4). Returns the new tail.
    pub(super) fn begin_next(
        &mut self,
        flash: &mut Flash,
        sqnums: &mut Sqnums,
        heads: &mut [Wbuf],
        cmt_no: u64,
    ) -> Step<u32> {
        let mut nodes = Vec::new();
        let sqnum = sqnums.take(flash)?;
        encode::commit_start(&mut nodes, &CommitStart { cmt_no }, Seal::single(sqnum));
        for (head, wbuf) in Head::ALL.into_iter().zip(&*heads) {
            if let Some(Place { leb, offset }) = wbuf.open_place(flash) {
                let sqnum = sqnums.take(flash)?;
                let reference = Reference { leb: Leb::new(leb), offset, head: head as u32 };
                encode::reference(&mut nodes, &reference, Seal::single(sqnum));
            }
        }
        encode::pad(&mut nodes, flash.min_io);
        if self.head.offset != 0 {
            self.enter_next_leb(flash)?;
        }
        // The old log stays until the master is on flash: a cut before that replays it.
        flash.unmap(self.head.leb)?;
        flash.write(self.head.leb, 0, &nodes)?;
        self.head.offset = nodes.len() as u32;
        self.close_buds(flash, heads);
        for wbuf in heads {
            if wbuf.open_place(flash).is_none() {
                // A full head has no place in the new log; its next write finds a new LEB.
                wbuf.leave();
            }
        }
        self.reserve = 0;
        Ok(self.head.leb)
    }

    /// Closes the buds, except for the rest of the LEBs that the heads still write to.
    fn close_buds(&mut self, flash: &Flash, heads: &[Wbuf]) {
        let size = flash.leb_size;
        for (leb, bud) in &mut self.buds {
            let open = heads[bud.head as usize].open_place(flash);
            let kept = match open {
                Some(place) if place.leb == *leb => place.offset,
                _ => {
                    self.old_buds.push(*leb);
                    size
                }
            };
            self.closing_bytes += u64::from(kept - bud.start);
            bud.start = kept;
        }
        self.buds.retain(|_, bud| bud.start < size);
    }

    /// Drops the old log and the closed buds (spec: ubifs-runtime 11.4, 11.5). The master that
    /// refers to `new_tail` must be on flash: until then a power cut replays the old log, and
    /// nothing may be written to its buds.
    pub(super) fn drop_old(
        &mut self,
        flash: &mut Flash,
        lprops: &mut Lprops,
        new_tail: u32,
    ) -> Step<()> {
        let old_tail = std::mem::replace(&mut self.tail, new_tail);
        self.reserve = flash.leb_size.into();
        self.bud_bytes -= std::mem::take(&mut self.closing_bytes);
        self.wants_commit = false;
        for leb in std::mem::take(&mut self.old_buds) {
            lprops.set_use(flash, leb, Use::Available)?;
        }
        let mut leb = old_tail;
        while leb != new_tail {
            flash.unmap(leb)?;
            leb = Self::next_leb(flash, leb);
        }
        Ok(())
    }
}
