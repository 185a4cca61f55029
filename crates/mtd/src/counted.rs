//! Counts the operations on a device.

use crate::device::{Mtd, ReadOutcome};
use crate::error::MtdError;
use crate::forward;
use eraseblock_base::Peb;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the operations on a device, without out-of-band bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Bytes requested by successful reads.
    pub bytes_read: u64,
    /// Bytes programmed successfully.
    pub bytes_programmed: u64,
    /// Blocks erased successfully.
    pub erases: u64,
}

/// A device that counts its operations.
#[derive(Debug)]
pub struct CountedMtd {
    inner: Arc<dyn Mtd>,
    bytes_read: AtomicU64,
    bytes_programmed: AtomicU64,
    erases: AtomicU64,
}

impl CountedMtd {
    /// Wraps a device and counts all operations through the wrapper, from zero.
    pub fn new(inner: Arc<dyn Mtd>) -> Self {
        Self {
            inner,
            bytes_read: AtomicU64::new(0),
            bytes_programmed: AtomicU64::new(0),
            erases: AtomicU64::new(0),
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        let get = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        Counts {
            bytes_read: get(&self.bytes_read),
            bytes_programmed: get(&self.bytes_programmed),
            erases: get(&self.erases),
        }
    }

    fn read_bytes(&self, len: usize) {
        self.bytes_read.fetch_add(len as u64, Ordering::Relaxed);
    }

    fn programmed(&self, len: usize) {
        self.bytes_programmed.fetch_add(len as u64, Ordering::Relaxed);
    }
}

impl Mtd for CountedMtd {
    forward!(geometry, is_bad, mark_bad, sync, oob);

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let len = buf.len();
        self.inner.read(addr, buf).inspect(|_| self.read_bytes(len))
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.inner.program(addr, data).inspect(|()| self.programmed(data.len()))
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.inner.erase(peb).inspect(|()| {
            self.erases.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn read_batch(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<Vec<ReadOutcome>, MtdError> {
        let len = ranges.iter().map(|(_, buf)| buf.len()).sum();
        self.inner.read_batch(ranges).inspect(|_| self.read_bytes(len))
    }

    fn program_batch(&self, ranges: &[(u64, &[u8])]) -> Result<(), MtdError> {
        let len = ranges.iter().map(|(_, data)| data.len()).sum();
        self.inner.program_batch(ranges).inspect(|()| self.programmed(len))
    }

    fn read_with_oob(
        &self,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<ReadOutcome, MtdError> {
        let len = data.len();
        self.inner.read_with_oob(addr, data, oob).inspect(|_| self.read_bytes(len))
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.inner.program_with_oob(addr, data, oob).inspect(|()| self.programmed(data.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryMtd;
    use eraseblock_base::{Geometry, MediumKind};

    #[test]
    fn what_succeeds_is_counted() {
        let geometry = Geometry::new(MediumKind::Nand, 4096, 2, 512, 512, 0).unwrap();
        let device = CountedMtd::new(Arc::new(MemoryMtd::new(geometry)));
        device.program(0, &[0; 512]).unwrap();
        device.program_batch(&[(512, &[1; 512][..]), (1024, &[2; 512][..])]).unwrap();
        device.program(1, &[0; 512]).unwrap_err();
        device.erase(Peb::new(1)).unwrap();
        device.erase(Peb::new(2)).unwrap_err();
        device.read(3, &mut [0; 7]).unwrap();
        let counts = Counts { bytes_read: 7, bytes_programmed: 1536, erases: 1 };
        assert_eq!(device.counts(), counts);
    }
}
