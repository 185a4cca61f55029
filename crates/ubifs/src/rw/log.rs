//! The log, which lists the LEBs of the journal (spec: ubifs-runtime 7).
//!
//! # Invariants
//! 1. Every LEB that a journal head writes to is in `buds`, with the offset at which its journal
//!    part begins.
//! 2. The head never runs into the tail: a LEB is kept for the next commit start.

use super::core::Core;
use super::error::{Fault, Step, at};
use super::flash::{Flash, HEADS};
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
    pub(super) head: usize,
    pub(super) start: u32,
}

/// The log in memory.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) head: u32,
    pub(super) head_offset: u32,
    pub(super) tail: u32,
    pub(super) buds: BTreeMap<u32, Bud>,
    /// Buds that the running commit closes.
    old_buds: Vec<u32>,
    pub(super) bud_bytes: u64,
    /// Bytes that leave the journal with the running commit.
    closing_bytes: u64,
    /// Bytes kept free for the next commit start.
    reserve: u64,
    /// Whether the journal has grown so large that a commit is due.
    pub(super) wants_commit: bool,
}

impl Log {
    pub(super) fn new(flash: &Flash, head: u32, head_offset: u32, tail: u32) -> Self {
        Self { head, head_offset, tail, reserve: flash.leb_size.into(), ..Self::default() }
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
        let head = u64::from(self.head) * size + u64::from(self.head_offset);
        let tail = u64::from(self.tail) * size;
        match head.cmp(&tail) {
            std::cmp::Ordering::Greater => all - (head - tail),
            std::cmp::Ordering::Less => tail - head,
            std::cmp::Ordering::Equal if self.head == self.tail => all,
            std::cmp::Ordering::Equal => 0,
        }
    }
}

impl Core {
    /// Makes a LEB the next one of a journal head, from `start` on (spec: ubifs-runtime 7.5).
    pub(super) fn add_bud(&mut self, head: usize, leb: u32, start: u32) -> Step<()> {
        let Self { flash, log, .. } = self;
        let slot = flash.ref_alsz;
        let added = u64::from(flash.leb_size - start);
        let is_due = log.bud_bytes >= flash.bg_bud_bytes;
        let is_leb_full = log.head_offset > flash.leb_size - slot;
        // A commit that is due is not delayed until one more LEB of the log must be erased for it.
        if log.free_bytes(flash) < u64::from(slot) + log.reserve
            || log.bud_bytes + added > flash.max_bud_bytes
            || (is_due && is_leb_full)
        {
            return Err(Fault::CommitFirst);
        }
        log.wants_commit |= is_due;
        if is_leb_full {
            log.head = Log::next_leb(flash, log.head);
            log.head_offset = 0;
            flash.activity.log_wraps += u64::from(log.head == LOG_FIRST);
            if log.head == log.tail {
                return Err(Fault::refused(at(log.head, 0), "log-full", "the log is full"));
            }
        }
        if log.head_offset == 0 {
            let leb = log.head;
            flash.unmap(leb)?;
        }
        if start == 0 {
            flash.map(leb)?;
        }
        let sqnum = self.next_sqnum()?;
        let Self { flash, log, .. } = self;
        let mut node = Vec::with_capacity(slot as usize);
        let reference = Reference { leb: Leb::new(leb), offset: start, head: head as u32 };
        encode::reference(&mut node, &reference, Seal::single(sqnum));
        encode::pad(&mut node, flash.min_io);
        flash.write(log.head, log.head_offset, &node)?;
        log.head_offset += slot;
        flash.activity.buds += 1;
        log.bud_bytes += added;
        log.buds.insert(leb, Bud { head, start });
        Ok(())
    }

