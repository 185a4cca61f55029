//! Reading: the cells, the fault overlay, and the result of ECC.

use super::State;
use crate::counters::{Count, ReadCost, Tally};
use crate::overlay::flip;
use crate::plan::ReadFault;
use crate::rng::Rng;
use eraseblock_base::Peb;
use eraseblock_mtd::{MtdError, ReadOutcome};
use std::sync::Arc;

/// A range inside one page; out-of-band bytes follow the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageRange {
    pub(crate) peb: Peb,
    pub(crate) page: u32,
    pub(crate) from: usize,
    /// Whether the read continues from the previous page: NOR needs no new address.
    pub(crate) continues: bool,
}

impl State {
    /// Reads data bytes over pages of the same eraseblock, until a page needs
    /// [`Self::read_exclusive`]; returns the number of bytes. The caller counts the cost.
    pub(crate) fn read_run(
        &self,
        tally: &Tally,
        cost: &mut ReadCost,
        mut range: PageRange,
        buf: &mut [u8],
    ) -> Result<(usize, ReadOutcome), MtdError> {
        self.check_power()?;
        let slot = self.store.get(range.peb);
        let plain = slot.faults.is_none() && !self.plan.touches_reads() && self.leaking().is_none();
        let page_size = self.config.page as usize;
        let mut of_page = None;
        let (mut done, mut outcome) = (0, ReadOutcome::CLEAN);
        while done < buf.len() {
            let end = buf.len().min(done + page_size - range.from);
            let piece = &mut buf[done..end];
            if plain {
                let is_next = range.continues && piece.len() == page_size;
                let of_page = if is_next { &mut of_page } else { &mut None };
                *cost += *of_page.get_or_insert_with(|| self.cost(range, piece.len()));
                self.load_from(slot, range.peb, range.page, range.from, piece)?;
            } else {
                let Some(read) = self.read_shared(tally, cost, range, piece)? else { break };
                outcome = outcome.merge(read);
            }
            range = PageRange { page: range.page + 1, from: 0, continues: true, ..range };
            done = end;
        }
        Ok((done, outcome))
    }

    /// Reads part of a page if that changes nothing; returns `None` if [`Self::read_exclusive`] is
    /// needed. The caller counts the cost.
    pub(crate) fn read_shared(
        &self,
        tally: &Tally,
        cost: &mut ReadCost,
        range: PageRange,
        buf: &mut [u8],
    ) -> Result<Option<ReadOutcome>, MtdError> {
        self.check_power()?;
        let fault = self.page_fault(range.peb, range.page);
        if self.plan.touches_reads() || fault.is_some_and(|fault| fault.unstable.is_some()) {
            return Ok(None);
        }
        let judged = self.config.rules.interrupted_read != crate::Policy::Off;
        if judged && fault.is_some_and(|fault| fault.interrupted) {
            return Ok(None);
        }
        *cost += self.cost(range, buf.len());
        let end = range.from + buf.len();
        let leaked = self.leaked_bits(range.peb, range.page, range.from, end)?;
        if fault.is_some() || !leaked.is_empty() {
            return self.deliver(tally, range, buf, &leaked).map(Some);
        }
        self.load(range.peb, range.page, range.from, buf)?;
        Ok(Some(ReadOutcome::CLEAN))
    }

    /// Reads part of a page with all side effects of a read.
    pub(crate) fn read_exclusive(
        &mut self,
        tally: &Tally,
        range: PageRange,
        buf: &mut [u8],
    ) -> Result<ReadOutcome, MtdError> {
        self.check_power()?;
        let at = self.place(range.peb, range.page, 0);
        let interrupted = self.page_fault(range.peb, range.page).is_some_and(|f| f.interrupted);
        let policy = self.config.rules.interrupted_read;
        self.judge(policy, interrupted, at, "reading a page whose program was interrupted")?;
        let number = tally.add_reads(self.cost(range, buf.len()));
        self.disturb(range.peb, number);
        if self.is_grave(range) {
            Rng::new(self.plan.seed ^ 0x6EA7_E000_0000_0003, number).fill(buf);
            return Ok(ReadOutcome { corrected_bits: 0, uncorrectable: self.config.corrects() });
        }
        let mut extra = self.unstable_flips(range);
        if self.store.get(range.peb).page(range.page).is_touched() {
            let bits = u32::try_from(buf.len()).unwrap_or(u32::MAX).saturating_mul(8);
            match self.plan.read_fault(number, bits, self.wear_of(range.peb)) {
                Some(ReadFault::Fail) => return Err(MtdError::Failed { at, operation: "read" }),
                Some(ReadFault::Flips { bits }) => {
                    extra.extend(self.transient_flips(number, range, buf.len(), bits));
                }
                None => {}
            }
        }
        let end = range.from + buf.len();
        extra.extend(self.leaked_bits(range.peb, range.page, range.from, end)?);
        extra.sort_unstable();
        let outcome = self.deliver(tally, range, buf, &extra)?;
        // Counts of disturbing and unstable reads are stored in the block.
        if self.store.get(range.peb).faults.is_some() || self.plan.read_disturb.is_some() {
            self.persist(range.peb, tally)?;
        }
        Ok(outcome)
    }

