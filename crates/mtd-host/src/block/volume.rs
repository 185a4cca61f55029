//! The eraseblocks of a disk as logical eraseblocks: a file system without UBI. The disk handles
//! wear levelling and bad blocks, and a change is atomic by itself.

use super::{Backing, BlockDevice, HostDisk};
use eraseblock_base::{Leb, Location, Peb};
use eraseblock_mtd::{LebDevice, Mtd, MtdError, ReadOutcome};
use std::sync::Arc;

/// All of a [`BlockDevice`] as one volume.
#[derive(Debug)]
pub struct BlockVolume<B: Backing = HostDisk>(Arc<BlockDevice<B>>);

impl<B: Backing> BlockVolume<B> {
    /// Returns the volume; LEB n is eraseblock n.
    pub fn new(device: Arc<BlockDevice<B>>) -> Self {
        Self(device)
    }

    fn addr(
        &self,
        operation: &'static str,
        leb: Leb,
        offset: u32,
        len: usize,
    ) -> Result<u64, MtdError> {
        let inside = leb.get() < self.leb_count()
            && u64::from(offset) + len as u64 <= u64::from(self.leb_size());
        if inside {
            return Ok(u64::from(leb.get()) * u64::from(self.leb_size()) + u64::from(offset));
        }
        let (at, expected) = (Location::Leb(leb, offset), "a range in one LEB of the volume");
        Err(MtdError::Range { at, operation, len: len as u64, expected })
    }
}

fn peb(leb: Leb) -> Peb {
    Peb::new(leb.get())
}

impl<B: Backing> LebDevice for BlockVolume<B> {
    fn leb_size(&self) -> u32 {
        self.0.geometry().peb_size()
    }

    fn min_io(&self) -> u32 {
        self.0.geometry().min_io()
    }

    fn max_write(&self) -> u32 {
        self.min_io()
    }

    fn leb_count(&self) -> u32 {
        self.0.geometry().peb_count()
    }

    fn is_read_only(&self) -> bool {
        !self.0.is_writable()
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.0.read(self.addr("read", leb, offset, buf.len())?, buf)
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        self.0.has_place(peb(leb))
    }

    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let addr = self.addr("write", leb, offset, data.len())?;
        self.0.program(addr, data)
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        self.addr("change", leb, 0, data.len())?;
        self.0.change(peb(leb), data)
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        if self.is_mapped(leb)? {
            let rule = "a LEB is mapped once";
            return Err(MtdError::Rule { at: Location::leb(leb), rule });
        }
        self.0.claim(peb(leb))
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.0.erase(peb(leb))
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.0.sync()
    }
}
