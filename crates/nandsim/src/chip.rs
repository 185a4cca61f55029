//! The simulated chip.
//!
//! # Invariants
//! 1. The same configuration, operations and fault plan give the same bytes, errors, counters and
//!    event numbers, always.
//! 2. A refused operation (range, rule, power off) changes nothing and takes no event number.
//! 3. Readers run in parallel unless a read has an effect on the chip (unstable pages, read
//!    faults of the plan).

mod device;
mod injection;
mod transfer;

use crate::config::ChipConfig;
use crate::counters::{Counters, Tally};
use crate::event::{Event, EventKind, Recorded};
use crate::file::{ChipFile, ChipFileError};
use crate::plan::{ArmedCut, FaultPlan, Retention};
use crate::snapshot::Snapshot;
use crate::state::{PageWrite, State};
use eraseblock_base::{Findings, Location, Peb};
use eraseblock_mtd::{Access, MtdError};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A simulated NAND or NOR chip, in memory or in a sparse file.
///
/// ```
/// use eraseblock_nandsim::{Chip, ChipConfig, parts};
/// use eraseblock_base::Peb;
/// use eraseblock_mtd::Mtd;
///
/// let chip = Chip::new(ChipConfig::of_part(parts::find("W25N01GV").unwrap()));
/// chip.program(0, &[0x5A; 2048]).unwrap();
/// assert!(chip.program(0, &[0x00; 2048]).is_err(), "not erased");
/// chip.erase(Peb::new(0)).unwrap();
/// let mut page = [0; 2048];
/// assert!(chip.read(0, &mut page).is_ok() && page == [0xFF; 2048]);
/// ```
#[derive(Debug)]
pub struct Chip {
    config: Arc<ChipConfig>,
    tally: Tally,
    inner: RwLock<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: State,
    recording: Option<Vec<Recorded>>,
}

/// The distribution of erases over the blocks of a chip that are not bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct WearReport {
    /// Blocks counted.
    pub blocks: u32,
    /// Blocks marked bad, not counted.
    pub bad_blocks: u32,
    /// The smallest number of erases of a block.
    pub min_erases: u32,
    /// The largest number of erases of a block.
    pub max_erases: u32,
    /// The sum over all blocks.
    pub total_erases: u64,
}

impl Chip {
    /// Creates a new chip in memory, erased and powered on.
    pub fn new(config: ChipConfig) -> Self {
        Self::with_state(State::new(Arc::new(config)), &Counters::default())
    }

    /// Creates a new chip in a new sparse file; replaces an existing file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written or another process has it open.
    pub fn create(path: &Path, config: ChipConfig) -> Result<Self, ChipFileError> {
        let mut state = State::new(Arc::new(config));
        let file = ChipFile::create(path, &state.config)?;
        state.file = Some(Arc::new(file));
        let chip = Self::with_state(state, &Counters::default());
        chip.save_state().map_err(|source| ChipFileError::io(path, "write", source))?;
        Ok(chip)
    }

    /// Opens the chip in a file, powered on, without a fault plan except an armed cut and
    /// retention. Every change is written to the file at once.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, is in use, is not a chip file or is damaged.
    pub fn open(path: &Path) -> Result<Self, ChipFileError> {
        let (file, config) = ChipFile::open(path, Access::Write)?;
        Self::from_file(file, config)
    }

    /// Opens the chip in a file for reading only: programs and erases are refused
    /// ([`MtdError::ReadOnly`]). The effects of reads, such as counts and decaying cells, are lost
    /// when the chip is closed. Other processes may have the file open.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, is not a chip file or is damaged.
    pub fn open_read_only(path: &Path) -> Result<Self, ChipFileError> {
        let (file, config) = ChipFile::open(path, Access::Read)?;
        Self::from_file(file, config)
    }