    /// Returns the cost of one page read (spec: mtd-nand 12.2).
    fn cost(&self, range: PageRange, len: usize) -> ReadCost {
        let config = &self.config;
        let data = config.page as usize;
        let mut moved = len;
        if config.corrects() && range.from == 0 && len == data {
            moved = config.stride();
        } else if config.corrects() && range.from < data {
            // Whole codewords are transferred, each with its share of the out-of-band bytes.
            let step = config.ecc_step() as usize;
            let end = (range.from + len).min(data);
            let steps = end.div_ceil(step) - range.from / step;
            moved = steps * step * config.stride() / data;
        }
        let ns = match (config.is_nand(), range.continues) {
            (true, _) => self.time_of(7, moved, config.timing.read_ns + 100),
            (false, false) => self.time_of(4, moved, config.timing.read_ns),
            (false, true) => self.time_of(0, moved, 0),
        };
        let bytes = len.min(data.saturating_sub(range.from)) as u64;
        ReadCost { pages: 1, bytes, ns }
    }

    /// Counts a read of the block; at the configured number, one more of its bits becomes wrong.
    fn disturb(&mut self, peb: Peb, number: u64) {
        let Some(interval) = self.plan.read_disturb else { return };
        let pages = self.store.get(peb).page_count();
        let slot = self.store.get_mut(peb);
        slot.reads = slot.reads.saturating_add(1);
        if pages == 0 || !slot.reads.is_multiple_of(interval.max(1)) {
            return;
        }
        let mut rng = Rng::new(self.plan.seed ^ 0xD157_0000_0000_0004, number);
        let page = rng.below(pages);
        let bit = rng.below(self.config.page * 8);
        self.add_flips(peb, page, vec![bit]);
    }

    fn is_grave(&mut self, range: PageRange) -> bool {
        let number = self.page_number(range.peb, range.page);
        let Some(good) = self.plan.failing_reads.get(&number).copied() else { return false };
        if !self.store.get(range.peb).page(range.page).is_touched() {
            return false;
        }
        let reads = Arc::make_mut(&mut self.uses).reads.entry(number).or_default();
        *reads = reads.saturating_add(1);
        *reads > good
    }

    /// Returns the wrong bits of an unstable page in this read.
    fn unstable_flips(&mut self, range: PageRange) -> Vec<u32> {
        let unstable = |fault: &crate::overlay::PageFault| fault.unstable.is_some();
        if !self.page_fault(range.peb, range.page).is_some_and(unstable) {
            return Vec::new();
        }
        let step = self.config.ecc_step();
        let steps = self.config.page / step;
        let strength = self.config.ecc_bits;
        let fault = self.page_fault_mut(range.peb, range.page);
        let Some(unstable) = fault.unstable.as_mut() else { return Vec::new() };
        unstable.next_flips(step * 8, steps, strength)
    }

    /// Returns `bits` distinct wrong bits in one codeword of the range.
    fn transient_flips(&self, number: u64, range: PageRange, len: usize, bits: u16) -> Vec<u32> {
        let mut rng = Rng::new(self.plan.seed ^ 0x7A45_0000_0000_0005, number);
        let step = if range.from < self.config.page as usize { self.config.ecc_step() } else { 1 };
        let from = u32::try_from(range.from).unwrap_or(u32::MAX);
        let len = u32::try_from(len.max(1)).unwrap_or(u32::MAX);
        let steps = (from + len - 1) / step - from / step + 1;
        let first = (from / step + rng.below(steps)) * step * 8;
        let chosen = rng.distinct(u32::from(bits), step * 8);
        chosen.into_iter().map(|bit| first + bit).collect()
    }

    /// Delivers cells, overlay and `extra` (sorted) flips, corrected if the chip corrects.
    fn deliver(
        &self,
        tally: &Tally,
        range: PageRange,
        buf: &mut [u8],
        extra: &[u32],
    ) -> Result<ReadOutcome, MtdError> {
        self.load(range.peb, range.page, range.from, buf)?;
        let fault = self.page_fault(range.peb, range.page);
        let stable = fault.map_or(&[][..], |fault| &fault.flips);
        let mut flips: Vec<u32> = stable.iter().chain(extra).copied().collect();
        flips.sort_unstable();
        flips.dedup();
        let first = range.from * 8;
        let end = first + buf.len() * 8;
        let apply = |buf: &mut [u8], flips: &[u32]| {
            for bit in flips.iter().map(|bit| *bit as usize) {
                if bit >= first && bit < end {
                    flip(buf, u32::try_from(bit - first).unwrap_or(u32::MAX));
                }
            }
        };
        if !self.config.corrects() {
            apply(buf, &flips);
            return Ok(ReadOutcome::CLEAN);
        }
        let bad_steps = fault.map_or(0, |fault| fault.bad_steps);
        let step = self.config.ecc_step() as usize;
        let data_end = (end / 8).min(self.config.page as usize);
        let mut outcome = ReadOutcome::CLEAN;
        for index in range.from / step..data_end.div_ceil(step).max(range.from / step) {
            let from = flips.partition_point(|bit| (*bit as usize) < index * step * 8);
            let to = flips.partition_point(|bit| (*bit as usize) < (index + 1) * step * 8);
            let wrong = u16::try_from(to - from).unwrap_or(u16::MAX);
            if bad_steps >> index & 1 == 1 || wrong > self.config.ecc_bits {
                apply(buf, &flips[from..to]);
                outcome.uncorrectable = true;
                tally.add(Count::FailedCodewords, 1);
            } else {
                outcome.corrected_bits = outcome.corrected_bits.max(wrong);
                tally.add(Count::CorrectedBits, u64::from(wrong));
            }
        }
        Ok(outcome)
    }
}
