//! Where the bytes come from.

use eraseblock_mtd::{Mtd, ReadAt};
use std::sync::Arc;

/// What an image is read from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file, or bytes in memory.
    Image(Arc<dyn ReadAt>),
    /// A flash device; its erase blocks are those of the file system and bad ones are skipped.
    Device(Arc<dyn Mtd>),
}

impl Source {
    /// Bytes there are.
    pub(crate) fn size(&self) -> Result<u64, String> {
        match self {
            Self::Image(image) => image.size().map_err(|error| error.to_string()),
            Self::Device(device) => Ok(device.geometry().size()),
        }
    }

    /// Fills `buf`. What error correction could not repair is delivered: the checksums of nodes
    /// decide (spec: jffs2 16).
    pub(crate) fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), String> {
        match self {
            Self::Image(image) => image.read_exact_at(buf, addr).map_err(|error| error.to_string()),
            Self::Device(device) => {
                device.read(addr, buf).map(drop).map_err(|error| error.to_string())
            }
        }
    }
}