    /// Returns a copy in memory of the chip in a file, which is only read.
    ///
    /// # Errors
    ///
    /// Fails as [`Chip::open_read_only`] does, or if the cells cannot be read.
    pub fn load(path: &Path) -> Result<Self, ChipFileError> {
        let (file, config) = ChipFile::open(path, Access::Read)?;
        let chip = Self::from_file(file, config)?;
        let snapshot = chip.try_snapshot();
        let snapshot = snapshot.map_err(|source| ChipFileError::Cells { source })?;
        Ok(snapshot.to_chip())
    }

    fn from_file(file: ChipFile, config: ChipConfig) -> Result<Self, ChipFileError> {
        let mut state = State::new(Arc::new(config));
        let counters = file.load_into(&mut state)?;
        state.file = Some(Arc::new(file));
        state.power_on();
        Ok(Self::with_state(state, &counters))
    }

    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> Self {
        Self::with_state(snapshot.state.clone(), &snapshot.counters)
    }

    fn with_state(state: State, counters: &Counters) -> Self {
        Self {
            config: state.config.clone(),
            tally: Tally::of(counters),
            inner: RwLock::new(Inner { state, recording: None }),
        }
    }

    // A poisoned lock means a panic elsewhere in this process; the flash itself still has one of
    // the states that a power cut leaves.
    fn shared(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the configuration of the chip.
    pub fn config(&self) -> &ChipConfig {
        &self.config
    }

    /// Returns the operations, bytes and virtual time so far.
    pub fn counters(&self) -> Counters {
        self.tally.get()
    }

    /// Returns how often a block has been erased.
    pub fn erase_count(&self, peb: Peb) -> u32 {
        if peb.get() < self.config.geometry.peb_count() {
            self.shared().state.store.get(peb).erases
        } else {
            0
        }
    }

    /// Returns the distribution of erases.
    pub fn wear_report(&self) -> WearReport {
        let inner = self.shared();
        let mut report = WearReport {
            blocks: 0,
            bad_blocks: 0,
            min_erases: u32::MAX,
            max_erases: 0,
            total_erases: 0,
        };
        for peb in self.config.geometry.pebs() {
            let slot = inner.state.store.get(peb);
            if slot.bad {
                report.bad_blocks += 1;
                continue;
            }
            report.blocks += 1;
            report.min_erases = report.min_erases.min(slot.erases);
            report.max_erases = report.max_erases.max(slot.erases);
            report.total_erases += u64::from(slot.erases);
        }
        report.min_erases = report.min_erases.min(report.max_erases);
        report
    }

    /// Returns the broken rules whose policy is to report.
    pub fn violations(&self) -> Findings {
        (*self.shared().state.violations).clone()
    }

    /// Replaces the fault plan; its counts of good operations restart.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.exclusive().state.set_plan(plan);
    }

    /// Arms a power cut at a future event, also for later users of the chip's file; `None` disarms
    /// it. Replaces the fault plan except retention.
    ///
    /// # Errors
    ///
    /// Fails if the chip's file cannot be written.
    pub fn arm_cut(&self, cut: Option<ArmedCut>) -> Result<(), MtdError> {
        self.check_writable("arming a power cut")?;
        let seed = cut.map_or(0, |cut| cut.seed);
        let retention = self.retention();
        self.set_plan(FaultPlan { cut, retention, ..FaultPlan::new(seed) });
        self.save_whole()
    }

    /// Makes bits leak, also for later users of the chip's file; `None` ends the leakage. The rest
    /// of the fault plan stays.
    ///
    /// # Errors
    ///
    /// Fails if the chip's file cannot be written.
    pub fn set_retention(&self, retention: Option<Retention>) -> Result<(), MtdError> {
        self.check_writable("a change of retention")?;
        let mut inner = self.exclusive();
        let plan = FaultPlan { retention, ..(*inner.state.plan).clone() };
        inner.state.set_plan(plan);
        drop(inner);
        self.save_whole()
    }

    /// Returns the leakage rate, if bits leak.
    pub fn retention(&self) -> Option<Retention> {
        self.shared().state.plan.retention
    }

