//! A volume with some LEBs replaced in memory: what the volume will be once the changes are written.

use eraseblock_base::Leb;
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome, read_only_leb};
use std::collections::BTreeMap;
use std::sync::Arc;

/// New contents of LEBs by number; `None` is a LEB that is unmapped.
pub(crate) type Changes = BTreeMap<u32, Option<Vec<u8>>>;

/// A volume that cannot be written to, with changes on top.
#[derive(Debug)]
pub(crate) struct Patched {
    below: Arc<dyn LebDevice>,
    changes: Changes,
}

impl Patched {
    pub(crate) fn new(below: Arc<dyn LebDevice>, changes: Changes) -> Self {
        Self { below, changes }
    }
}

impl LebDevice for Patched {
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
        let Some(change) = self.changes.get(&leb.get()) else {
            return self.below.read(leb, offset, buf);
        };
        buf.fill(0xFF);
        let bytes = change.as_deref().unwrap_or_default();
        let stored = bytes.get(offset as usize..).unwrap_or_default();
        let len = stored.len().min(buf.len());
        buf[..len].copy_from_slice(&stored[..len]);
        Ok(ReadOutcome::CLEAN)
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        match self.changes.get(&leb.get()) {
            Some(change) => Ok(change.is_some()),
            None => self.below.is_mapped(leb),
        }
    }

    fn write(&self, leb: Leb, _offset: u32, _data: &[u8]) -> Result<(), MtdError> {
        read_only_leb(leb, "write")
    }

    fn change(&self, leb: Leb, _data: &[u8]) -> Result<(), MtdError> {
        read_only_leb(leb, "change")
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        read_only_leb(leb, "map")
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        read_only_leb(leb, "unmap")
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}
