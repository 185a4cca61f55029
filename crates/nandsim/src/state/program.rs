//! Programming a page: rules, faults, cells.

use super::State;
use crate::counters::{Count, Tally};
use crate::overlay::flip;
use crate::plan::{Fault, Trigger};
use crate::rng::Rng;
use crate::store::PageMeta;
use crate::variant::Variant;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::MtdError;
use std::sync::Arc;

/// Bytes for one page; data or out-of-band bytes may be empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageWrite<'a> {
    pub(crate) peb: Peb,
    pub(crate) page: u32,
    pub(crate) column: u32,
    pub(crate) data: &'a [u8],
    pub(crate) oob_offset: u32,
    pub(crate) oob: &'a [u8],
}

impl PageWrite<'_> {
    /// Clears the bits of `cells` (a page with its out-of-band bytes) that this write clears.
    pub(super) fn apply(&self, page_size: u32, cells: &mut [u8]) {
        and_into(cells, self.column as usize, self.data);
        and_into(cells, (page_size + self.oob_offset) as usize, self.oob);
    }

    pub(crate) fn at(&self, page_size: u32) -> Location {
        Location::Peb(self.peb, self.page * page_size + self.column)
    }
}

fn and_into(cells: &mut [u8], at: usize, bytes: &[u8]) {
    for (cell, byte) in cells.iter_mut().skip(at).zip(bytes) {
        *cell &= byte;
    }
}

impl State {
    /// Programs one page as the next event. The range has been checked against the geometry.
    pub(crate) fn program(&mut self, tally: &Tally, write: &PageWrite) -> Result<(), MtdError> {
        self.check_rules(write)?;
        let number = self.events;
        self.events += 1;
        tally.add(Count::PagePrograms, 1);
        tally.add(Count::BytesProgrammed, write.data.len() as u64);
        let spare =
            if write.data.is_empty() { write.oob.len() } else { self.config.oob() as usize };
        let timing = self.config.timing;
        self.charge(tally, 7, write.data.len() + spare, timing.program_ns + 100);
        let fault = self.program_fault(write, number);
        let result = self.program_with(write, number, fault);
        self.note_program_time(write.peb, write.page)?;
        let saved = self.persist(write.peb, tally);
        result.and(saved)
    }

    fn check_rules(&mut self, write: &PageWrite) -> Result<(), MtdError> {
        let at = write.at(self.config.page);
        let rules = self.config.rules;
        let slot = self.store.get(write.peb);
        let (bad, interrupted, stored) = (slot.bad, slot.interrupted, slot.page_count());
        let meta = slot.page(write.page);
        let limit = self.config.partial_programs;
        let used = if write.data.is_empty() { meta.oob_programs } else { meta.programs };
        let descending = self.config.ordered && write.page + 1 < stored;
        let overwrites = self.overwrites(write, meta)?;
        self.judge(rules.bad_block, bad, at, "programming a block that is marked bad")?;
        let rule = "programming a block whose erase was interrupted";
        self.judge(rules.interrupted_erase, interrupted, at, rule)?;
        self.judge(rules.overwrite, overwrites, at, "programming bytes that are not erased")?;
        let rule = "more programs of a page than the part allows";
        self.judge(rules.partial_programs, limit > 0 && used >= limit, at, rule)?;
        let rule = "programming a page below one that is already programmed";
        self.judge(rules.page_order, descending, at, rule)
    }

    /// NAND: returns whether a sub-page is programmed twice, or an out-of-band byte that is no
    /// longer 0xFF. NOR: whether a bit would have to change from 0 to 1.
    fn overwrites(&self, write: &PageWrite, meta: PageMeta) -> Result<bool, MtdError> {
        if !meta.is_touched() {
            return Ok(false);
        }
        let nand = self.config.is_nand();
        if nand && meta.mask & self.subpage_mask(write) != 0 {
            return Ok(true);
        }
        let mut cells = vec![0xFF; self.config.stride()];
        self.load(write.peb, write.page, 0, &mut cells)?;
        let data = cells.iter().skip(write.column as usize).zip(write.data);
        let oob = cells.iter().skip((self.config.page + write.oob_offset) as usize).zip(write.oob);
        let data_bad = !nand && data.into_iter().any(|(cell, byte)| byte & !cell != 0);
        let oob_bad = oob.into_iter().any(|(cell, byte)| *byte != 0xFF && *cell != 0xFF);
        Ok(data_bad || oob_bad)
    }

    /// Returns one bit for each sub-page that the data covers.
    pub(super) fn subpage_mask(&self, write: &PageWrite) -> u64 {
        if write.data.is_empty() || !self.config.is_nand() {
            return 0;
        }
        let subpage = self.config.geometry.subpage();
        let first = write.column / subpage;
        let len = u32::try_from(write.data.len()).unwrap_or(u32::MAX);
        let count = len.div_ceil(subpage);
        let ones = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
        ones << first
    }

    fn program_fault(&mut self, write: &PageWrite, number: u64) -> Option<Fault> {
        let weak = self.page_number(write.peb, write.page);
        if let Some(good) = self.plan.failing_programs.get(&weak).copied() {
            let used = Arc::make_mut(&mut self.uses).pages.entry(weak).or_default();
            *used = used.saturating_add(1);
            if *used > good {
                return Some(Fault::Fail);
            }
        }
        let slot = self.store.get(write.peb);
        if slot.faults.as_ref().is_some_and(|faults| faults.refuses_programs) {
            return Some(Fault::Fail);
        }
        self.plan.fault_at(number, Trigger::Program, self.wear_of(write.peb))
    }

