//! An image file that can be changed, as a flash device: programming clears bits, erasing sets them.
//!
//! # Invariants
//! 1. Nothing outside the eraseblocks of the device is ever changed.
//! 2. A program operation never turns a 0 bit into a 1: the file stays what a chip could hold.

use crate::device::{Mtd, ReadOutcome};
use crate::error::MtdError;
use crate::file::{ImageFile, ImageShape, OpenError, check_range, locate};
use eraseblock_base::{Geometry, Location, Peb};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A flash image opened for reading and writing. It has no bad blocks.
#[derive(Debug)]
pub struct WritableImage {
    image: ImageFile<File>,
    file: File,
    /// Programming reads, combines and writes: one at a time.
    writing: Mutex<()>,
}

impl WritableImage {
    /// Opens the file at `path`. If [`ImageShape::peb_count`] is more than the file has, erased
    /// blocks are added at its end: an image is usually smaller than the flash it is made for. A
    /// partial last block is then filled up.
    pub fn open(path: &Path, shape: &ImageShape) -> Result<Self, OpenError> {
        let file = File::options().read(true).write(true).open(path)?;
        if let Some(count) = shape.peb_count {
            let size = u64::from(count) * u64::from(shape.peb_size);
            extend(&file, shape.start.saturating_add(size))?;
        }
        let image = ImageFile::new(file.try_clone()?, shape)?;
        Ok(Self { image, file, writing: Mutex::new(()) })
    }

    fn write(&self, addr: u64, data: &[u8], operation: &'static str) -> Result<(), MtdError> {
        let at = locate(self.geometry(), addr);
        self.file.write_all_at(data, self.image.start() + addr).map_err(|source| MtdError::Io {
            at,
            operation,
            source,
        })
    }
}

/// Makes the file `size` bytes long at least, the new ones 0xFF.
fn extend(file: &File, size: u64) -> io::Result<()> {
    let erased = vec![0xFF; 1 << 16];
    let mut end = file.metadata()?.len();
    while end < size {
        let len = usize::try_from(size - end).unwrap_or(usize::MAX).min(erased.len());
        file.write_all_at(&erased[..len], end)?;
        end += len as u64;
    }
    Ok(())
}

impl Mtd for WritableImage {
    fn geometry(&self) -> &Geometry {
        self.image.geometry()
    }

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.image.read(addr, buf)
    }

    fn program(&self, addr: u64, data: &[u8]) -> Result<(), MtdError> {
        check_range(self.geometry(), "program", addr, data.len())?;
        let unit = u64::from(self.geometry().subpage());
        let len = data.len() as u64;
        if !addr.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            let at = locate(self.geometry(), addr);
            let expected = "whole programming units";
            return Err(MtdError::Range { at, operation: "program", len, expected });
        }
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cells = vec![0; data.len()];
        self.image.read(addr, &mut cells)?;
        cells.iter_mut().zip(data).for_each(|(cell, byte)| *cell &= byte);
        self.write(addr, &cells, "program")
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        let (addr, size) = (self.geometry().address_of(peb), self.geometry().peb_size());
        check_range(self.geometry(), "erase", addr, size as usize)?;
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(addr, &vec![0xFF; size as usize], "erase")
    }

    fn is_bad(&self, peb: Peb) -> Result<bool, MtdError> {
        self.image.is_bad(peb)
    }

    fn mark_bad(&self, _peb: Peb) -> Result<(), MtdError> {
        Err(MtdError::Unsupported { operation: "marking a block of an image bad" })
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.file.sync_data().map_err(|source| MtdError::Io {
            at: Location::Whole,
            operation: "sync",
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape =
        ImageShape { start: 4, peb_size: 64, min_io: 16, subpage: 8, peb_count: None };

    fn file(len: usize) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![0xFF; len]).unwrap();
        file
    }

    #[test]
    fn programming_clears_bits_and_erasing_sets_them() {
        let file = file(4 + 3 * 64);
        let image = WritableImage::open(file.path(), &SHAPE).unwrap();
        image.program(64, &[0xF0; 8]).unwrap();
        image.program(64, &[0x3C; 8]).unwrap();
        let mut buf = [0; 9];
        image.read(64, &mut buf).unwrap();
        assert_eq!(buf, [0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0xFF]);
        assert_eq!(std::fs::read(file.path()).unwrap()[68], 0x30);
        image.erase(Peb::new(1)).unwrap();
        image.read(64, &mut buf).unwrap();
        assert_eq!(buf, [0xFF; 9]);
        image.sync().unwrap();
    }

    #[test]
    fn ranges_and_units_are_checked() {
        let file = file(4 + 3 * 64);
        let image = WritableImage::open(file.path(), &SHAPE).unwrap();
        for (addr, len) in [(4, 8), (0, 4), (192, 8), (u64::MAX - 7, 8)] {
            let error = image.program(addr, &vec![0; len]).unwrap_err();
            assert!(matches!(error, MtdError::Range { .. }), "{addr} {len}");
        }
        assert!(matches!(image.erase(Peb::new(3)), Err(MtdError::Range { .. })));
        assert!(image.mark_bad(Peb::new(0)).is_err());
        assert!(!image.is_bad(Peb::new(0)).unwrap());
    }

    #[test]
    fn an_image_grows_to_the_size_of_its_flash() {
        let file = file(4 + 64 + 10);
        let shape = ImageShape { peb_count: Some(5), ..SHAPE };
        let image = WritableImage::open(file.path(), &shape).unwrap();
        assert_eq!(image.geometry().peb_count(), 5);
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(bytes, vec![0xFF; 4 + 5 * 64]);
        let smaller = ImageShape { peb_count: Some(2), ..SHAPE };
        let image = WritableImage::open(file.path(), &smaller).unwrap();
        assert_eq!(image.geometry().peb_count(), 2);
        assert_eq!(std::fs::read(file.path()).unwrap().len(), 4 + 5 * 64);
    }
}
