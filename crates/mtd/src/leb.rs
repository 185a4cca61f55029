//! Logical eraseblocks: what UBIFS stands on.

use crate::device::ReadOutcome;
use crate::error::MtdError;
use eraseblock_base::Geometry;
use eraseblock_base::Leb;
use std::fmt::Debug;

/// A volume of logical eraseblocks (spec: ubifs-runtime 2.1): a UBI volume, a bare `.ubifs` image
/// file, or `/dev/ubiX_Y`.
///
/// Offsets are bytes inside a LEB. Ranges that leave the volume are [`MtdError::Range`].
pub trait LebDevice: Send + Sync + Debug {
    /// Usable bytes in a LEB.
    fn leb_size(&self) -> u32;

    /// Returns the smallest unit that can be written; a power of two.
    fn min_io(&self) -> u32;

    /// Returns the unit in which the device writes best, and the most that a power cut can tear: a
    /// chunk at a multiple of it (Linux: `max_write_size`). A power of two, a multiple of
    /// [`Self::min_io`].
    fn max_write(&self) -> u32;

    /// LEBs in the volume, mapped or not.
    fn leb_count(&self) -> u32;

    /// Returns whether writing is refused.
    fn is_read_only(&self) -> bool;

    /// Reads `buf.len()` bytes; an unmapped LEB reads as 0xFF.
    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError>;

    /// Returns whether the LEB is bound to a physical eraseblock.
    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError>;

    /// Appends `data` to a LEB: `offset` and length are multiples of the minimum I/O unit, and
    /// `[offset, offset + data.len())` is erased.
    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError>;

    /// Replaces the whole LEB by `data` (a multiple of the minimum I/O unit) followed by erased
    /// bytes: after a power cut the LEB holds the old or the new content, never a mixture.
    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError>;

    /// Binds an erased block to an unmapped LEB; afterwards old content cannot come back.
    fn map(&self, leb: Leb) -> Result<(), MtdError>;

    /// Makes the LEB read as 0xFF from now on. After a power cut its old content may come back.
    fn unmap(&self, leb: Leb) -> Result<(), MtdError>;

    /// Makes everything written so far durable.
    fn sync(&self) -> Result<(), MtdError>;
}

/// Returns the [`LebDevice::max_write`] of a device that does not tell: where the minimum I/O unit
/// is that of a NOR, the largest program buffer that is usual.
pub fn usual_max_write(min_io: u32) -> u32 {
    const SMALLEST_PAGE: u32 = 512;
    if min_io < SMALLEST_PAGE { min_io.max(Geometry::NOR_WRITE_BUFFER) } else { min_io }
}
