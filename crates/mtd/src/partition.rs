//! Partitions: the `mtdparts` syntax (spec: mtd-nand 2.2) and a window on a device (2.1).

mod parse;

use crate::device::{Mtd, ReadOutcome};
use crate::error::MtdError;
use eraseblock_base::{Geometry, GeometryError, Location, Peb};
pub use parse::{DeviceParts, PartSize, PartSpec, PartitionError, parse};
use std::sync::Arc;

/// A partition with its position on one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// The offset of its first byte.
    pub offset: u64,
    /// Its length in bytes; 0 if its explicit offset is beyond the end of the device.
    pub size: u64,
    /// Whether it is read-only: on request, or because it does not start and end at eraseblock
    /// boundaries.
    pub read_only: bool,
}

/// Computes the positions of the partitions of a `mtdparts` spec on a device of `size` bytes with
/// eraseblocks of `peb_size` bytes (spec: mtd-nand 2.1, 2.2 rules 4, 6).
pub fn place(parts: &[PartSpec], size: u64, peb_size: u32) -> Vec<Placed> {
    let mut end = 0_u64;
    let mut placed = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let offset = part.offset.unwrap_or(end);
        let room = size.saturating_sub(offset);
        let length = match part.size {
            PartSize::Bytes(bytes) => bytes.min(room),
            PartSize::Rest => room,
        };
        end = offset.saturating_add(length);
        if length == 0 && offset <= size {
            continue;
        }
        let unit = u64::from(peb_size.max(1));
        let aligned = offset.is_multiple_of(unit) && end.is_multiple_of(unit);
        let name = part.name.clone().unwrap_or_else(|| format!("Partition_{index:03}"));
        placed.push(Placed { name, offset, size: length, read_only: part.read_only || !aligned });
    }
    placed
}

/// A window on a device: addresses start at 0 and cannot leave it.
#[derive(Debug)]
pub struct Partition {
    inner: Arc<dyn Mtd>,
    geometry: Geometry,
    offset: u64,
    read_only: bool,
}

impl Partition {
    /// Opens a partition. A partial eraseblock at its end is left out.
    ///
    /// # Errors
    ///
    /// Fails if the partition does not start at an eraseblock boundary.
    pub fn new(inner: Arc<dyn Mtd>, place: &Placed) -> Result<Self, GeometryError> {
        let parent = *inner.geometry();
        let unit = u64::from(parent.peb_size());
        let fail = |field, found, expected| Err(GeometryError { field, found, expected });
        if !place.offset.is_multiple_of(unit) {
            return fail("partition offset", place.offset, "a multiple of the eraseblock size");
        }
        if place.offset.checked_add(place.size).is_none_or(|end| end > parent.size()) {
            return fail("partition size", place.size, "a range inside the device");
        }
        let count = u32::try_from(place.size / unit).unwrap_or(u32::MAX);
        let geometry = Geometry::new(
            parent.kind(),
            parent.peb_size(),
            count,
            parent.min_io(),
            parent.subpage(),
            parent.oob_size(),
        )?
        .with_write_buffer(parent.write_buffer())?;
        Ok(Self { inner, geometry, offset: place.offset, read_only: place.read_only })
    }

    /// Returns the address on the underlying device.
    fn address(&self, addr: u64, len: usize, operation: &'static str) -> Result<u64, MtdError> {
        let len = len as u64;
        if addr.checked_add(len).is_some_and(|end| end <= self.geometry.size()) {
            return Ok(addr + self.offset);
        }
        let (at, expected) = (Location::Byte(addr), "a range inside the partition");
        Err(MtdError::Range { at, operation, len, expected })
    }

    fn writable(&self, addr: u64, len: usize, operation: &'static str) -> Result<u64, MtdError> {
        if self.read_only {
            return Err(MtdError::ReadOnly { at: Location::Byte(addr), operation });
        }
        self.address(addr, len, operation)
    }

    /// Returns the eraseblock on the underlying device.
    fn block(&self, peb: Peb, operation: &'static str) -> Result<Peb, MtdError> {
        let start = self.address(self.geometry.address_of(peb), 1, operation)?;
        let number = start / u64::from(self.geometry.peb_size());
        Ok(Peb::new(u32::try_from(number).unwrap_or(u32::MAX)))
    }

    fn writable_block(&self, peb: Peb, operation: &'static str) -> Result<Peb, MtdError> {
        self.writable(self.geometry.address_of(peb), 0, operation)?;
        self.block(peb, operation)
    }
}

impl Mtd for Partition {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.inner.read(self.address(addr, buf.len(), "read")?, buf)
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        self.inner.program(self.writable(addr, data.len(), "program")?, data)
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.inner.erase(self.writable_block(peb, "erase")?)
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        self.inner.is_bad(self.block(peb, "bad-block check")?)
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        self.inner.mark_bad(self.writable_block(peb, "mark bad")?)
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.inner.sync()
    }

    fn read_oob(&self, addr: u64, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.inner.read_oob(self.address(addr, 1, "read")?, offset, buf)
    }

    fn program_oob(&self, addr: u64, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        self.inner.program_oob(self.writable(addr, 1, "program")?, offset, data)
    }

    fn read_with_oob(
        &self,
        addr: u64,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<ReadOutcome, MtdError> {
        self.inner.read_with_oob(self.address(addr, data.len(), "read")?, data, oob)
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.inner.program_with_oob(self.writable(addr, data.len(), "program")?, data, oob)
    }
}