    fn program_with(
        &mut self,
        write: &PageWrite,
        number: u64,
        fault: Option<Fault>,
    ) -> Result<(), MtdError> {
        let mut rng = Rng::new(self.plan.seed, number);
        match fault {
            Some(Fault::Cut(variant)) if self.tear_program(write, variant, &mut rng)? => {
                self.powered = false;
                Err(MtdError::PowerOff)
            }
            None | Some(Fault::Cut(_)) => self.store_page(write),
            Some(Fault::Fail) => {
                self.tear_program(write, Variant::P3, &mut rng)?;
                let at = write.at(self.config.page);
                Err(MtdError::Failed { at, operation: "program" })
            }
            Some(Fault::Flips { bits }) => {
                self.store_page(write)?;
                let flips = self.bits_of_write(write, bits, &mut rng);
                self.add_flips(write.peb, write.page, flips);
                Ok(())
            }
            Some(Fault::Silent { bits }) => {
                self.store_page(write)?;
                let flips = self.bits_of_write(write, bits, &mut rng);
                self.with_page(write.peb, write.page, |cells, _| {
                    for bit in &flips {
                        flip(cells, *bit);
                    }
                })
            }
            Some(Fault::Lost) => self.count_program(write),
            Some(Fault::Misdirected) => self.misdirect(write, &mut rng),
        }
    }

    /// Stores the bytes: the case without a fault.
    pub(super) fn store_page(&mut self, write: &PageWrite) -> Result<(), MtdError> {
        let page_size = self.config.page;
        let mask = self.subpage_mask(write);
        let before = self.cells_under_flips(write)?;
        self.with_page(write.peb, write.page, |cells, meta| {
            write.apply(page_size, cells);
            count(meta, write, mask);
        })?;
        if let Some(before) = before {
            self.drop_covered_flips(write, &before)?;
        }
        self.note_marker(write)
    }

    /// Returns the previous page if one of its faults must be carried over.
    fn cells_under_flips(&self, write: &PageWrite) -> Result<Option<Vec<u8>>, MtdError> {
        if self.page_fault(write.peb, write.page).is_none() {
            return Ok(None);
        }
        let mut cells = vec![0xFF; self.config.stride()];
        self.load(write.peb, write.page, 0, &mut cells)?;
        Ok(Some(cells))
    }

    /// Removes flips that no longer matter: a cell that was wrongly 0 is right once 0 is
    /// programmed.
    fn drop_covered_flips(&mut self, write: &PageWrite, before: &[u8]) -> Result<(), MtdError> {
        let mut after = vec![0xFF; before.len()];
        self.load(write.peb, write.page, 0, &mut after)?;
        let bit = |cells: &[u8], bit: u32| cells[bit as usize / 8] >> (bit % 8) & 1;
        let fault = self.page_fault_mut(write.peb, write.page);
        fault.flips.retain(|at| bit(before, *at) == bit(&after, *at));
        if fault.is_clean() {
            self.store.get_mut(write.peb).forget_page_fault(write.page);
        }
        Ok(())
    }

    /// Counts the page as programmed, regardless of its cells.
    pub(super) fn count_program(&mut self, write: &PageWrite) -> Result<(), MtdError> {
        let mask = self.subpage_mask(write);
        self.with_page(write.peb, write.page, |_, meta| count(meta, write, mask))
    }

    /// Marks the block bad if the marker byte is programmed.
    pub(super) fn note_marker(&mut self, write: &PageWrite) -> Result<(), MtdError> {
        let marker = self.config.marker;
        let end = write.oob_offset as usize + write.oob.len();
        let covered = write.oob_offset <= marker.offset && (marker.offset as usize) < end;
        if covered && marker.page_numbers(self.config.pages_per_peb()).contains(&write.page) {
            return self.refresh_bad(write.peb);
        }
        Ok(())
    }

    fn misdirect(&mut self, write: &PageWrite, rng: &mut Rng) -> Result<(), MtdError> {
        self.count_program(write)?;
        let peb = Peb::new(rng.below(self.config.geometry.peb_count()));
        let page = rng.below(self.config.pages_per_peb());
        let elsewhere = PageWrite { peb, page, ..*write };
        self.store_page(&elsewhere)?;
        match &self.file {
            Some(file) => file.write_slot(peb, self.store.get(peb)).map_err(|source| {
                MtdError::Io { at: Location::peb(peb), operation: "write", source }
            }),
            None => Ok(()),
        }
    }

    /// Returns distinct bit positions in one codeword touched by the write.
    pub(super) fn bits_of_write(&self, write: &PageWrite, bits: u16, rng: &mut Rng) -> Vec<u32> {
        let (first, len) = if write.data.is_empty() {
            (self.config.page + write.oob_offset, write.oob.len())
        } else {
            (write.column, write.data.len())
        };
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let step = self.config.ecc_step().min(len.max(1));
        let start = first + rng.below((len / step).max(1)) * step;
        let chosen = rng.distinct(u32::from(bits), step * 8);
        chosen.into_iter().map(|bit| start * 8 + bit).collect()
    }
}

fn count(meta: &mut PageMeta, write: &PageWrite, mask: u64) {
    if write.data.is_empty() {
        meta.oob_programs = meta.oob_programs.saturating_add(1);
    } else {
        meta.programs = meta.programs.saturating_add(1);
        meta.mask |= mask;
    }
}
