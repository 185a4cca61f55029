//! Erasing and marking blocks bad, complete or interrupted (variants E0 to E5, B1).

use super::{PageWrite, State};
use crate::counters::{Count, Tally};
use crate::overlay::{ALL_STEPS, Unstable};
use crate::plan::{Fault, Trigger};
use crate::rng::Rng;
use crate::variant::Variant;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::MtdError;
use std::sync::Arc;

impl State {
    /// Erases a block as the next event.
    pub(crate) fn erase(&mut self, tally: &Tally, peb: Peb) -> Result<(), MtdError> {
        let at = Location::peb(peb);
        let bad = self.store.get(peb).bad;
        let policy = self.config.rules.bad_block;
        self.judge(policy, bad, at, "erasing a block that is marked bad")?;
        let number = self.events;
        self.events += 1;
        tally.add(Count::Erases, 1);
        self.charge(tally, 5, 0, self.config.timing.erase_ns);
        let result = self.erase_with(peb, number);
        let saved = self.persist(peb, tally);
        result.and(saved)?;
        self.free_cells(peb)
    }

    /// Returns the space of a block without programmed pages to the host's file system.
    fn free_cells(&self, peb: Peb) -> Result<(), MtdError> {
        match &self.file {
            Some(file) if self.store.get(peb).block.is_none() => {
                file.free_cells(peb).map_err(|source| MtdError::Io {
                    at: Location::peb(peb),
                    operation: "erase",
                    source,
                })
            }
            _ => Ok(()),
        }
    }

    fn erase_with(&mut self, peb: Peb, number: u64) -> Result<(), MtdError> {
        let failed = MtdError::Failed { at: Location::peb(peb), operation: "erase" };
        if self.is_weak_block(peb) {
            self.clear(peb);
            return Err(failed);
        }
        let mut rng = Rng::new(self.plan.seed, number);
        match self.plan.fault_at(number, Trigger::Erase, self.wear_of(peb)) {
            Some(Fault::Lost) => Ok(()),
            Some(Fault::Fail) => {
                self.tear_erase(peb, Variant::E2 { scattered: false }, &mut rng)?;
                Err(failed)
            }
            Some(Fault::Cut(variant)) if self.tear_erase(peb, variant, &mut rng)? => {
                self.powered = false;
                Err(MtdError::PowerOff)
            }
            _ => {
                self.clear(peb);
                Ok(())
            }
        }
    }

    fn is_weak_block(&mut self, peb: Peb) -> bool {
        let Some(good) = self.plan.failing_erases.get(&peb.get()).copied() else { return false };
        let used = Arc::make_mut(&mut self.uses).blocks.entry(peb.get()).or_default();
        *used = used.saturating_add(1);
        *used > good
    }

    /// Makes the block new except for its wear.
    pub(super) fn clear(&mut self, peb: Peb) {
        let keeps_mark = self.config.marker.offset >= self.config.oob();
        let slot = self.store.get_mut(peb);
        self.torn_marks -= u32::from(slot.torn_mark);
        slot.erases = slot.erases.saturating_add(1);
        slot.reads = 0;
        slot.bad &= keeps_mark;
        slot.torn_mark = false;
        slot.interrupted = false;
        slot.block = None;
        slot.faults = None;
    }

