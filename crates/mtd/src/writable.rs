//! An image file as a writable flash device: programming clears bits, erasing sets them.
//!
//! # Invariants
//! 1. Nothing outside the eraseblocks of the device is ever changed.
//! 2. A program operation never turns a 0 bit into a 1, so the file always has a state that a chip
//!    could have.
//! 3. If it was opened [undoable](WritableImage::open_undoable) and is dropped before
//!    [`WritableImage::keep`], the file gets its old bytes and length back.

use crate::device::{Mtd, ReadOutcome};
use crate::error::MtdError;
use crate::file::{ImageFile, ImageShape, OpenError, check_range, locate};
use eraseblock_base::{Geometry, Location, Peb};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A flash image opened for reading and writing. It has no bad blocks.
#[derive(Debug)]
pub struct WritableImage {
    image: ImageFile<File>,
    file: File,
    /// The length of the file before it was opened.
    old_len: u64,
    /// Programming reads, combines and writes, so only one program runs at a time.
    writing: Mutex<Option<Undo>>,
}

/// The content of the file before the changes.
#[derive(Debug)]
struct Undo {
    log: File,
    /// Blocks in the log, in the order of their first change; the log holds each block completely.
    saved: BTreeMap<Peb, u64>,
}

impl WritableImage {
    /// Opens the file at `path`. If [`ImageShape::peb_count`] exceeds the blocks in the file,
    /// erased blocks are added, because an image is usually smaller than its flash. This also fills
    /// up a partial last block.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened or extended, or if the shape is impossible.
    pub fn open(path: &Path, shape: &ImageShape) -> Result<Self, OpenError> {
        Self::open_with(path, shape, None)
    }

    /// Opens the file so that all changes are undone when the image is dropped, unless they are
    /// [kept](Self::keep). `log`, an empty file, stores overwritten blocks.
    ///
    /// # Errors
    ///
    /// Fails like [`WritableImage::open`].
    pub fn open_undoable(path: &Path, shape: &ImageShape, log: File) -> Result<Self, OpenError> {
        Self::open_with(path, shape, Some(Undo { log, saved: BTreeMap::new() }))
    }

    fn open_with(path: &Path, shape: &ImageShape, undo: Option<Undo>) -> Result<Self, OpenError> {
        let file = File::options().read(true).write(true).open(path)?;
        let old_len = file.metadata()?.len();
        let size = shape.peb_count.map(|count| u64::from(count) * u64::from(shape.peb_size));
        let opened = extend(&file, shape.start.saturating_add(size.unwrap_or(0)))
            .map_err(OpenError::from)
            .and_then(|()| ImageFile::new(file.try_clone()?, shape));
        match opened {
            Ok(image) => Ok(Self { image, file, old_len, writing: Mutex::new(undo) }),
            Err(error) => {
                file.set_len(old_len)?;
                Err(error)
            }
        }
    }

    fn undo_log(&self) -> MutexGuard<'_, Option<Undo>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps all changes, past and future.
    pub fn keep(&self) {
        self.undo_log().take();
    }

    /// Undoes all changes that are not [kept](Self::keep).
    ///
    /// # Errors
    ///
    /// Fails if the host cannot restore the file.
    pub fn undo(&self) -> io::Result<()> {
        let Some(undo) = self.undo_log().take() else { return Ok(()) };
        let mut bytes = vec![0; self.geometry().peb_size() as usize];
        for (peb, offset) in &undo.saved {
            undo.log.read_exact_at(&mut bytes, *offset)?;
            let addr = self.image.start() + self.geometry().address_of(*peb);
            self.file.write_all_at(&bytes, addr)?;
        }
        // Removes added blocks, and those that filled up a partial one.
        self.file.set_len(self.old_len)
    }

    /// Saves a block before its first change.
    fn save(&self, undo: &mut Option<Undo>, peb: Peb) -> io::Result<()> {
        let Some(undo) = undo else { return Ok(()) };
        let addr = self.image.start() + self.geometry().address_of(peb);
        if addr >= self.old_len || undo.saved.contains_key(&peb) {
            return Ok(());
        }
        let mut bytes = vec![0; self.geometry().peb_size() as usize];
        self.file.read_exact_at(&mut bytes, addr)?;
        let offset = undo.saved.len() as u64 * bytes.len() as u64;
        undo.log.write_all_at(&bytes, offset)?;
        undo.saved.insert(peb, offset);
        Ok(())
    }

