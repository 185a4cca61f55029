//! A device that counts what is programmed, by cause.

use super::causes::{Bytes, Causes};
use super::turns::Turns;
use eraseblock_base::{Geometry, Peb};
use eraseblock_mtd::{Mtd, MtdError, ReadOutcome};
use eraseblock_nandsim::Chip;
use eraseblock_ubi_format::HeaderLayout;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A chip, and the causes of what is programmed on it.
#[derive(Debug)]
pub(super) struct Meter {
    chip: Arc<Chip>,
    seen: Mutex<Seen>,
}

/// What has been done to the chip.
#[derive(Debug)]
struct Seen {
    causes: Causes,
    turns: Turns,
}

impl Meter {
    pub(super) fn new(chip: Arc<Chip>, layout: Option<HeaderLayout>) -> Self {
        let blocks = chip.geometry().peb_count();
        let (causes, turns) = (Causes::new(blocks, layout), Turns::new(blocks));
        Self { chip, seen: Mutex::new(Seen { causes, turns }) }
    }

    /// Returns the bytes so far.
    pub(super) fn bytes(&self) -> Bytes {
        self.seen().causes.bytes()
    }

    /// Records the turns of blocks from now on.
    pub(super) fn begin_turns(&self) {
        self.seen().turns.begin();
    }

    /// Returns the turns of blocks.
    pub(super) fn turns(&self) -> Turns {
        self.seen().turns.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn programmed(&self, addr: u64, data: &[u8]) {
        let size = u64::from(self.chip.geometry().peb_size());
        let block = |addr| u32::try_from(addr).expect("an address of the chip");
        self.seen().causes.programmed(Peb::new(block(addr / size)), block(addr % size), data);
    }
}

impl Mtd for Meter {
    fn geometry(&self) -> &Geometry {
        self.chip.geometry()
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.chip.read(addr, buf)
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.chip.program(addr, data)?;
        self.programmed(addr, data);
        Ok(())
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.chip.erase(peb)?;
        let mut seen = self.seen();
        seen.causes.erased(peb);
        seen.turns.erased(peb);
        Ok(())
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        self.chip.is_bad(peb)
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.chip.mark_bad(peb)
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.chip.sync()
    }

    fn read_oob(&self, addr: u64, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.chip.read_oob(addr, offset, buf)
    }

    fn program_oob(&self, addr: u64, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        self.chip.program_oob(addr, offset, data)
    }

    fn read_with_oob(
        &self,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<ReadOutcome, MtdError> {
        self.chip.read_with_oob(addr, data, oob)
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.chip.program_with_oob(addr, data, oob)?;
        self.programmed(addr, data);
        Ok(())
    }
}
