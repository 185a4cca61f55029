//! Reading back what was programmed (spec: mtd-nand 5, last paragraph).

use crate::device::Mtd;
use crate::error::MtdError;
use crate::forward::forward;
use eraseblock_base::Location;
use std::sync::Arc;

/// A device that reads every program back, sub-pages included, and fails it when the bytes differ
/// or cannot be corrected. Corrected bits are no failure.
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
        if !outcome.uncorrectable && back == data {
            return Ok(());
        }
        let wrong = back.iter().zip(data).position(|(read, written)| read != written);
        let at = Location::Byte(addr + wrong.unwrap_or(0) as u64);
        Err(MtdError::Failed { at, operation: "verifying a program" })
    }
}

impl Mtd for VerifyMtd {
    forward!(geometry, read, erase, is_bad, mark_bad, sync, oob, read_with_oob);

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.inner.program(addr, data)?;
        self.verify(addr, data)
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.inner.program_with_oob(addr, data, oob)?;
        self.verify(addr, data)
    }
}