    /// Rewrites the log with one reference to each LEB after failed commits have filled it, so that
    /// there is space for the next (spec: ubifs-runtime 7.8).
    pub(super) fn consolidate_log(&mut self) -> Step<()> {
        if Log::next_leb(&self.flash, self.log.head) != self.log.tail {
            return Ok(());
        }
        let mut nodes: Vec<Vec<u8>> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut bytes = Vec::new();
        let mut leb = self.log.tail;
        loop {
            self.flash.read_leb(leb, &mut bytes)?;
            for (offset, node) in Scanner::new(Leb::new(leb), &bytes, 0, self.flash.limits) {
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
            if leb == self.log.head {
                break;
            }
            leb = Log::next_leb(&self.flash, leb);
        }
        self.write_consolidated(&nodes)
    }

    fn write_consolidated(&mut self, nodes: &[Vec<u8>]) -> Step<()> {
        let Self { flash, log, .. } = self;
        let old_head = log.head;
        let mut leb = log.tail;
        let mut out: Vec<u8> = Vec::new();
        for node in nodes {
            if align_up_usize(out.len(), 8) + node.len() > flash.leb_size as usize {
                encode::pad(&mut out, flash.min_io);
                flash.change(leb, &out)?;
                out.clear();
                leb = Log::next_leb(flash, leb);
                if leb == old_head {
                    return Err(Fault::refused(at(leb, 0), "log-full", "the log is too full"));
                }
            }
            encode::start(&mut out);
            out.extend_from_slice(node);
        }
        encode::pad(&mut out, flash.min_io);
        flash.change(leb, &out)?;
        log.head = leb;
        log.head_offset = out.len() as u32;
        while leb != old_head {
            leb = Log::next_leb(flash, leb);
            flash.unmap(leb)?;
        }
        Ok(())
    }

    /// Starts the log of the next commit and closes the full buds (spec: ubifs-runtime 11.3 step
    /// 4). Returns the new tail.
    pub(super) fn log_start_commit(&mut self) -> Step<u32> {
        let mut nodes = Vec::new();
        let sqnum = self.next_sqnum()?;
        let start = CommitStart { cmt_no: self.cmt_no };
        encode::commit_start(&mut nodes, &start, Seal::single(sqnum));
        for head in 0..HEADS {
            let wbuf = &self.heads[head as usize];
            let (leb, offset) = (wbuf.leb, wbuf.offset);
            if leb != 0 && offset < self.flash.leb_size {
                let sqnum = self.next_sqnum()?;
                let reference = Reference { leb: Leb::new(leb), offset, head };
                encode::reference(&mut nodes, &reference, Seal::single(sqnum));
            }
        }
        let Self { flash, log, heads, .. } = self;
        encode::pad(&mut nodes, flash.min_io);
        if log.head_offset != 0 {
            log.head = Log::next_leb(flash, log.head);
            flash.activity.log_wraps += u64::from(log.head == LOG_FIRST);
            if log.head == log.tail {
                return Err(Fault::refused(at(log.head, 0), "log-full", "the log is full"));
            }
        }
        flash.unmap(log.head)?;
        flash.write(log.head, 0, &nodes)?;
        log.head_offset = nodes.len() as u32;
        for (leb, bud) in &mut log.buds {
            let wbuf = &heads[bud.head];
            let is_current = wbuf.leb == *leb && wbuf.offset < flash.leb_size;
            let kept = if is_current { wbuf.offset } else { flash.leb_size };
            log.closing_bytes += u64::from(kept - bud.start);
            bud.start = kept;
            if !is_current {
                log.old_buds.push(*leb);
            }
        }
        let size = flash.leb_size;
        log.buds.retain(|_, bud| bud.start < size);
        for wbuf in heads {
            if wbuf.leb != 0 && wbuf.offset >= size {
                // A full head has no place in the new log; its next write finds a new LEB.
                wbuf.seek(0, 0);
            }
        }
        log.reserve = 0;
        Ok(log.head)
    }

    /// Drops the old log and the closed buds once the commit is on flash (spec: ubifs-runtime 11.4,
    /// 11.5).
    pub(super) fn log_end_commit(&mut self, new_tail: u32) -> Step<()> {
        let old_tail = self.log.tail;
        self.log.tail = new_tail;
        self.log.reserve = self.flash.leb_size.into();
        self.log.bud_bytes -= std::mem::take(&mut self.log.closing_bytes);
        self.log.wants_commit = false;
        for leb in std::mem::take(&mut self.log.old_buds) {
            self.lprops.set_taken(&self.flash, leb, false)?;
        }
        let mut leb = old_tail;
        while leb != new_tail {
            self.flash.unmap(leb)?;
            leb = Log::next_leb(&self.flash, leb);
        }
        Ok(())
    }
}
