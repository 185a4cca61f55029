//! Image files with holes.

use eraseblock_mtd::ReadAt;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;

/// A file or block device as bytes, which knows its holes.
#[derive(Debug)]
pub struct SparseFile(File);

impl SparseFile {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// Fails with the error of the host.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }
}

impl ReadAt for SparseFile {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        ReadAt::read_exact_at(&self.0, buf, offset)
    }

    /// Moves the position of the file, which nothing here uses.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        match rustix::fs::seek(&self.0, SeekFrom::Data(offset)) {
            Ok(found) => Ok(found),
            // No data is left.
            Err(Errno::NXIO) => Ok(self.size()?.max(offset)),
            // A device, or a file system that knows no holes.
            Err(_) => Ok(offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_mtd::Slice;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    const HOLE: u64 = 1 << 30;

    #[test]
    fn holes_are_skipped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all_at(b"begin", 0).unwrap();
        file.as_file().write_all_at(b"end", HOLE).unwrap();
        file.as_file().set_len(2 * HOLE).unwrap();
        let sparse = Arc::new(SparseFile::open(file.path()).unwrap());
        assert_eq!(sparse.next_data(3).unwrap(), 3);
        let found = sparse.next_data(HOLE / 2).unwrap();
        assert!(found > HOLE / 2 && found <= HOLE, "{found}");
        assert_eq!(sparse.next_data(HOLE + HOLE / 2).unwrap(), 2 * HOLE);
        // Where a part ends, nothing follows.
        let part = Slice::new(Arc::clone(&sparse) as _, HOLE / 2, HOLE / 4).unwrap();
        assert_eq!(part.next_data(5).unwrap(), HOLE / 4);
        let part = Slice::new(sparse as _, HOLE / 2, HOLE).unwrap();
        assert_eq!(part.next_data(5).unwrap(), found - HOLE / 2);
    }
}
