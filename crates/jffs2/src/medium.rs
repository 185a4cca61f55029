//! The source of the bytes.

use eraseblock_mtd::ReadError;
use eraseblock_mtd::{Mtd, ReadAt};
use std::sync::Arc;

/// The source of an image.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file, or bytes in memory.
    Image(Arc<dyn ReadAt>),
    /// A flash device; its eraseblocks are those of the file system, and bad ones are skipped.
    Device(Arc<dyn Mtd>),
}

impl Source {
    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> Result<u64, ReadError> {
        match self {
            Self::Image(image) => image.size().map_err(ReadError::Image),
            Self::Device(device) => Ok(device.geometry().size()),
        }
    }

    /// Returns the first place from `addr` on where something else than zeros may be.
    pub(crate) fn next_data(&self, addr: u64) -> Result<u64, ReadError> {
        match self {
            Self::Image(image) => image.next_data(addr).map_err(ReadError::Image),
            Self::Device(_) => Ok(addr),
        }
    }

    /// Fills `buf`. Uncorrectable data is delivered: the checksums of nodes decide (spec: jffs2
    /// 16).
    pub(crate) fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        match self {
            Self::Image(image) => image.read_exact_at(buf, addr).map_err(ReadError::Image),
            Self::Device(device) => device.read(addr, buf).map(drop).map_err(ReadError::Device),
        }
    }
}
