//! A device in memory, for tests and experiments that do not depend on the rules of a chip.

use crate::device::{Mtd, ReadOutcome};
use crate::error::MtdError;
use crate::file::{check_range, locate};
use eraseblock_base::{Geometry, Location, Peb};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Flash in memory: programming clears bits, erasing sets them. Tests can plant bad blocks and read
/// outcomes. It enforces no other rule of a chip.
#[derive(Debug)]
pub struct MemoryMtd {
    geometry: Geometry,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    bad: BTreeSet<Peb>,
    outcomes: BTreeMap<u64, (u64, ReadOutcome)>,
}

impl MemoryMtd {
    /// Creates an erased device.
    pub fn new(geometry: Geometry) -> Self {
        Self::with_bytes(geometry, Vec::new())
    }

    /// Creates a device that starts with `bytes`; the rest is erased.
    pub fn with_bytes(geometry: Geometry, mut bytes: Vec<u8>) -> Self {
        bytes.resize(usize::try_from(geometry.size()).expect("a test device fits in memory"), 0xFF);
        let state = State { bytes, bad: BTreeSet::new(), outcomes: BTreeMap::new() };
        Self { geometry, state: RwLock::new(state) }
    }

    /// Overwrites bytes without any rule, as a fault would.
    ///
    /// # Errors
    ///
    /// Fails with [`MtdError::Range`] if the range leaves the device.
    pub fn poke(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        check_range(&self.geometry, "poke", addr, data.len())?;
        let start = index(addr);
        self.write_state().bytes[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }

    /// Gives this outcome to every later read that touches the range.
    pub fn plant_outcome(&self, range: Range<u64>, outcome: ReadOutcome) {
        self.write_state().outcomes.insert(range.start, (range.end, outcome));
    }

    /// Returns a copy of all bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.read_state().bytes.clone()
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_peb(&self, peb: Peb, operation: &'static str) -> Result<(), MtdError> {
        if peb.get() < self.geometry.peb_count() {
            return Ok(());
        }
        let expected = "an eraseblock of the device";
        Err(MtdError::Range { at: Location::peb(peb), operation, len: 0, expected })
    }
}

fn index(addr: u64) -> usize {
    usize::try_from(addr).expect("the address was checked against bytes in memory")
}

impl Mtd for MemoryMtd {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        check_range(&self.geometry, "read", addr, buf.len())?;
        let state = self.read_state();
        let start = index(addr);
        buf.copy_from_slice(&state.bytes[start..start + buf.len()]);
        let end = addr + buf.len() as u64;
        let touched =
            state.outcomes.range(..end).filter(|(_, (planted_end, _))| *planted_end > addr);
        Ok(touched.fold(ReadOutcome::CLEAN, |all, (_, (_, outcome))| all.merge(*outcome)))
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        check_range(&self.geometry, "program", addr, data.len())?;
        let unit = u64::from(self.geometry.subpage());
        if !addr.is_multiple_of(unit) || !(data.len() as u64).is_multiple_of(unit) {
            return Err(MtdError::Range {
                at: locate(&self.geometry, addr),
                operation: "program",
                len: data.len() as u64,
                expected: "whole programming units",
            });
        }
        let start = index(addr);
        let mut state = self.write_state();
        let cells = &mut state.bytes[start..start + data.len()];
        cells.iter_mut().zip(data).for_each(|(cell, byte)| *cell &= byte);
        Ok(())
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.check_peb(peb, "erase")?;
        let mut state = self.write_state();
        if state.bad.contains(&peb) {
            return Err(MtdError::Failed { at: Location::peb(peb), operation: "erase" });
        }
        let start = index(self.geometry.address_of(peb));
        state.bytes[start..start + self.geometry.peb_size() as usize].fill(0xFF);
        Ok(())
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        self.check_peb(peb, "bad-block check")?;
        Ok(self.read_state().bad.contains(&peb))
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.check_peb(peb, "marking a block bad")?;
        self.write_state().bad.insert(peb);
        Ok(())
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_base::MediumKind;

    fn device() -> MemoryMtd {
        MemoryMtd::new(Geometry::new(MediumKind::Nand, 64, 4, 16, 8, 0).unwrap())
    }

    #[test]
    fn programming_clears_bits_and_erasing_sets_them() {
        let device = device();
        device.program(64, &[0xF0; 8]).unwrap();
        device.program(64, &[0x3C; 8]).unwrap();
        let mut buf = [0; 9];
        device.read(64, &mut buf).unwrap();
        assert_eq!(buf, [0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0xFF]);
        device.erase(Peb::new(1)).unwrap();
        device.read(64, &mut buf).unwrap();
        assert_eq!(buf, [0xFF; 9]);
        assert!(device.program(4, &[0; 8]).is_err());
        assert!(device.erase(Peb::new(4)).is_err());
    }

    #[test]
    fn planted_outcomes_touch_only_their_range() {
        let device = device();
        let outcome = ReadOutcome { corrected_bits: 2, uncorrectable: false };
        device.plant_outcome(10..20, outcome);
        let read = |addr, len| device.read(addr, &mut vec![0; len]).unwrap();
        assert_eq!(read(0, 10), ReadOutcome::CLEAN);
        assert_eq!(read(0, 11), outcome);
        assert_eq!(read(19, 1), outcome);
        assert_eq!(read(20, 1), ReadOutcome::CLEAN);
    }

    #[test]
    fn bad_blocks_refuse_to_be_erased() {
        let device = device();
        device.mark_bad(Peb::new(2)).unwrap();
        assert!(device.is_bad(Peb::new(2)).unwrap());
        assert!(matches!(device.erase(Peb::new(2)), Err(MtdError::Failed { .. })));
    }
}
