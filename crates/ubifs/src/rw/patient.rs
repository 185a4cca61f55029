//! A device that retries operations that fail (layer 2).
//!
//! # Invariants
//! 1. A failed program is never repeated in place: the whole LEB, with the appended data, is
//!    written to another block, so that references to it stay valid.

use eraseblock_base::Leb;
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome};
use std::sync::Arc;

/// The device whose operations are retried.
#[derive(Debug)]
pub(super) struct Patient(pub(super) Arc<dyn LebDevice>);

fn is_media(error: &MtdError) -> bool {
    matches!(error, MtdError::Io { .. } | MtdError::Failed { .. })
}

fn twice<T>(mut operation: impl FnMut() -> Result<T, MtdError>) -> Result<T, MtdError> {
    match operation() {
        Err(error) if is_media(&error) => second(error, operation()),
        result => result,
    }
}

/// Returns the error of a second attempt, without reporting that the device has been read-only
/// since the first.
fn second<T>(first: MtdError, result: Result<T, MtdError>) -> Result<T, MtdError> {
    match result {
        Err(MtdError::ReadOnly { .. }) => Err(first),
        result => result,
    }
}

impl Patient {
    /// After a failed write, writes the whole LEB with the appended data.
    fn write_elsewhere(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let mut whole = vec![0; offset as usize];
        if offset > 0 {
            self.read(leb, 0, &mut whole)?;
        }
        whole.extend_from_slice(data);
        self.change(leb, &whole)
    }
}

impl LebDevice for Patient {
    fn leb_size(&self) -> u32 {
        self.0.leb_size()
    }

    fn min_io(&self) -> u32 {
        self.0.min_io()
    }

    fn max_write(&self) -> u32 {
        self.0.max_write()
    }

    fn leb_count(&self) -> u32 {
        self.0.leb_count()
    }

    fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        twice(|| self.0.read(leb, offset, buf))
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        twice(|| self.0.is_mapped(leb))
    }

    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        match self.0.write(leb, offset, data) {
            Err(error) if is_media(&error) => {
                second(error, self.write_elsewhere(leb, offset, data))
            }
            result => result,
        }
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        twice(|| self.0.change(leb, data))
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        twice(|| self.0.map(leb))
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        twice(|| self.0.unmap(leb))
    }

    fn sync(&self) -> Result<(), MtdError> {
        twice(|| self.0.sync())
    }
}
