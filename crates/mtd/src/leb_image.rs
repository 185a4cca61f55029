//! A bare `.ubifs` image as a writable volume.
//!
//! # Invariants
//! 1. Nothing after the last LEB of the volume is ever changed, except the record of a pending
//!    replacement at the very end of the file.
//! 2. A LEB that is being replaced has its old or its new content, even if the process dies during
//!    the replacement. This does not hold if the host fails: nothing is flushed to the disk before
//!    [`LebDevice::sync`].

use crate::device::ReadOutcome;
use crate::error::MtdError;
use crate::file::{LebFile, OpenError};
use crate::leb::{LebDevice, usual_max_write};
use crate::redo;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Leb, Location};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

/// A bare `.ubifs` image opened for reading and writing: LEB `n` starts at `n * leb_size`. Erased
/// LEBs and LEBs after the end of the file are not mapped; writing makes the file grow, LEB by LEB,
/// up to the size of the volume.
#[derive(Debug)]
pub struct LebImage {
    file: File,
    leb_size: u32,
    min_io: u32,
    leb_count: u32,
    /// The end of the file. Write-locked while the file changes.
    end: RwLock<u64>,
}

impl LebImage {
    /// Opens the file at `path` as a volume of `leb_count` LEBs of `leb_size` bytes, and finishes a
    /// replacement during which an earlier process died.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, read or written, or if the sizes are impossible.
    pub fn open(
        path: &Path,
        leb_size: u32,
        min_io: u32,
        leb_count: u32,
    ) -> Result<Self, OpenError> {
        let file = File::options().read(true).write(true).open(path)?;
        // LebFile refuses the same impossible sizes.
        drop(LebFile::new(file.try_clone()?, leb_size, min_io, Some(leb_count))?);
        let mut end = file.metadata()?.len();
        if let Some(redo) = redo::find(&file, end, leb_size)? {
            if let Some((leb, content)) = redo.change {
                let inside = leb.get() < leb_count;
                let start = u64::from(leb.get()) * u64::from(leb_size);
                if inside && start < redo.end {
                    file.write_all_at(&content, start)?;
                }
            }
            file.set_len(redo.end)?;
            end = redo.end;
        }
        Ok(Self { file, leb_size, min_io, leb_count, end: RwLock::new(end) })
    }

    /// Returns the size of the file in bytes.
    pub fn stored_bytes(&self) -> u64 {
        *self.end.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_of(&self, leb: Leb) -> u64 {
        u64::from(leb.get()) * u64::from(self.leb_size)
    }

    fn check(
        &self,
        leb: Leb,
        offset: u32,
        len: usize,
        unit: u32,
        operation: &'static str,
    ) -> Result<(), MtdError> {
        let unit = unit as usize;
        let inside = leb.get() < self.leb_count
            && (u64::from(offset) + len as u64) <= u64::from(self.leb_size)
            && (offset as usize).is_multiple_of(unit)
            && len.is_multiple_of(unit);
        if inside {
            return Ok(());
        }
        let expected = "whole units inside one LEB of the volume";
        Err(MtdError::Range {
            at: Location::Leb(leb, offset),
            operation,
            len: len as u64,
            expected,
        })
    }

    /// Changes the file with a closure that gets, and may change, the end of the file.
    fn alter<T>(
        &self,
        at: Location,
        operation: &'static str,
        what: impl FnOnce(&mut u64) -> io::Result<T>,
    ) -> Result<T, MtdError> {
        let mut end = self.end.write().unwrap_or_else(PoisonError::into_inner);
        what(&mut end).map_err(|source| MtdError::Io { at, operation, source })
    }

    /// Extends the file to the end of this LEB, so that it ends at a LEB boundary.
    fn grow(&self, leb: Leb, end: &mut u64) -> io::Result<()> {
        let size = u64::from(self.leb_size);
        let wanted = (*end).max(self.start_of(leb) + size).next_multiple_of(size);
        let erased = vec![0xFF; self.leb_size.min(1 << 16) as usize];
        while *end < wanted {
            let len = usize::try_from(wanted - *end).unwrap_or(usize::MAX).min(erased.len());
            self.file.write_all_at(&erased[..len], *end)?;
            *end += len as u64;
        }
        Ok(())
    }

    /// Reads bytes; those beyond the end of the file read as erased.
    fn fetch(&self, end: u64, start: u64, buf: &mut [u8]) -> io::Result<()> {
        let in_file = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let (stored, missing) = buf.split_at_mut(in_file.min(buf.len()));
        missing.fill(0xFF);
        self.file.read_exact_at(stored, start)
    }

    /// Replaces a LEB of the file, through a record at the end of the file.
    fn replace(&self, leb: Leb, content: &[u8], end: u64) -> io::Result<()> {
        self.file.write_all_at(&redo::encode(leb, content), end)?;
        self.file.write_all_at(content, self.start_of(leb))?;
        self.file.set_len(end)
    }
}

impl LebDevice for LebImage {
    fn leb_size(&self) -> u32 {
        self.leb_size
    }

