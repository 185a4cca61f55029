//! A volume that is only read: the repairs of a mount happen in memory (layer 2).
//!
//! # Invariants
//! 1. The underlying device is never written.
//! 2. Memory grows with the changed LEBs: those that a power cut tore, and the few that a mount
//!    writes.

use eraseblock_base::Leb;
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Changed LEBs on top of a device.
#[derive(Debug)]
pub(super) struct Shadow {
    below: Arc<dyn LebDevice>,
    /// `None` is an unmapped LEB.
    changed: Mutex<BTreeMap<Leb, Option<Vec<u8>>>>,
}

impl Shadow {
    pub(super) fn new(below: Arc<dyn LebDevice>) -> Self {
        Self { below, changed: Mutex::default() }
    }

    fn changed(&self) -> MutexGuard<'_, BTreeMap<Leb, Option<Vec<u8>>>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the whole LEB of the underlying device.
    fn copy(&self, leb: Leb) -> Result<Vec<u8>, MtdError> {
        let mut bytes = vec![0xFF; self.below.leb_size() as usize];
        if leb.get() < self.below.leb_count() {
            self.below.read(leb, 0, &mut bytes)?;
        }
        Ok(bytes)
    }
}

impl LebDevice for Shadow {
    fn leb_size(&self) -> u32 {
        self.below.leb_size()
    }

    fn min_io(&self) -> u32 {
        self.below.min_io()
    }

    fn max_write(&self) -> u32 {
        self.below.max_write()
    }

    fn leb_count(&self) -> u32 {
        self.below.leb_count()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        match self.changed().get(&leb) {
            None => return self.below.read(leb, offset, buf),
            Some(None) => buf.fill(0xFF),
            Some(Some(bytes)) => {
                let start = offset as usize;
                buf.copy_from_slice(&bytes[start..start + buf.len()]);
            }
        }
        Ok(ReadOutcome::CLEAN)
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        match self.changed().get(&leb) {
            None => self.below.is_mapped(leb),
            Some(bytes) => Ok(bytes.is_some()),
        }
    }

    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let mut changed = self.changed();
        let mut bytes = match changed.remove(&leb) {
            None => self.copy(leb)?,
            Some(None) => vec![0xFF; self.leb_size() as usize],
            Some(Some(bytes)) => bytes,
        };
        let start = offset as usize;
        bytes[start..start + data.len()].copy_from_slice(data);
        changed.insert(leb, Some(bytes));
        Ok(())
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        let mut bytes = data.to_vec();
        bytes.resize(self.leb_size() as usize, 0xFF);
        self.changed().insert(leb, Some(bytes));
        Ok(())
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.change(leb, &[])
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.changed().insert(leb, None);
        Ok(())
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}
