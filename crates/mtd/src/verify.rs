//! Reading back what was programmed (spec: mtd-nand 5, last paragraph).

use crate::device::{Mtd, ReadOutcome};
use crate::error::MtdError;
use eraseblock_base::{Geometry, Location, Peb};
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
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.inner.read(addr, buf)
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.inner.program(addr, data)?;
        self.verify(addr, data)
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.inner.erase(peb)
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        self.inner.is_bad(peb)
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.inner.mark_bad(peb)
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.inner.sync()
    }

    fn read_oob(&self, addr: u64, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.inner.read_oob(addr, offset, buf)
    }

    fn program_oob(&self, addr: u64, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        self.inner.program_oob(addr, offset, data)
    }

    fn read_with_oob(
        &self,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<ReadOutcome, MtdError> {
        self.inner.read_with_oob(addr, data, oob)
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.inner.program_with_oob(addr, data, oob)?;
        self.verify(addr, data)
    }
}
