//! Images on two devices (spec: readonly-formats B.7).

use eraseblock_mtd::ReadAt;
use std::io;
use std::sync::Arc;

/// The two parts of an image as one: the first `mmap_size` bytes are on a device that the processor
/// addresses directly, the other ones at the start of a second device.
#[derive(Clone, Debug)]
pub struct Split {
    first: Arc<dyn ReadAt>,
    second: Arc<dyn ReadAt>,
    mmap_size: u64,
}

impl Split {
    /// Joins two parts. `mmap_size` is that of the superblock, which is in the first part.
    pub fn new(first: Arc<dyn ReadAt>, second: Arc<dyn ReadAt>, mmap_size: u64) -> Self {
        Self { first, second, mmap_size }
    }
}

impl ReadAt for Split {
    fn size(&self) -> io::Result<u64> {
        Ok(self.mmap_size.saturating_add(self.second.size()?))
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let before = self.mmap_size.saturating_sub(offset).min(buf.len() as u64);
        let (first, second) = buf.split_at_mut(usize::try_from(before).unwrap_or(buf.len()));
        if !first.is_empty() {
            self.first.read_exact_at(first, offset)?;
        }
        if !second.is_empty() {
            self.second.read_exact_at(second, offset.saturating_sub(self.mmap_size))?;
        }
        Ok(())
    }
}
