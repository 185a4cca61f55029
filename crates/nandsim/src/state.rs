//! The internal state of the chip: everything in a snapshot, and its primitive changes.
//!
//! # Invariants
//! 1. An event gets its number before anything changes; a refused operation gets none.
//! 2. While the power is off only the fault plan can change.
//! 3. `Slot::bad` agrees with the marker bytes on the medium, except for a torn mark, and except on
//!    chips without out-of-band bytes, where it is the only record.
//! 4. For a chip in a file, every change is in the file before the operation returns. If the file
//!    is read-only, programs and erases are refused, and changes caused by reads (decaying cells)
//!    stay in memory.

mod damage;
mod erase;
mod program;
mod read;
mod retention;
mod torn;

use crate::config::{ChipConfig, Policy};
use crate::counters::{Count, Tally};
use crate::file::ChipFile;
use crate::overlay::PageFault;
use crate::plan::{ArmedCut, FaultPlan};
use crate::rng::Rng;
use crate::store::{PageMeta, Slot, Store};
use eraseblock_base::{Findings, Location, Peb};
use eraseblock_mtd::MtdError;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use program::PageWrite;
pub(crate) use read::PageRange;

/// How often the weak and grave blocks and pages of the plan have been used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    blocks: BTreeMap<u32, u32>,
    pages: BTreeMap<u64, u32>,
    reads: BTreeMap<u64, u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) config: Arc<ChipConfig>,
    pub(crate) store: Store,
    /// The number of the next event.
    pub(crate) events: u64,
    /// Time without events, in events.
    pub(crate) idle: u64,
    /// The time from which bits leak.
    pub(crate) leaks_since: u64,
    pub(crate) powered: bool,
    pub(crate) boots: u64,
    /// The number of blocks with a torn bad-block mark.
    pub(crate) torn_marks: u32,
    pub(crate) plan: Arc<FaultPlan>,
    pub(crate) uses: Arc<Uses>,
    pub(crate) violations: Arc<Findings>,
    pub(crate) file: Option<Arc<ChipFile>>,
}

impl State {
    pub(crate) fn new(config: Arc<ChipConfig>) -> Self {
        Self {
            store: Store::new(config.geometry.peb_count()),
            config,
            events: 0,
            idle: 0,
            leaks_since: 0,
            powered: true,
            boots: 0,
            torn_marks: 0,
            plan: Arc::default(),
            uses: Arc::default(),
            violations: Arc::default(),
            file: None,
        }
    }

    pub(crate) fn check_power(&self) -> Result<(), MtdError> {
        if self.powered { Ok(()) } else { Err(MtdError::PowerOff) }
    }

    /// Refuses changes of a chip whose file is read-only.
    pub(crate) fn check_writable(
        &self,
        at: Location,
        operation: &'static str,
    ) -> Result<(), MtdError> {
        match &self.file {
            Some(file) if !file.is_writable() => Err(MtdError::ReadOnly { at, operation }),
            _ => Ok(()),
        }
    }

    /// Replaces the plan; its counts restart, but the ages of pages remain.
    pub(crate) fn set_plan(&mut self, plan: FaultPlan) {
        if self.plan.retention.is_none() {
            self.leaks_since = self.time();
        }
        self.plan = Arc::new(plan);
        self.uses = Arc::default();
    }

    /// Returns the cut that has not happened yet.
    pub(crate) fn waiting_cut(&self) -> Option<ArmedCut> {
        self.plan.cut.filter(|cut| cut.event >= self.events)
    }

    /// Switches the power on (again), which draws torn bad-block marks again.
    pub(crate) fn power_on(&mut self) {
        self.powered = true;
        self.boots += 1;
        if self.torn_marks == 0 {
            return;
        }
        for peb in self.config.geometry.pebs() {
            if self.store.get(peb).torn_mark {
                let mut rng = Rng::new(self.plan.seed ^ u64::from(peb.get()), self.boots);
                self.store.get_mut(peb).bad = rng.below(2) == 1;
            }
        }
    }

