//! Copies the content of one file from the image to a file of the host, piece by piece. Holes stay
//! holes; damage is skipped on request.

use eraseblock_vfs::{FileSystem, FsError, FsErrorKind, Ino};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Size of a read in bytes.
pub(crate) const CHUNK: usize = 256 * 1024;

/// The unit in which damage is skipped: the data block of flash file systems, in bytes.
pub(crate) const BLOCK: u64 = 4096;

/// The number of consecutive unreadable blocks that ends the search for readable ones: 256 MiB.
const MAX_BAD_RUN: u64 = 1 << 16;

/// A content that could not be copied.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// The content cannot be read completely.
    Read(FsError),
    /// The host refused to write it.
    Write(io::Error),
}

impl From<io::Error> for CopyError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Byte ranges (start, end) that could not be read and are replaced by zeros.
pub(crate) type Damage = Vec<(u64, u64)>;

/// Copies `size` bytes. With `keep_damaged`, unreadable ranges become zeros and are returned.
pub(crate) fn copy(
    fs: &dyn FileSystem,
    ino: Ino,
    size: u64,
    file: &File,
    keep_damaged: bool,
    buf: &mut [u8],
) -> Result<Damage, CopyError> {
    let mut reader = DataReader::new(fs, ino, size).keep_damaged(keep_damaged);
    let mut end = 0;
    while let Some((offset, len)) = reader.next(buf).map_err(CopyError::Read)? {
        file.write_all_at(&buf[..len], offset)?;
        end = offset + len as u64;
    }
    if end < size {
        file.set_len(size)?;
    }
    Ok(reader.damage)
}

/// Reads the parts of a content that are not holes, in order.
pub(crate) struct DataReader<'a> {
    fs: &'a dyn FileSystem,
    ino: Ino,
    size: u64,
    at: u64,
    /// End of the data that begins at or before `at`.
    data_end: u64,
    keep_damaged: bool,
    /// Blocks up to here are read one by one, because a read across them failed.
    careful_until: u64,
    pub(crate) damage: Damage,
}

impl<'a> DataReader<'a> {
    /// Reads a whole file; the first damage is an error.
    pub(crate) fn new(fs: &'a dyn FileSystem, ino: Ino, size: u64) -> Self {
        let (at, data_end, careful_until) = (0, 0, 0);
        let (keep_damaged, damage) = (false, Vec::new());
        Self { fs, ino, size, at, data_end, keep_damaged, careful_until, damage }
    }

    /// Skips damage, which is noted, instead of failing.
    pub(crate) fn keep_damaged(mut self, keep_damaged: bool) -> Self {
        self.keep_damaged = keep_damaged;
        self
    }

    /// Reads only the range from `start` to `end`.
    pub(crate) fn range(
        fs: &'a dyn FileSystem,
        ino: Ino,
        (start, end): (u64, u64),
        keep_damaged: bool,
    ) -> Self {
        Self { at: start, data_end: start, keep_damaged, ..Self::new(fs, ino, end) }
    }

    /// Reads the next piece of data into the front of `buf`; returns its offset and length, or
    /// `None` at the end.
    pub(crate) fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>, FsError> {
        while self.at < self.size {
            if self.at >= self.data_end && !self.find_data()? {
                break;
            }
            let is_careful = self.at < self.careful_until;
            let step = if is_careful { BLOCK - self.at % BLOCK } else { buf.len() as u64 };
            let end = self.data_end.min(self.at.saturating_add(step));
            let want = usize::try_from(end - self.at).expect("not more than the buffer");
            match self.fs.read(self.ino, self.at, &mut buf[..want]) {
                Ok(0) => self.cut_short()?,
                Ok(count) => {
                    let offset = self.at;
                    self.at += count as u64;
                    return Ok(Some((offset, count)));
                }
                Err(error) if !self.keep_damaged => return Err(error),
                Err(_) if !is_careful => self.careful_until = end,
                Err(_) => {
                    if !self.skip(end) {
                        break;
                    }
                }
            }
        }
        Ok(None)
    }

    /// Advances to the next data; returns false if only a hole follows. If the holes are unknown,
    /// everything counts as data when damage must be skipped.
    fn find_data(&mut self) -> Result<bool, FsError> {
        match self.fs.seek_data(self.ino, self.at) {
            Ok(None) => return Ok(false),
            Ok(Some(start)) if start >= self.size => return Ok(false),
            Ok(Some(start)) => self.at = start.max(self.at),
            Err(error) if !self.keep_damaged => return Err(error),
            Err(_) => return Ok(self.guess_data()),
        }
        match self.fs.seek_hole(self.ino, self.at) {
            Ok(end) if end > self.at => self.data_end = end.min(self.size),
            Ok(_) => self.data_end = self.size.min(self.at.saturating_add(BLOCK)),
            Err(error) if !self.keep_damaged => return Err(error),
            Err(_) => return Ok(self.guess_data()),
        }
        Ok(true)
    }

    /// Handles a content that ends before its reported size.
    fn cut_short(&mut self) -> Result<(), FsError> {
        if !self.keep_damaged {
            let message = format!("the content ends at byte {}, expected {}", self.at, self.size);
            return Err(FsError::new(FsErrorKind::Corrupted, message));
        }
        self.damage.push((self.at, self.size));
        self.at = self.size;
        Ok(())
    }

    fn guess_data(&mut self) -> bool {
        self.data_end = self.size.min(self.at.saturating_add(BLOCK - self.at % BLOCK));
        self.careful_until = self.careful_until.max(self.data_end);
        true
    }

    /// Records `at..end` as damaged; returns false if the damaged run is too long.
    fn skip(&mut self, end: u64) -> bool {
        match self.damage.last_mut() {
            Some(last) if last.1 == self.at => last.1 = end,
            _ => self.damage.push((self.at, end)),
        }
        self.at = end;
        let last = self.damage.last_mut().expect("pushed above");
        if (last.1 - last.0) / BLOCK < MAX_BAD_RUN {
            return true;
        }
        last.1 = self.size;
        self.at = self.size;
        false
    }
}
