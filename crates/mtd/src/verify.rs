//! Verifies programs by reading back (spec: mtd-nand 5, last paragraph).

use crate::device::{Mtd, ReadOutcome};
use crate::error::MtdError;
use crate::forward;
use eraseblock_base::Location;
use std::sync::Arc;

/// A device that reads back every program, including sub-pages and out-of-band bytes, and fails it
/// if the bytes differ or cannot be corrected. Corrected bits are not a failure. Out-of-band bytes
/// of 0xFF were not written (see [`Mtd::program_with_oob`]) and may have any value; callers leave
/// those of the ECC as 0xFF.
#[derive(Debug)]
pub struct VerifyMtd {
    inner: Arc<dyn Mtd>,
}

impl VerifyMtd {
    /// Verifies all programs of `inner`.
    pub fn new(inner: Arc<dyn Mtd>) -> Self {
        Self { inner }
    }

    fn verify(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        let mut back = vec![0; data.len()];
        let outcome = self.inner.read(addr, &mut back)?;
        judge(addr, outcome, difference(&back, data))
    }
}

/// Returns the first position at which data differs from what was written.
fn difference(read: &[u8], written: &[u8]) -> Option<usize> {
    read.iter().zip(written).position(|(read, written)| read != written)
}

/// Returns the first position at which out-of-band bytes differ from what was written.
fn oob_difference(read: &[u8], written: &[u8]) -> Option<usize> {
    let differs = |(read, written): (&u8, &u8)| *written != 0xFF && read != written;
    read.iter().zip(written).position(differs)
}

/// Fails a program at `addr` whose bytes are uncorrectable or differ at `wrong`.
fn judge(addr: u64, outcome: ReadOutcome, wrong: Option<usize>) -> Result<(), MtdError> {
    if !outcome.uncorrectable && wrong.is_none() {
        return Ok(());
    }
    let at = Location::Byte(addr + wrong.unwrap_or(0) as u64);
    Err(MtdError::Failed { at, operation: "verifying a program" })
}

impl Mtd for VerifyMtd {
    forward!(geometry, read, erase, is_bad, mark_bad, sync, read_oob, read_with_oob);

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.inner.program(addr, data)?;
        self.verify(addr, data)
    }

    fn program_oob(&self, addr: u64, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        self.inner.program_oob(addr, offset, data)?;
        let mut back = vec![0; data.len()];
        let outcome = self.inner.read_oob(addr, offset, &mut back)?;
        // Out-of-band bytes have no addresses: report the address of their page.
        judge(addr, outcome, oob_difference(&back, data).map(|_| 0))
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.inner.program_with_oob(addr, data, oob)?;
        let (mut data_back, mut oob_back) = (vec![0; data.len()], vec![0; oob.len()]);
        let outcome = self.inner.read_with_oob(addr, &mut data_back, &mut oob_back)?;
        let wrong = difference(&data_back, data);
        judge(addr, outcome, wrong.or(oob_difference(&oob_back, oob).map(|_| 0)))
    }
}
