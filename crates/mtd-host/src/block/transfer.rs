//! Moving bytes and slots: committing, programming, reading. The callers hold the lock.

use super::journal;
use super::{Backing, BlockDevice, State};
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::{MtdError, ReadOutcome};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of requests that a batch keeps in flight.
const IN_FLIGHT: usize = 16;

/// A part of a range that is contiguous on the disk.
struct Piece<'a> {
    offset: u64,
    data: &'a [u8],
    peb: Peb,
    units: std::ops::Range<u32>,
}

impl<B: Backing> BlockDevice<B> {
    /// Returns the eraseblock of an address on the device, and the offset in it.
    fn split(&self, addr: u64) -> (Peb, u32) {
        let size = u64::from(self.layout.peb_size);
        let part = |value| u32::try_from(value).expect("the address was checked");
        (Peb::new(part(addr / size)), part(addr % size))
    }

    /// Makes data durable, then the map; then released slots become free. The order matters: a
    /// durable map must not refer to data that is not durable.
    pub(super) fn commit(&self, state: &mut State) -> Result<(), MtdError> {
        let dirty = state.map.dirty();
        if dirty.is_empty() {
            return Ok(());
        }
        let written = self.disk.flush().and_then(|()| {
            journal::write(&self.disk, &self.layout, &state.map, &dirty, state.position)
        });
        match written {
            Ok(position) => state.position = position,
            Err(source) => {
                state.is_broken = true;
                return Err(MtdError::Io { at: Location::Whole, operation: "sync", source });
            }
        }
        for slot in state.map.committed() {
            let size = u64::from(self.layout.peb_size);
            self.disk.discard(self.layout.slot_start(slot), size);
        }
        Ok(())
    }

    /// Makes an eraseblock erased.
    pub(super) fn clear(state: &mut State, peb: Peb) {
        let Some(entry) = state.map.get(peb).filter(|entry| entry.slot.is_some()) else { return };
        let slot = entry.slot;
        if let Some(entry) = state.map.get_mut(peb) {
            entry.clear();
        }
        if let Some(slot) = slot {
            state.map.give_up(slot);
        }
    }

    /// Ensures that an eraseblock has a slot. This may commit: units that are being written count
    /// as erased until they are complete.
    pub(super) fn take_slot(&self, state: &mut State, peb: Peb) -> Result<u32, MtdError> {
        if let Some(slot) = state.map.get(peb).and_then(|entry| entry.slot) {
            return Ok(slot);
        }
        if state.map.free_slots() == 0 {
            self.commit(state)?;
        }
        let no_space =
            || MtdError::NoSpace { at: Location::peb(peb), operation: "a place on the disk" };
        let slot = state.map.take_slot().ok_or_else(no_space)?;
        if let Some(entry) = state.map.get_mut(peb) {
            entry.slot = Some(slot);
        }
        Ok(slot)
    }

    /// Programs ranges that have been checked, with all requests in flight together.
    pub(super) fn program_locked(
        &self,
        state: &mut State,
        ranges: &[(u64, &[u8])],
    ) -> Result<(), MtdError> {
        let mut pieces = Vec::new();
        for (addr, data) in ranges {
            self.plan(state, *addr, data, &mut pieces)?;
        }
        let failed = Mutex::new(None);
        in_flight(&pieces, |piece| {
            if let Err(source) = self.disk.write(piece.offset, piece.data) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).replace((
                    piece.peb,
                    piece.units.start,
                    source,
                ));
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => {
                for piece in pieces {
                    Self::mark(state, &piece);
                }
                Ok(())
            }
            Some((peb, unit, source)) => {
                let at = Location::Peb(peb, unit * self.layout.unit);
                Err(MtdError::Io { at, operation: "program", source })
            }
        }
    }

    fn mark(state: &mut State, piece: &Piece<'_>) {
        if let Some(entry) = state.map.get_mut(piece.peb) {
            piece.units.clone().for_each(|unit| entry.set_written(unit));
        }
    }

