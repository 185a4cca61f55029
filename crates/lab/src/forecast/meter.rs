//! A device that counts what is programmed, by cause.

use super::causes::{Bytes, Causes};
use super::turns::Turns;
use eraseblock_base::Peb;
use eraseblock_mtd::{Mtd, MtdError, forward};
use eraseblock_nandsim::Chip;
use eraseblock_ubi_format::HeaderLayout;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A chip, and the causes of what is programmed on it.
#[derive(Debug)]
pub(super) struct Meter {
    inner: Arc<Chip>,
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
        Self { inner: chip, seen: Mutex::new(Seen { causes, turns }) }
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
        let size = u64::from(self.inner.geometry().peb_size());
        let block = |addr| u32::try_from(addr).expect("an address of the chip");
        self.seen().causes.programmed(Peb::new(block(addr / size)), block(addr % size), data);
    }
}

impl Mtd for Meter {
    forward!(geometry, read, is_bad, mark_bad, sync, oob, read_with_oob);

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.inner.program(addr, data).inspect(|()| self.programmed(addr, data))
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.inner.erase(peb).inspect(|()| {
            let mut seen = self.seen();
            seen.causes.erased(peb);
            seen.turns.erased(peb);
        })
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.inner.program_with_oob(addr, data, oob).inspect(|()| self.programmed(addr, data))
    }
}
