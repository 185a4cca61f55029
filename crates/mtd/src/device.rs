//! A flash device as seen by its driver.

use crate::error::MtdError;
use eraseblock_base::{Geometry, Peb};
use std::fmt::Debug;

/// The ECC result of a read. The bytes are delivered in every case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadOutcome {
    /// The largest number of bits corrected in any one codeword of the range.
    pub corrected_bits: u16,
    /// At least one codeword could not be corrected: the bytes must not be trusted.
    pub uncorrectable: bool,
}

impl ReadOutcome {
    /// Everything read back as written.
    pub const CLEAN: Self = Self { corrected_bits: 0, uncorrectable: false };

    /// Returns the combined outcome of two reads.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            corrected_bits: self.corrected_bits.max(other.corrected_bits),
            uncorrectable: self.uncorrectable || other.uncorrectable,
        }
    }
}

/// A flash device (spec: mtd-nand 1). All methods take `&self`, so that readers run in parallel.
///
/// Addresses are byte addresses on the device, without out-of-band bytes.
///
/// # Errors
///
/// Every method fails with [`MtdError::Range`], without any effect, if a range leaves the device.
pub trait Mtd: Send + Sync + Debug {
    /// Returns the geometry of the device.
    fn geometry(&self) -> &Geometry;

    /// Reads `buf.len()` bytes at `addr`; address and length need no alignment.
    ///
    /// # Errors
    ///
    /// Fails if the transfer fails. Uncorrectable bits are not an error but part of the outcome.
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError>;

    /// Programs `data` at `addr`, both multiples of the programming unit, into erased flash.
    ///
    /// # Errors
    ///
    /// Fails if the range is not aligned, if the device is read-only, or if the chip reports a
    /// failure.
    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError>;

    /// Erases one eraseblock, which then reads as 0xFF.
    ///
    /// # Errors
    ///
    /// Fails if the device is read-only, if the block is bad, or if the chip reports a failure.
    fn erase(&self, peb: Peb) -> Result<(), MtdError>;

    /// Returns whether the block is marked bad; always `false` on media without bad blocks.
    ///
    /// # Errors
    ///
    /// Fails if the marker cannot be read.
    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError>;

    /// Marks the block bad, permanently.
    ///
    /// # Errors
    ///
    /// Fails if the device is read-only or cannot store the mark.
    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError>;

    /// Makes all completed writes durable on the medium that stores the device.
    ///
    /// # Errors
    ///
    /// Fails if the host cannot make the data durable.
    fn sync(&self) -> Result<(), MtdError>;

    /// Reads several ranges, in parallel if the device can. Returns one outcome per range, in
    /// order.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::read`] does for any of the ranges.
    fn read_batch(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<Vec<ReadOutcome>, MtdError> {
        ranges.iter_mut().map(|(addr, buf)| self.read(*addr, buf)).collect()
    }

    /// Programs several ranges in the given order.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::program`] does for any of the ranges; earlier ranges may have been
    /// programmed.
    fn program_batch(&self, ranges: &[(u64, &[u8])]) -> Result<(), MtdError> {
        ranges.iter().try_for_each(|(addr, data)| self.program(*addr, data))
    }

    /// Reads the out-of-band bytes of the page at `addr`, starting at byte `offset` of them.
    ///
    /// # Errors
    ///
    /// Fails with [`MtdError::Unsupported`] if the device has no out-of-band bytes, or if the
    /// transfer fails.
    fn read_oob(&self, _addr: u64, _offset: u32, _buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        Err(MtdError::Unsupported { operation: "reading out-of-band bytes" })
    }

    /// Programs out-of-band bytes of the page at `addr`, starting at byte `offset` of them.
    ///
    /// # Errors
    ///
    /// Fails with [`MtdError::Unsupported`] if the device has no out-of-band bytes, or as
    /// [`Self::program`] does.
    fn program_oob(&self, _addr: u64, _offset: u32, _data: &[u8]) -> Result<(), MtdError> {
        Err(MtdError::Unsupported { operation: "programming out-of-band bytes" })
    }

    /// Reads `data.len()` bytes at `addr`, all of one page, together with the out-of-band bytes of
    /// that page from byte 0. ECC on raw chips needs both from one array read.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::read`] and [`Self::read_oob`] do.
    fn read_with_oob(
        &self,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<ReadOutcome, MtdError> {
        let outcome = self.read(addr, data)?;
        Ok(outcome.merge(self.read_oob(addr, 0, oob)?))
    }

    /// Programs bytes of one page and its out-of-band bytes (from byte 0; 0xFF leaves a byte
    /// unchanged) in one operation, or in two if the device does not support this.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::program`] and [`Self::program_oob`] do.
    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.program(addr, data)?;
        if oob.iter().all(|byte| *byte == 0xFF) { Ok(()) } else { self.program_oob(addr, 0, oob) }
    }
}