    fn min_io(&self) -> u32 {
        self.min_io
    }

    fn max_write(&self) -> u32 {
        usual_max_write(self.min_io)
    }

    fn leb_count(&self) -> u32 {
        self.leb_count
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.check(leb, offset, buf.len(), 1, "read")?;
        let end = self.stored_bytes();
        let start = self.start_of(leb) + u64::from(offset);
        self.fetch(end, start, buf).map_err(|source| MtdError::Io {
            at: Location::Leb(leb, offset),
            operation: "read",
            source,
        })?;
        Ok(ReadOutcome::CLEAN)
    }

    /// Returns whether the LEB starts inside the file and is not fully erased.
    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        let mut buf = [0_u8; 4096];
        let mut offset = 0;
        self.check(leb, 0, 0, 1, "is_mapped")?;
        while offset < self.leb_size && self.start_of(leb) < self.stored_bytes() {
            let len = (self.leb_size - offset).min(4096);
            let part = &mut buf[..len as usize];
            self.read(leb, offset, part)?;
            if !is_erased(part) {
                return Ok(true);
            }
            offset += len;
        }
        Ok(false)
    }

    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        self.check(leb, offset, data.len(), self.min_io, "write")?;
        let start = self.start_of(leb) + u64::from(offset);
        let at = Location::Leb(leb, offset);
        let is_free = self.alter(at, "write", |end| {
            let mut before = vec![0; data.len()];
            self.fetch(*end, start, &mut before)?;
            if is_erased(&before) {
                self.grow(leb, end)?;
                self.file.write_all_at(data, start)?;
                return Ok(true);
            }
            Ok(false)
        })?;
        let rule = "a place is written once before its LEB is erased";
        if is_free { Ok(()) } else { Err(MtdError::Rule { at, rule }) }
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        self.check(leb, 0, data.len(), self.min_io, "change")?;
        self.alter(Location::leb(leb), "change", |end| {
            self.grow(leb, end)?;
            let mut content = data.to_vec();
            content.resize(self.leb_size as usize, 0xFF);
            self.replace(leb, &content, *end)
        })
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.unmap(leb)
    }

    /// Erases the LEB; the last LEB of the file is removed instead.
    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.check(leb, 0, 0, 1, "unmap")?;
        let start = self.start_of(leb);
        self.alter(Location::leb(leb), "unmap", |end| {
            if *end <= start {
                return Ok(());
            }
            if *end <= start + u64::from(self.leb_size) {
                self.file.set_len(start)?;
                *end = start;
                return Ok(());
            }
            self.file.write_all_at(&vec![0xFF; self.leb_size as usize], start)
        })
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.alter(Location::Whole, "sync", |_| self.file.sync_data())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const LEB: u32 = 64;

    fn file(len: usize) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), vec![7; len]).unwrap();
        file
    }

    fn open(file: &tempfile::NamedTempFile) -> LebImage {
        LebImage::open(file.path(), LEB, 8, 6).unwrap()
    }

    fn mapped(image: &LebImage) -> Vec<u32> {
        (0..6).filter(|leb| image.is_mapped(Leb::new(*leb)).unwrap()).collect()
    }

    #[test]
    fn writing_makes_the_file_grow_by_whole_lebs() {
        let file = file(100);
        let image = open(&file);
        assert_eq!(mapped(&image), [0, 1]);
        image.write(Leb::new(3), 8, &[1; 16]).unwrap();
        let bytes = fs::read(file.path()).unwrap();
        assert_eq!(bytes.len(), 256);
        assert!(is_erased(&bytes[100..200]) && is_erased(&bytes[216..]));
        assert_eq!(bytes[200..216], [1; 16]);
        assert_eq!(mapped(&image), [0, 1, 3]);
        image.map(Leb::new(5)).unwrap();
        assert_eq!(mapped(&image), [0, 1, 3]);
        image.sync().unwrap();
    }

    #[test]
    fn a_place_is_written_once_and_units_are_kept() {
        let file = file(128);
        let image = open(&file);
        let error = image.write(Leb::new(1), 0, &[1; 8]).unwrap_err();
        assert!(matches!(error, MtdError::Rule { .. }), "{error}");
        for (leb, offset, len) in
            [(2, 4, 8), (2, 8, 4), (2, 64, 8), (6, 0, 8), (2, u32::MAX - 7, 8)]
        {
            let error = image.write(Leb::new(leb), offset, &vec![0; len]).unwrap_err();
            assert!(matches!(error, MtdError::Range { .. }), "{leb} {offset} {len}");
        }
        assert!(image.change(Leb::new(6), &[]).is_err() && image.unmap(Leb::new(6)).is_err());
        assert!(image.read(Leb::new(5), 60, &mut [0; 8]).is_err());
        assert_eq!(fs::read(file.path()).unwrap(), [7; 128]);
    }

    #[test]
    fn lebs_are_replaced_and_erased() {
        let file = file(192);
        let image = open(&file);
        image.change(Leb::new(1), &[3; 8]).unwrap();
        image.change(Leb::new(4), &[4; 64]).unwrap();
        let bytes = fs::read(file.path()).unwrap();
        assert_eq!(bytes.len(), 320);
        assert_eq!(bytes[64..72], [3; 8]);
        assert!(is_erased(&bytes[72..128]) && is_erased(&bytes[192..256]));
        assert_eq!(bytes[256..], [4; 64]);
        image.unmap(Leb::new(0)).unwrap();
        image.unmap(Leb::new(4)).unwrap();
        image.unmap(Leb::new(5)).unwrap();
        assert_eq!(mapped(&image), [1, 2]);
        assert_eq!(fs::read(file.path()).unwrap().len(), 256);
    }

    /// The process dies after each byte that the replacement of LEB 1 writes.
    #[test]
    fn a_replacement_is_done_or_not_done_wherever_it_is_cut() {
        let old = [7; 192];
        let mut new = old;
        new[64..128].fill(3);
        let record = redo::encode(Leb::new(1), &[3; 64]);
        let mut states: Vec<Vec<u8>> =
            (0..=record.len()).map(|len| [&old[..], &record[..len]].concat()).collect();
        states.extend((0..=64).map(|len| {
            let mut state = [&old[..], &record[..]].concat();
            state[64..64 + len].fill(3);
            state
        }));
        for (cut, state) in states.iter().enumerate() {
            let expected = if cut < record.len() { old } else { new };
            let read_only = LebFile::new(state.clone(), LEB, 8, None).unwrap();
            assert_eq!(read_only.leb_count(), 3, "{cut}");
            let mut leb = [0; 64];
            read_only.read(Leb::new(1), 0, &mut leb).unwrap();
            assert_eq!(leb, expected[64..128], "{cut}");
            let file = file(0);
            fs::write(file.path(), state).unwrap();
            drop(open(&file));
            assert_eq!(fs::read(file.path()).unwrap(), expected, "{cut}");
        }
    }

    #[test]
    fn a_damaged_record_changes_nothing() {
        let mut record = redo::encode(Leb::new(1), &[3; 64]);
        record[40] ^= 1;
        let file = file(0);
        fs::write(file.path(), [&[7; 192][..], &record].concat()).unwrap();
        drop(open(&file));
        assert_eq!(fs::read(file.path()).unwrap(), [7; 192]);
    }
}