    /// Removes trailing blocks of the file that were added after it was opened and that `is_unused`
    /// accepts.
    ///
    /// # Errors
    ///
    /// Fails if the host cannot read or truncate the file.
    pub fn cut(&self, is_unused: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let _alone = self.undo_log();
        let (start, size) = (self.image.start(), u64::from(self.geometry().peb_size()));
        let mut end = start + self.geometry().size();
        // Undo removes added blocks itself, and data after the flash must stay.
        if self.file.metadata()?.len() != end {
            return Ok(());
        }
        let mut bytes = vec![0; self.geometry().peb_size() as usize];
        while end.saturating_sub(size) >= self.old_len.max(start) {
            self.file.read_exact_at(&mut bytes, end - size)?;
            if !is_unused(&bytes) {
                break;
            }
            end -= size;
        }
        self.file.set_len(end)
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

impl Drop for WritableImage {
    fn drop(&mut self) {
        // Drop cannot report an error; callers that need it call `undo` themselves.
        let _ = self.undo();
    }
}

/// Extends the file to at least `size` bytes; new bytes are 0xFF.
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
        let peb_size = u64::from(self.geometry().peb_size());
        let len = data.len() as u64;
        if !addr.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            let at = locate(self.geometry(), addr);
            let expected = "whole programming units";
            return Err(MtdError::Range { at, operation: "program", len, expected });
        }
        let mut undo = self.undo_log();
        let at = locate(self.geometry(), addr);
        let (first, last) = (addr / peb_size, (addr + len.saturating_sub(1)) / peb_size);
        for peb in first..=last {
            let peb = Peb::new(u32::try_from(peb).expect("a block of the device"));
            let failed = |source| MtdError::Io { at, operation: "saving a block", source };
            self.save(&mut undo, peb).map_err(failed)?;
        }
        let mut cells = vec![0; data.len()];
        self.image.read(addr, &mut cells)?;
        cells.iter_mut().zip(data).for_each(|(cell, byte)| *cell &= byte);
        self.write(addr, &cells, "program")
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        let (addr, size) = (self.geometry().address_of(peb), self.geometry().peb_size());
        check_range(self.geometry(), "erase", addr, size as usize)?;
        let mut undo = self.undo_log();
        let at = Location::peb(peb);
        let failed = |source| MtdError::Io { at, operation: "saving a block", source };
        self.save(&mut undo, peb).map_err(failed)?;
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
    fn changes_that_are_not_kept_are_undone() {
        let file = file(4 + 3 * 64 + 10);
        let before: Vec<u8> =
            (0..206).map(|byte| if byte % 3 == 0 { 0x5A } else { 0xFF }).collect();
        std::fs::write(file.path(), &before).unwrap();
        let shape = ImageShape { peb_count: Some(8), ..SHAPE };
        let open = || {
            let log = tempfile::tempfile().unwrap();
            WritableImage::open_undoable(file.path(), &shape, log).unwrap()
        };
        let change = |image: &WritableImage| {
            image.program(8, &[0; 8]).unwrap();
            image.erase(Peb::new(0)).unwrap();
            // Across the boundary of two blocks, into the partial one, and after the old end.
            image.program(120, &[0; 80]).unwrap();
            image.program(320, &[1; 8]).unwrap();
        };
        let image = open();
        change(&image);
        assert_eq!(std::fs::read(file.path()).unwrap().len(), 4 + 8 * 64);
        drop(image);
        assert_eq!(std::fs::read(file.path()).unwrap(), before);
        let image = open();
        image.keep();
        change(&image);
        image.cut(|block| block.iter().all(|byte| *byte == 0xFF)).unwrap();
        drop(image);
        let after = std::fs::read(file.path()).unwrap();
        assert_eq!(after.len(), 4 + 6 * 64, "up to the last block that is in use");
        assert_eq!(after[4 + 320], 1);
    }

    #[test]
    fn what_was_there_and_what_lies_after_the_flash_is_not_cut_off() {
        let erased = |block: &[u8]| block.iter().all(|byte| *byte == 0xFF);
        for (len, count) in [(4 + 3 * 64, 6), (4 + 3 * 64, 2), (4 + 3 * 64 + 10, 6)] {
            let file = file(len);
            let shape = ImageShape { peb_count: Some(count), ..SHAPE };
            WritableImage::open(file.path(), &shape).unwrap().cut(erased).unwrap();
            let after = std::fs::read(file.path()).unwrap().len();
            assert_eq!(after, (len - 4).next_multiple_of(64) + 4, "{len} {count}");
        }
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
