//! Bytes that can be read at any offset: files, block devices and memory.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A fixed-size sequence of bytes that supports concurrent reads.
pub trait ReadAt: Send + Sync + Debug {
    /// Returns the size in bytes.
    ///
    /// # Errors
    ///
    /// Fails if the host cannot determine it.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buf` with the bytes at `offset`.
    ///
    /// # Errors
    ///
    /// Fails with [`io::ErrorKind::UnexpectedEof`] if the range ends after the last byte, or with
    /// the error of the host.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Returns the first offset from `offset` on at which there may be something else than zeros; the
    /// size, if there is none. Searches skip the holes of a sparse file with it. What does not know about
    /// holes returns `offset`.
    ///
    /// # Errors
    ///
    /// Fails with the error of the host.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }
}

impl ReadAt for File {
    /// Returns the length of the file, or the size of the block device.
    fn size(&self) -> io::Result<u64> {
        let metadata = self.metadata()?;
        if metadata.is_file() {
            return Ok(metadata.len());
        }
        let mut file = self;
        file.seek(SeekFrom::End(0))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buf, offset)
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let part = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..)?.get(..buf.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(part);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> io::Result<u64> {
        self.as_slice().size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_slice().read_exact_at(buf, offset)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Arc<T> {
    fn size(&self) -> io::Result<u64> {
        self.as_ref().size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_ref().read_exact_at(buf, offset)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        self.as_ref().next_data(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_within_its_bounds() {
        let bytes = vec![1_u8, 2, 3, 4];
        let mut buf = [0; 2];
        bytes.read_exact_at(&mut buf, 2).unwrap();
        assert_eq!(buf, [3, 4]);
        for offset in [3, 5, u64::MAX] {
            let error = bytes.read_exact_at(&mut buf, offset).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
