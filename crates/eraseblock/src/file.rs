//! Files of an image as streams.

use crate::error::Result;
use crate::fs::FileSystem;
use eraseblock_mtd::ReadAt;
use eraseblock_vfs::Ino;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// An open regular file of an image.
#[derive(Clone, Debug)]
pub struct File {
    fs: FileSystem,
    ino: Ino,
    size: u64,
    position: u64,
}

impl File {
    pub(crate) fn new(fs: FileSystem, ino: Ino, size: u64) -> Self {
        Self { fs, ino, size, position: 0 }
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.size {
            return Ok(0);
        }
        let read = self.fs.inner().read(self.ino, self.position, buf);
        let len = read.map_err(crate::Error::from)?;
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = target(to, self.position, self.size)?;
        Ok(self.position)
    }
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let read = self.fs.inner().read(self.ino, offset + done as u64, &mut buf[done..]);
            match read.map_err(crate::Error::from)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => done += len,
            }
        }
        Ok(())
    }
}

/// The raw content of a volume.
#[derive(Clone, Debug)]
pub struct VolumeContent {
    bytes: Arc<dyn ReadAt>,
    size: u64,
    position: u64,
}

impl VolumeContent {
    pub(crate) fn new(bytes: Arc<dyn ReadAt>) -> Result<Self> {
        let size = bytes.size()?;
        Ok(Self { bytes, size, position: 0 })
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }
}

impl Read for VolumeContent {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.size.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let len = rest.min(buf.len());
        if len == 0 {
            return Ok(0);
        }
        self.bytes.read_exact_at(&mut buf[..len], self.position)?;
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for VolumeContent {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = target(to, self.position, self.size)?;
        Ok(self.position)
    }
}

/// Where a seek goes.
fn target(to: SeekFrom, position: u64, size: u64) -> io::Result<u64> {
    let place = match to {
        SeekFrom::Start(place) => Some(place),
        SeekFrom::Current(by) => position.checked_add_signed(by),
        SeekFrom::End(by) => size.checked_add_signed(by),
    };
    place.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a seek to before the start"))
}
