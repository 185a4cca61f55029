//! Logical eraseblocks, the device interface of UBIFS.

use crate::device::ReadOutcome;
use crate::error::MtdError;
use eraseblock_base::Geometry;
use eraseblock_base::{Leb, Location};
use std::fmt::Debug;

/// A volume of logical eraseblocks (spec: ubifs-runtime 2.1): a UBI volume, a bare `.ubifs` image
/// file, or `/dev/ubiX_Y`.
///
/// Offsets are bytes inside a LEB.
///
/// # Errors
///
/// Every method fails with [`MtdError::Range`] if a range leaves the volume.
pub trait LebDevice: Send + Sync + Debug {
    /// Returns the number of usable bytes in a LEB.
    fn leb_size(&self) -> u32;

    /// Returns the smallest unit that can be written; a power of two.
    fn min_io(&self) -> u32;

    /// Returns the preferred write unit, which is also the most that a power cut can tear: a chunk
    /// at one of its multiples (Linux: `max_write_size`). A power of two and a multiple of
    /// [`Self::min_io`].
    fn max_write(&self) -> u32;

    /// Returns the number of LEBs in the volume, mapped or not.
    fn leb_count(&self) -> u32;

    /// Returns whether writing is refused.
    fn is_read_only(&self) -> bool;

    /// Reads `buf.len()` bytes; an unmapped LEB reads as 0xFF.
    ///
    /// # Errors
    ///
    /// Fails if the transfer fails. Uncorrectable bits are not an error but part of the outcome.
    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError>;

    /// Returns whether the LEB is mapped to a physical eraseblock.
    ///
    /// # Errors
    ///
    /// Fails if the state cannot be read.
    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError>;

    /// Appends `data` to a LEB: `offset` and length are multiples of the minimum I/O unit, and
    /// `[offset, offset + data.len())` is erased.
    ///
    /// # Errors
    ///
    /// Fails if the range is not aligned, if the volume is read-only, or if the device fails.
    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError>;

    /// Replaces the content of the LEB by `data` (a multiple of the minimum I/O unit) followed by
    /// erased bytes. After a power cut the LEB holds the old or the new content, never a mixture.
    ///
    /// # Errors
    ///
    /// Fails if the length is not aligned, if the volume is read-only, or if the device fails.
    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError>;

    /// Maps an unmapped LEB to an erased block; afterwards the old content cannot reappear.
    ///
    /// # Errors
    ///
    /// Fails if the volume is read-only or the device fails.
    fn map(&self, leb: Leb) -> Result<(), MtdError>;

    /// Unmaps the LEB, which then reads as 0xFF. After a power cut its old content may reappear.
    ///
    /// # Errors
    ///
    /// Fails if the volume is read-only or the device fails.
    fn unmap(&self, leb: Leb) -> Result<(), MtdError>;

    /// Makes all completed writes durable.
    ///
    /// # Errors
    ///
    /// Fails if the data cannot be made durable.
    fn sync(&self) -> Result<(), MtdError>;
}

/// Refuses an operation on a LEB of a device that cannot be written to.
///
/// # Errors
///
/// Always fails.
pub fn read_only_leb<T>(leb: Leb, operation: &'static str) -> Result<T, MtdError> {
    Err(MtdError::ReadOnly { at: Location::leb(leb), operation })
}

/// Returns the [`LebDevice::max_write`] of a device that does not state it: for the minimum I/O
/// unit of a NOR, the largest usual program buffer.
pub fn usual_max_write(min_io: u32) -> u32 {
    const SMALLEST_PAGE: u32 = 512;
    if min_io < SMALLEST_PAGE { min_io.max(Geometry::NOR_WRITE_BUFFER) } else { min_io }
}
