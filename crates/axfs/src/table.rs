//! Regions that are read when an image is opened: byte tables and strings (spec: readonly-formats
//! B.3).

use crate::error::AxfsError;
use crate::superblock::{Region, RegionId, Superblock};
use eraseblock_codec::zlib;
use eraseblock_mtd::ReadAt;

/// Bytes of all compressed tables together, after decompression.
const INFLATED_MOST: u64 = 64 << 20;

/// Reads tables within bounds: stored ones are together not longer than the image, and compressed
/// ones not longer than [`INFLATED_MOST`].
pub(crate) struct Loader<'a> {
    image: &'a dyn ReadAt,
    superblock: &'a Superblock,
    stored_left: u64,
    inflated_left: u64,
    size: u64,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(image: &'a dyn ReadAt, superblock: &'a Superblock, size: u64) -> Self {
        Self { image, superblock, stored_left: size, inflated_left: INFLATED_MOST, size }
    }

    /// Reads a region as it is before compression.
    pub(crate) fn bytes(&mut self, id: RegionId) -> Result<(Region, Vec<u8>), AxfsError> {
        let region = self.superblock.region(self.image, id)?;
        let what = id.name();
        let is_stored = region.compressed_size == 0;
        let stored = if is_stored { region.size } else { region.compressed_size };
        let end = region.offset.saturating_add(stored);
        if end > self.size {
            let (size, mmap_size) = (self.size, self.superblock.mmap_size);
            return Err(AxfsError::Missing { what, end, size, mmap_size });
        }
        self.stored_left = take(self.stored_left, stored, what, &region)?;
        let bytes = self.stored(what, region.offset, stored)?;
        if is_stored {
            return Ok((region, bytes));
        }
        self.inflated_left = take(self.inflated_left, region.size, what, &region)?;
        let mut inflated = vec![0; usize::try_from(region.size).unwrap_or(0)];
        let offset = region.offset;
        zlib::decompress_checked(&bytes, &mut inflated)
            .map_err(|error| AxfsError::Table { what, offset, error })
            .and_then(|len| {
                if len == inflated.len() {
                    Ok(())
                } else {
                    let expected = format!("{} bytes after decompression", inflated.len());
                    Err(AxfsError::Field { field: what, offset, found: len as u64, expected })
                }
            })?;
        Ok((region, inflated))
    }

    fn stored(&self, what: &'static str, offset: u64, len: u64) -> Result<Vec<u8>, AxfsError> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let read = self.image.read_exact_at(&mut bytes, offset);
        read.map_err(|error| AxfsError::Read { what, offset, error })?;
        Ok(bytes)
    }

    /// Reads a byte table, which must have `least` entries.
    pub(crate) fn table(&mut self, id: RegionId, least: u64) -> Result<Table, AxfsError> {
        let (region, bytes) = self.bytes(id)?;
        let (field, offset) = (id.name(), region.offset);
        let depth = usize::from(region.depth);
        if bytes.is_empty() && least == 0 {
            return Ok(Table { bytes, depth: 1 });
        }
        if !(1..=8).contains(&depth) {
            let (found, expected) = (region.depth.into(), "entries of 1 to 8 bytes".to_owned());
            return Err(AxfsError::Field { field, offset, found, expected });
        }
        let table = Table { bytes, depth };
        if (table.len() as u64) < least {
            let expected = format!("at least {least} entries");
            return Err(AxfsError::Field { field, offset, found: table.len() as u64, expected });
        }
        Ok(table)
    }
}

/// Takes bytes from what is left.
fn take(left: u64, bytes: u64, what: &'static str, region: &Region) -> Result<u64, AxfsError> {
    left.checked_sub(bytes).ok_or_else(|| AxfsError::Field {
        field: what,
        offset: region.offset,
        found: bytes,
        expected: format!("at most {left} bytes, which the other tables leave"),
    })
}

/// An array of numbers of a fixed width, highest byte first.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    bytes: Vec<u8>,
    depth: usize,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / self.depth
    }

    /// Returns an entry, or `None` after the last one.
    pub(crate) fn get(&self, index: u64) -> Option<u64> {
        let start = usize::try_from(index).ok()?.checked_mul(self.depth)?;
        let entry = self.bytes.get(start..)?.get(..self.depth)?;
        Some(entry.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}