    /// Simulates the time of `events` events, without performing any.
    ///
    /// # Errors
    ///
    /// Fails if the chip's file cannot be written.
    pub fn pass_time(&self, events: u64) -> Result<(), MtdError> {
        self.check_writable("passing of time")?;
        let mut inner = self.exclusive();
        inner.state.idle = inner.state.idle.saturating_add(events);
        drop(inner);
        self.save_whole()
    }

    fn check_writable(&self, operation: &'static str) -> Result<(), MtdError> {
        self.shared().state.check_writable(Location::Whole, operation)
    }

    fn save_whole(&self) -> Result<(), MtdError> {
        self.save_state().map_err(|source| MtdError::Io {
            at: Location::Whole,
            operation: "write",
            source,
        })
    }

    /// Returns the armed cut if it has not happened yet.
    pub fn armed_cut(&self) -> Option<ArmedCut> {
        self.shared().state.waiting_cut()
    }

    /// Returns the number of the next event.
    pub fn next_event(&self) -> u64 {
        self.shared().state.events
    }

    /// Returns whether the power is on.
    pub fn is_powered(&self) -> bool {
        self.shared().state.powered
    }

    /// Cuts the power between two events: every operation returns [`MtdError::PowerOff`] from now
    /// on.
    pub fn power_off(&self) {
        self.exclusive().state.powered = false;
    }

    /// Switches the power on (again). The effects of an interrupted operation remain.
    pub fn power_on(&self) {
        self.exclusive().state.power_on();
    }

    /// Starts to record every event together with the chip before it, or stops and discards the
    /// recording.
    pub fn set_recording(&self, on: bool) {
        self.exclusive().recording = on.then(Vec::new);
    }

    /// Returns the events recorded since recording started or since the last call.
    pub fn take_recording(&self) -> Vec<Recorded> {
        let mut inner = self.exclusive();
        inner.recording.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the current state of the chip. A chip in memory shares its blocks, in constant time;
    /// a chip in a file is read completely, and unreadable parts count as erased.
    pub fn snapshot(&self) -> Snapshot {
        self.try_snapshot().unwrap_or_else(|_| Snapshot {
            state: State { file: None, ..State::new(self.config.clone()) },
            counters: self.tally.get(),
        })
    }

    /// Returns [`Self::snapshot`], or an error if a file cannot be read.
    ///
    /// # Errors
    ///
    /// Fails if the cells cannot be read from the chip's file.
    pub fn try_snapshot(&self) -> Result<Snapshot, MtdError> {
        let inner = self.shared();
        let counters = self.tally.get();
        if inner.state.file.is_none() {
            return Ok(Snapshot { state: inner.state.clone(), counters });
        }
        Ok(Snapshot { state: in_memory(&inner.state)?, counters })
    }

    /// Restores a snapshot of this chip.
    ///
    /// # Errors
    ///
    /// Fails with [`MtdError::Unsupported`] for a chip in a file, or for a snapshot of a chip with
    /// another geometry.
    pub fn restore(&self, snapshot: &Snapshot) -> Result<(), MtdError> {
        let mut inner = self.exclusive();
        if inner.state.file.is_some() || *snapshot.config() != *self.config {
            return Err(MtdError::Unsupported { operation: "restoring this snapshot" });
        }
        inner.state = snapshot.state.clone();
        self.tally.set(&snapshot.counters);
        Ok(())
    }

    /// Repeats an event.
    ///
    /// # Errors
    ///
    /// Fails as the operation itself does.
    pub fn repeat(&self, event: &EventKind) -> Result<(), MtdError> {
        match event {
            EventKind::Erase { peb } => self.erase_peb(*peb),
            EventKind::MarkBad { peb } => self.mark_peb_bad(*peb),
            EventKind::Program { peb, offset, data, oob_offset, oob } => {
                let (page, column) = (offset / self.config.page, offset % self.config.page);
                let (peb, oob_offset) = (*peb, *oob_offset);
                self.check_peb(peb, "program")?;
                if page >= self.config.pages_per_peb() {
                    let at = Location::Peb(peb, *offset);
                    let expected = "a page of the block";
                    return Err(MtdError::Range { at, operation: "program", len: 0, expected });
                }
                self.program_page(&PageWrite { peb, page, column, data, oob_offset, oob })
            }
        }
    }

    fn check_peb(&self, peb: Peb, operation: &'static str) -> Result<(), MtdError> {
        if peb.get() < self.config.geometry.peb_count() {
            return Ok(());
        }
        let expected = "an eraseblock of the device";
        let len = u64::from(self.config.geometry.peb_size());
        Err(MtdError::Range { at: Location::peb(peb), operation, len, expected })
    }

    fn erase_peb(&self, peb: Peb) -> Result<(), MtdError> {
        self.check_peb(peb, "erase")?;
        let mut inner = self.exclusive();
        inner.state.check_power()?;
        inner.state.check_writable(Location::peb(peb), "erase")?;
        let before = inner.before(&self.tally);
        let result = inner.state.erase(&self.tally, peb);
        inner.record(before, || EventKind::Erase { peb });
        result
    }

    fn mark_peb_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.check_peb(peb, "mark bad")?;
        if !self.config.is_nand() {
            return Err(MtdError::Unsupported { operation: "marking blocks bad" });
        }
        let mut inner = self.exclusive();
        inner.state.check_power()?;
        inner.state.check_writable(Location::peb(peb), "mark bad")?;
        let before = inner.before(&self.tally);
        let result = inner.state.mark_bad(&self.tally, peb);
        inner.record(before, || EventKind::MarkBad { peb });
        result
    }

