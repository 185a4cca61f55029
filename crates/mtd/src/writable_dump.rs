//! A raw dump of a NAND, in which the out-of-band bytes of each page follow the page, as a writable
//! device.

use crate::device::{Mtd, ReadOutcome};
use crate::error::MtdError;
use crate::file::{ImageShape, OpenError, check_range, locate};
use crate::writable::WritableImage;
use eraseblock_base::{Geometry, MediumKind, Peb};
use std::fs::File;
use std::path::Path;

/// Where everything is in a dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DumpShape {
    /// Bytes of data in a page.
    pub page: u32,
    /// Out-of-band bytes after each page.
    pub oob: u32,
    /// Pages in an eraseblock.
    pub pages: u32,
    /// Eraseblocks of the flash; erased ones are added to a shorter file.
    pub blocks: u32,
    /// The out-of-band byte that marks a block bad, in its first two pages; `None` if the dump has
    /// no such marks.
    pub marker: Option<u32>,
}

/// A raw dump opened for reading and writing. It corrects no bits.
#[derive(Debug)]
pub struct WritableDump {
    /// The file, with the out-of-band bytes as data.
    inner: WritableImage,
    shape: DumpShape,
    geometry: Geometry,
}

impl WritableDump {
    /// Opens the file at `path` so that all changes are undone when the dump is dropped, unless they
    /// are [kept](Self::keep). `log`, an empty file, stores overwritten blocks.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened or extended, or if the shape is impossible.
    pub fn open_undoable(path: &Path, shape: DumpShape, log: File) -> Result<Self, OpenError> {
        let DumpShape { page, oob, pages, blocks, .. } = shape;
        let geometry = Geometry::new(MediumKind::Nand, page * pages, blocks, page, page, oob)?;
        let raw = ImageShape {
            start: 0,
            peb_size: (page + oob) * pages,
            min_io: 1,
            subpage: 1,
            peb_count: Some(blocks),
        };
        let inner = WritableImage::open_undoable(path, &raw, log)?;
        Ok(Self { inner, shape, geometry })
    }

    /// Keeps all changes, past and future.
    pub fn keep(&self) {
        self.inner.keep();
    }

    /// Returns where a byte of the data is in the file.
    fn place(&self, addr: u64) -> u64 {
        let page = u64::from(self.shape.page);
        addr / page * (page + u64::from(self.shape.oob)) + addr % page
    }

    /// Returns where an out-of-band byte of the page at `addr` is in the file, after a check that
    /// `len` bytes of them follow.
    fn oob_place(
        &self,
        operation: &'static str,
        addr: u64,
        offset: u32,
        len: usize,
    ) -> Result<u64, MtdError> {
        check_range(&self.geometry, operation, addr, 1)?;
        if offset as usize + len > self.shape.oob as usize {
            let at = locate(&self.geometry, addr);
            let expected = "a range inside the out-of-band bytes of one page";
            return Err(MtdError::Range { at, operation, len: len as u64, expected });
        }
        let start = addr - addr % u64::from(self.shape.page);
        Ok(self.place(start) + u64::from(self.shape.page + offset))
    }
}

impl Mtd for WritableDump {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        check_range(&self.geometry, "read", addr, buf.len())?;
        let page = u64::from(self.shape.page);
        let (mut at, mut rest) = (addr, buf);
        while !rest.is_empty() {
            let room = usize::try_from(page - at % page).unwrap_or(usize::MAX);
            let (part, after) = rest.split_at_mut(room.min(rest.len()));
            self.inner.read(self.place(at), part)?;
            (at, rest) = (at + part.len() as u64, after);
        }
        Ok(ReadOutcome::CLEAN)
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        check_range(&self.geometry, "program", addr, data.len())?;
        let page = u64::from(self.shape.page);
        if !addr.is_multiple_of(page) || !(data.len() as u64).is_multiple_of(page) {
            let at = locate(&self.geometry, addr);
            let (len, expected) = (data.len() as u64, "whole pages");
            return Err(MtdError::Range { at, operation: "program", len, expected });
        }
        let pages = data.chunks_exact(self.shape.page as usize);
        (addr..)
            .step_by(self.shape.page as usize)
            .zip(pages)
            .try_for_each(|(addr, data)| self.inner.program(self.place(addr), data))
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        self.inner.erase(peb)
    }

    /// One wrong bit of the marker is tolerated.
    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        let Some(marker) = self.shape.marker else { return Ok(false) };
        let start = self.geometry.address_of(peb);
        let mut status = 0xFF;
        for page in 0..self.shape.pages.min(2) {
            let mut byte = [0];
            self.read_oob(start + u64::from(page * self.shape.page), marker, &mut byte)?;
            status &= byte[0];
        }
        Ok(status.count_ones() < 7)
    }

    fn mark_bad(&self, peb: Peb) -> Result<(), MtdError> {
        let Some(marker) = self.shape.marker else {
            return Err(MtdError::Unsupported { operation: "marking a block of this dump bad" });
        };
        let start = self.geometry.address_of(peb);
        (0..self.shape.pages.min(2)).try_for_each(|page| {
            self.program_oob(start + u64::from(page * self.shape.page), marker, &[0])
        })
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.inner.sync()
    }

    fn read_oob(&self, addr: u64, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let operation = "read of out-of-band bytes";
        self.inner.read(self.oob_place(operation, addr, offset, buf.len())?, buf)
    }

    fn program_oob(&self, addr: u64, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let operation = "program of out-of-band bytes";
        self.inner.program(self.oob_place(operation, addr, offset, data.len())?, data)
    }

    fn program_with_oob(&self, addr: u64, data: &[u8], oob: &[u8]) -> Result<(), MtdError> {
        self.program(addr, data)?;
        self.program_oob(addr, 0, oob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_their_spare_bytes_follow_each_other_and_changes_are_undone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let before = vec![0xFF; 3 * 4 * 20];
        std::fs::write(file.path(), &before).unwrap();
        let shape = DumpShape { page: 16, oob: 4, pages: 4, blocks: 5, marker: Some(0) };
        let open = || {
            WritableDump::open_undoable(file.path(), shape, tempfile::tempfile().unwrap()).unwrap()
        };
        let dump = open();
        assert_eq!((dump.geometry().peb_size(), dump.geometry().peb_count()), (64, 5));
        dump.program_with_oob(16, &[7; 16], &[0xFF, 1, 2, 3]).unwrap();
        let (mut data, mut oob) = ([0; 24], [0; 3]);
        dump.read(12, &mut data).unwrap();
        assert_eq!(data[..], [vec![0xFF; 4], vec![7; 16], vec![0xFF; 4]].concat());
        dump.read_oob(20, 1, &mut oob).unwrap();
        assert_eq!(oob, [1, 2, 3]);
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes[20..40], [vec![7; 16], vec![0xFF, 1, 2, 3]].concat());
        assert!(!dump.is_bad(Peb::new(2)).unwrap());
        dump.mark_bad(Peb::new(2)).unwrap();
        assert!(dump.is_bad(Peb::new(2)).unwrap());
        assert!(dump.program(8, &[0; 16]).is_err() && dump.program_oob(0, 2, &[0; 3]).is_err());
        drop(dump);
        assert_eq!(std::fs::read(file.path()).unwrap(), before);
        let dump = open();
        dump.erase(Peb::new(4)).unwrap();
        dump.keep();
        drop(dump);
        assert_eq!(std::fs::read(file.path()).unwrap().len(), 5 * 4 * 20);
    }
}