    /// Reacts to a broken rule by its policy.
    pub(super) fn judge(
        &mut self,
        policy: Policy,
        broken: bool,
        at: Location,
        rule: &'static str,
    ) -> Result<(), MtdError> {
        match policy {
            Policy::Refuse if broken => Err(MtdError::Rule { at, rule }),
            Policy::Report if broken => {
                Arc::make_mut(&mut self.violations).warn(at, "chip-rule-broken", rule);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns the location of a byte of a page.
    pub(super) fn place(&self, peb: Peb, page: u32, column: u32) -> Location {
        Location::Peb(peb, page * self.config.page + column)
    }

    /// Returns the page's number over the whole chip.
    pub(super) fn page_number(&self, peb: Peb, page: u32) -> u64 {
        u64::from(peb.get()) * u64::from(self.config.pages_per_peb()) + u64::from(page)
    }

    /// Returns the wear of a block in thousandths of the endurance.
    pub(super) fn wear_of(&self, peb: Peb) -> u32 {
        let erases = u64::from(self.store.get(peb).erases);
        let wear = erases * 1000 / u64::from(self.config.endurance.max(1));
        u32::try_from(wear).unwrap_or(u32::MAX)
    }

    /// Reads the cells of a page (data, then out-of-band bytes) from byte `from`.
    pub(crate) fn load(
        &self,
        peb: Peb,
        page: u32,
        from: usize,
        buf: &mut [u8],
    ) -> Result<(), MtdError> {
        self.load_from(self.store.get(peb), peb, page, from, buf)
    }

    /// Like [`Self::load`], for a caller that already has the eraseblock's slot.
    pub(super) fn load_from(
        &self,
        slot: &Slot,
        peb: Peb,
        page: u32,
        from: usize,
        buf: &mut [u8],
    ) -> Result<(), MtdError> {
        let block = if slot.page(page).is_touched() { slot.block.as_ref() } else { None };
        let Some(block) = block else {
            buf.fill(0xFF);
            return Ok(());
        };
        if let Some(file) = &self.file {
            return file.read_cells(peb, page, from, buf).map_err(|source| MtdError::Io {
                at: self.place(peb, page, 0),
                operation: "read",
                source,
            });
        }
        let start = page as usize * self.config.stride() + from;
        buf.copy_from_slice(&block.cells[start..start + buf.len()]);
        Ok(())
    }

    /// Changes the cells of a page and its metadata.
    pub(super) fn with_page(
        &mut self,
        peb: Peb,
        page: u32,
        change: impl FnOnce(&mut [u8], &mut PageMeta),
    ) -> Result<(), MtdError> {
        let stride = self.config.stride();
        let Some(file) = self.file.clone() else {
            let block = self.store.get_mut(peb).block_mut(page, stride);
            let start = page as usize * stride;
            let (cells, meta) =
                (&mut block.cells[start..start + stride], &mut block.pages[page as usize]);
            change(cells, meta);
            return Ok(());
        };
        let mut cells = vec![0xFF; stride];
        self.load(peb, page, 0, &mut cells)?;
        let block = self.store.get_mut(peb).block_mut(page, 0);
        change(&mut cells, &mut block.pages[page as usize]);
        file.write_cells(peb, page, &cells).map_err(|source| MtdError::Io {
            at: self.place(peb, page, 0),
            operation: "program",
            source,
        })
    }

    pub(super) fn page_fault(&self, peb: Peb, page: u32) -> Option<&PageFault> {
        self.store.get(peb).faults.as_ref()?.pages.get(&page)
    }

    pub(super) fn page_fault_mut(&mut self, peb: Peb, page: u32) -> &mut PageFault {
        self.store.get_mut(peb).faults_mut().pages.entry(page).or_default()
    }

    /// Writes the changes of a block and the chip's own state to the chip's file, unless it is
    /// read-only.
    pub(crate) fn persist(&self, peb: Peb, tally: &Tally) -> Result<(), MtdError> {
        let Some(file) = &self.file else { return Ok(()) };
        let written = file
            .write_slot(peb, self.store.get(peb))
            .and_then(|()| file.write_state(self, &tally.get()));
        written.map_err(|source| MtdError::Io {
            at: Location::peb(peb),
            operation: "write",
            source,
        })
    }

    /// Adds flips by position in the page with its out-of-band bytes.
    pub(crate) fn add_flips(&mut self, peb: Peb, page: u32, flips: Vec<u32>) {
        let limit = u32::try_from(self.config.stride()).unwrap_or(u32::MAX) * 8;
        let flips = flips.into_iter().filter(|bit| *bit < limit);
        self.page_fault_mut(peb, page).add_flips(flips);
    }

    /// Reads the marker bytes of a block and records whether it is bad.
    pub(crate) fn refresh_bad(&mut self, peb: Peb) -> Result<(), MtdError> {
        let marker = self.config.marker;
        if marker.offset >= self.config.oob() {
            return Ok(());
        }
        let mut bad = false;
        for page in marker.page_numbers(self.config.pages_per_peb()) {
            let mut byte = [0xFF];
            self.load(peb, page, (self.config.page + marker.offset) as usize, &mut byte)?;
            bad |= byte[0] != 0xFF;
        }
        self.store.get_mut(peb).bad = bad;
        Ok(())
    }

    /// Adds the virtual time of an operation that moves `bytes` over the bus in `cycles` further
    /// bus cycles and then works for `array_ns` (spec: mtd-nand 12.2).
    pub(super) fn charge(&self, tally: &Tally, cycles: u64, bytes: usize, array_ns: u32) {
        tally.add(Count::VirtualNs, self.time_of(cycles, bytes, array_ns));
    }

    /// Returns the nanoseconds that [`Self::charge`] adds.
    pub(super) fn time_of(&self, cycles: u64, bytes: usize, array_ns: u32) -> u64 {
        let bus = u64::from(self.config.timing.bus_ns);
        (cycles + bytes as u64) * bus + u64::from(array_ns)
    }

    /// Sets the block's slot as loaded from the file.
    pub(crate) fn set_slot(&mut self, peb: Peb, slot: Slot) {
        self.torn_marks += u32::from(slot.torn_mark);
        *self.store.get_mut(peb) = slot;
    }
}