    fn program_page(&self, write: &PageWrite) -> Result<(), MtdError> {
        let mut inner = self.exclusive();
        inner.state.check_power()?;
        inner.state.check_writable(write.at(self.config.page), "program")?;
        let before = inner.before(&self.tally);
        let result = inner.state.program(&self.tally, write);
        inner.record(before, || EventKind::Program {
            peb: write.peb,
            offset: write.page * self.config.page + write.column,
            data: write.data.into(),
            oob_offset: write.oob_offset,
            oob: write.oob.into(),
        });
        result
    }

    fn save_state(&self) -> std::io::Result<()> {
        let inner = self.shared();
        match &inner.state.file {
            Some(file) => file.write_state(&inner.state, &self.tally.get()),
            None => Ok(()),
        }
    }
}

impl Inner {
    fn before(&self, tally: &Tally) -> Option<Snapshot> {
        let state = self.recording.as_ref().map(|_| self.state.clone())?;
        Some(Snapshot { state, counters: tally.get() })
    }

    /// Records the latest event, if one has happened.
    fn record(&mut self, before: Option<Snapshot>, kind: impl FnOnce() -> EventKind) {
        let (Some(before), Some(recording)) = (before, self.recording.as_mut()) else { return };
        let number = before.state.events;
        if number != self.state.events {
            recording.push(Recorded { event: Event { number, kind: kind() }, before });
        }
    }
}

/// Returns a copy of a state with its cells in memory.
fn in_memory(state: &State) -> Result<State, MtdError> {
    let mut copy = State { file: None, ..state.clone() };
    let stride = state.config.stride();
    for peb in state.config.geometry.pebs() {
        let pages = state.store.get(peb).page_count();
        let Some(last) = pages.checked_sub(1) else { continue };
        let mut cells = vec![0xFF; pages as usize * stride];
        for (page, cells) in (0..pages).zip(cells.chunks_mut(stride)) {
            state.load(peb, page, 0, cells)?;
        }
        copy.store.get_mut(peb).block_mut(last, stride).cells = cells;
    }
    Ok(copy)
}

impl Drop for Chip {
    fn drop(&mut self) {
        // Only the counters of reads can be lost here; everything else has been written.
        let _ = self.save_state();
    }
}