    /// Leaves the state of `variant`; returns `false` if it is not a variant of an erase.
    fn tear_erase(&mut self, peb: Peb, variant: Variant, rng: &mut Rng) -> Result<bool, MtdError> {
        match variant {
            Variant::E0 => return Ok(true),
            Variant::E1 => self.clear(peb),
            Variant::E2 { scattered } => self.half_erase(peb, scattered, rng)?,
            Variant::E3 => {
                self.clear(peb);
                self.make_unstable(peb, self.config.pages_per_peb(), rng);
                self.store.get_mut(peb).faults_mut().refuses_programs = true;
            }
            Variant::E4 => {
                let pages = self.store.get(peb).page_count();
                self.make_unstable(peb, pages, rng);
                self.worn(peb);
            }
            Variant::E5 if !self.config.is_nand() => self.zero_fill(peb, rng)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Counts the erase, which must be repeated.
    fn worn(&mut self, peb: Peb) {
        let slot = self.store.get_mut(peb);
        slot.erases = slot.erases.saturating_add(1);
        slot.interrupted = true;
    }

    fn make_unstable(&mut self, peb: Peb, pages: u32, rng: &mut Rng) {
        for page in 0..pages {
            let (good_reads, seed) = (u16::try_from(rng.below(4)).unwrap_or(0), rng.next_u64());
            let fault = self.page_fault_mut(peb, page);
            // A decaying page does not recover.
            fault.unstable.get_or_insert(Unstable { good_reads, reads: 0, seed, steps: ALL_STEPS });
        }
    }

    /// Erases the first pages, mixes one and leaves the rest unchanged.
    fn half_erase(&mut self, peb: Peb, scattered: bool, rng: &mut Rng) -> Result<(), MtdError> {
        let pages = self.store.get(peb).page_count();
        let mixed = rng.below(pages.max(1));
        for page in 0..pages {
            let fate = if scattered { rng.below(3) } else { 1 + u32::from(page > mixed) };
            if fate == 0 || (!scattered && page == mixed) {
                self.mix_page(peb, page, rng)?;
            } else if fate == 1 {
                self.with_page(peb, page, |cells, _| cells.fill(0xFF))?;
                self.store.get_mut(peb).forget_page_fault(page);
            }
        }
        self.worn(peb);
        self.refresh_bad(peb)
    }

    /// Turns each 0 into 1 or not, at random; no codeword survives in which a bit changed.
    fn mix_page(&mut self, peb: Peb, page: u32, rng: &mut Rng) -> Result<(), MtdError> {
        let step = self.config.ecc_step() as usize;
        let data = self.config.page as usize;
        let mut bad_steps = 0_u64;
        self.with_page(peb, page, |cells, _| {
            for (at, cell) in cells.iter_mut().enumerate() {
                let [mask, ..] = rng.next_u64().to_le_bytes();
                let mixed = *cell | mask;
                if at < data && mixed != *cell {
                    bad_steps |= 1 << (at / step);
                }
                *cell = mixed;
            }
        })?;
        let corrects = self.config.corrects();
        let fault = self.page_fault_mut(peb, page);
        fault.bad_steps = if corrects { bad_steps } else { 0 };
        fault.interrupted = true;
        Ok(())
    }

    /// NOR programs all bits to 0 before it erases; here from the end of the block.
    fn zero_fill(&mut self, peb: Peb, rng: &mut Rng) -> Result<(), MtdError> {
        let pages = self.config.pages_per_peb();
        let first = 1.min(pages - 1) + rng.below(pages.saturating_sub(1).max(1));
        for page in first..pages {
            self.with_page(peb, page, |cells, meta| {
                cells.fill(0);
                meta.programs = meta.programs.saturating_add(1);
            })?;
        }
        self.worn(peb);
        Ok(())
    }

    /// Marks a block bad as the next event: erased, then 0x00 in the marker bytes (spec: mtd-nand
    /// 10.2). No event if it is already bad.
    pub(crate) fn mark_bad(&mut self, tally: &Tally, peb: Peb) -> Result<(), MtdError> {
        let slot = self.store.get(peb);
        if slot.bad && !slot.torn_mark {
            return Ok(());
        }
        let number = self.events;
        self.events += 1;
        tally.add(Count::BadMarks, 1);
        let timing = self.config.timing;
        self.charge(tally, 12, 1, timing.erase_ns + timing.program_ns);
        let mut rng = Rng::new(self.plan.seed, number);
        let result = match self.plan.fault_at(number, Trigger::MarkBad, 0) {
            Some(Fault::Lost) => Ok(()),
            Some(Fault::Fail) => {
                Err(MtdError::Failed { at: Location::peb(peb), operation: "mark bad" })
            }
            Some(Fault::Cut(variant)) if self.tear_mark(peb, variant, &mut rng)? => {
                self.powered = false;
                Err(MtdError::PowerOff)
            }
            _ => self.write_marks(peb, 0),
        };
        let saved = self.persist(peb, tally);
        result.and(saved)
    }

    fn tear_mark(&mut self, peb: Peb, variant: Variant, rng: &mut Rng) -> Result<bool, MtdError> {
        match variant {
            Variant::P0 => {}
            Variant::P1 => self.write_marks(peb, 0)?,
            Variant::B1 => {
                let [byte, ..] = rng.next_u64().to_le_bytes();
                self.write_marks(peb, byte)?;
                let slot = self.store.get_mut(peb);
                slot.torn_mark = true;
                self.torn_marks += 1;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn write_marks(&mut self, peb: Peb, byte: u8) -> Result<(), MtdError> {
        self.clear(peb);
        let marker = self.config.marker;
        if marker.offset >= self.config.oob() {
            self.store.get_mut(peb).bad = true;
            return Ok(());
        }
        for page in marker.page_numbers(self.config.pages_per_peb()) {
            let oob = &[byte];
            let oob_offset = marker.offset;
            self.store_page(&PageWrite { peb, page, column: 0, data: &[], oob_offset, oob })?;
        }
        Ok(())
    }
}