    /// Splits a range into pieces of units that must be written: those that are not all 0xFF.
    fn plan<'a>(
        &self,
        state: &mut State,
        addr: u64,
        data: &'a [u8],
        pieces: &mut Vec<Piece<'a>>,
    ) -> Result<(), MtdError> {
        let unit = self.layout.unit as usize;
        let mut done = 0;
        while done < data.len() {
            let (peb, offset) = self.split(addr + done as u64);
            let in_peb = (self.layout.peb_size - offset) as usize;
            let part = &data[done..data.len().min(done + in_peb)];
            let first = offset / self.layout.unit;
            for (run, bytes) in runs(part, unit) {
                let units = first + run.start..first + run.end;
                let entry = state.map.get(peb);
                if let Some(unit) = units.clone().find(|u| entry.is_some_and(|e| e.is_written(*u)))
                {
                    let at = Location::Peb(peb, unit * self.layout.unit);
                    let rule = "a unit is not programmed again before its block is erased";
                    return Err(MtdError::Rule { at, rule });
                }
                let slot = self.take_slot(state, peb)?;
                let start = u64::from(units.start) * u64::from(self.layout.unit);
                let offset = self.layout.slot_start(slot) + start;
                pieces.push(Piece { offset, data: bytes, peb, units });
            }
            done += part.len();
        }
        Ok(())
    }

    pub(super) fn read_locked(&self, state: &State, addr: u64, buf: &mut [u8]) -> ReadOutcome {
        let mut outcome = ReadOutcome::CLEAN;
        let (mut done, len) = (0, buf.len());
        while done < len {
            let (peb, offset) = self.split(addr + done as u64);
            let entry = state.map.get(peb);
            let slot = entry.and_then(|entry| entry.slot);
            let written = |unit: u32| slot.is_some() && entry.is_some_and(|e| e.is_written(unit));
            let first = offset / self.layout.unit;
            let is_written = written(first);
            let end = (first + 1..self.layout.peb_size / self.layout.unit)
                .find(|unit| written(*unit) != is_written)
                .map_or(self.layout.peb_size, |unit| unit * self.layout.unit);
            let part = &mut buf[done..len.min(done + (end - offset) as usize)];
            done += part.len();
            match slot {
                Some(slot) if is_written => {
                    let start = self.layout.slot_start(slot) + u64::from(offset);
                    outcome = outcome.merge(self.read_disk(start, part));
                }
                _ => part.fill(0xFF),
            }
        }
        outcome
    }

    /// Reads whole sectors. Units that the disk cannot read are 0 and reported as uncorrectable.
    fn read_disk(&self, start: u64, buf: &mut [u8]) -> ReadOutcome {
        const SECTOR: u64 = 512;
        let end = start + buf.len() as u64;
        let from = start / SECTOR * SECTOR;
        let skip = usize::try_from(start - from).unwrap_or(0);
        let len = usize::try_from(end.next_multiple_of(SECTOR) - from).unwrap_or(usize::MAX);
        if len == buf.len() {
            if self.disk.read(from, buf).is_ok() {
                return ReadOutcome::CLEAN;
            }
            return self.salvage(from, buf);
        }
        let mut sectors = vec![0; len];
        let mut outcome = ReadOutcome::CLEAN;
        if self.disk.read(from, &mut sectors).is_err() {
            outcome = self.salvage(from, &mut sectors);
        }
        buf.copy_from_slice(&sectors[skip..skip + buf.len()]);
        outcome
    }

    /// Reads sector by sector after a read of the whole range failed.
    fn salvage(&self, from: u64, sectors: &mut [u8]) -> ReadOutcome {
        let mut uncorrectable = false;
        for (at, sector) in (from..).step_by(512).zip(sectors.chunks_mut(512)) {
            if self.disk.read(at, sector).is_err() {
                sector.fill(0);
                uncorrectable = true;
            }
        }
        ReadOutcome { corrected_bits: 0, uncorrectable }
    }
}

/// Returns the runs of units that are not all 0xFF.
fn runs(data: &[u8], unit: usize) -> Vec<(std::ops::Range<u32>, &[u8])> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, bytes) in data.chunks(unit).enumerate() {
        if eraseblock_base::align::is_erased(bytes) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == index => run.end += 1,
            _ => runs.push(index..index + 1),
        }
    }
    let number = |index| u32::try_from(index).expect("units of one eraseblock");
    let bytes = |run: std::ops::Range<usize>| {
        (number(run.start)..number(run.end), &data[run.start * unit..run.end * unit])
    };
    runs.into_iter().map(bytes).collect()
}

/// Runs all jobs, several of them concurrently.
pub(super) fn in_flight<T: Sync>(jobs: &[T], work: impl Fn(&T) + Sync) {
    if let [only] = jobs {
        return work(only);
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs.len().min(IN_FLIGHT) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(job);
                }
            });
        }
    });
}

/// Returns whether two ranges have a byte in common.
pub(super) fn overlap(ranges: &[(u64, &[u8])]) -> bool {
    let mut spans: Vec<(u64, u64)> =
        ranges.iter().map(|(addr, data)| (*addr, addr + data.len() as u64)).collect();
    spans.sort_unstable();
    spans.windows(2).any(|pair| pair[1].0 < pair[0].1)
}
