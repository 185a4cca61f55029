//! The positions of headers and data inside an eraseblock (spec: ubi 2).
//!
//! # Invariants
//! 1. `64 <= vid_hdr_offset`, `vid_hdr_offset + 64 <= data_offset <= peb_size - 64`.
//! 2. `min_io` and `header_unit` are powers of two, `header_unit <= min_io <= peb_size`.

use crate::constants::{HEADER_SIZE, MAX_VOLUMES, RECORD_SIZE};
use core::error::Error;
use core::fmt;

/// The offsets inside an eraseblock, the same in all blocks of a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HeaderLayout {
    peb_size: u32,
    min_io: u32,
    header_unit: u32,
    vid_hdr_offset: u32,
    data_offset: u32,
}

/// A layout that is impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayoutError {
    /// The invalid parameter.
    pub field: &'static str,
    /// Its value.
    pub found: u64,
    /// The rule it breaks.
    pub expected: &'static str,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, found, expected } = self;
        write!(f, "{field} is {found}, expected {expected}")
    }
}

impl Error for LayoutError {}

const MAX_PEB_SIZE: u32 = 1 << 30;

impl HeaderLayout {
    /// Returns the layout Linux computes for a device of eraseblocks of `peb_size` bytes,
    /// programmed in units of `min_io`, headers in units of `header_unit` (the sub-page), with the
    /// volume identifier header at `vid_hdr_offset` (default: the first header unit after the
    /// erase-counter header).
    ///
    /// # Errors
    ///
    /// Fails if a parameter is out of range or the headers do not fit.
    pub fn new(
        peb_size: u32,
        min_io: u32,
        header_unit: u32,
        vid_hdr_offset: Option<u32>,
    ) -> Result<Self, LayoutError> {
        check_units(peb_size, min_io, header_unit)?;
        let aligned_header = HEADER_SIZE.next_multiple_of(header_unit);
        let offset = vid_hdr_offset.unwrap_or(aligned_header);
        if offset < HEADER_SIZE || offset >= peb_size {
            return fail("VID header offset", offset, "at least 64 and inside the eraseblock");
        }
        let shift = offset % header_unit;
        if shift + HEADER_SIZE > aligned_header || !shift.is_multiple_of(4) {
            return fail("VID header offset", offset, "a header inside one header unit");
        }
        let data_offset = (offset + HEADER_SIZE).next_multiple_of(min_io);
        Self::from_offsets(peb_size, min_io, header_unit, offset, data_offset)
    }

    /// Returns the layout with both offsets as stated by an image.
    ///
    /// # Errors
    ///
    /// Fails if a parameter is out of range.
    pub fn from_offsets(
        peb_size: u32,
        min_io: u32,
        header_unit: u32,
        vid_hdr_offset: u32,
        data_offset: u32,
    ) -> Result<Self, LayoutError> {
        check_units(peb_size, min_io, header_unit)?;
        if vid_hdr_offset < HEADER_SIZE || vid_hdr_offset >= peb_size {
            return fail("VID header offset", vid_hdr_offset, "at least 64, inside the eraseblock");
        }
        if data_offset < vid_hdr_offset + HEADER_SIZE {
            return fail("data offset", data_offset, "after the VID header");
        }
        if data_offset > peb_size - HEADER_SIZE {
            return fail("data offset", data_offset, "space for 64 bytes of data after it");
        }
        Ok(Self { peb_size, min_io, header_unit, vid_hdr_offset, data_offset })
    }

    /// Returns the size of a physical eraseblock in bytes.
    pub const fn peb_size(&self) -> u32 {
        self.peb_size
    }

    /// Returns the smallest unit that can be programmed, in bytes.
    pub const fn min_io(&self) -> u32 {
        self.min_io
    }

    /// Returns the unit in which headers are written, in bytes.
    pub const fn header_unit(&self) -> u32 {
        self.header_unit
    }

    /// Returns the offset of the volume identifier header.
    pub const fn vid_hdr_offset(&self) -> u32 {
        self.vid_hdr_offset
    }

    /// Returns the offset of the data area.
    pub const fn data_offset(&self) -> u32 {
        self.data_offset
    }

    /// Returns the size of a logical eraseblock in bytes.
    pub const fn leb_size(&self) -> u32 {
        self.peb_size - self.data_offset
    }

    /// Returns whether both headers share one header unit: such a device is read-only (spec: ubi
    /// 2).
    pub const fn headers_share_a_unit(&self) -> bool {
        self.vid_hdr_offset + HEADER_SIZE <= self.header_unit
    }

    /// Returns the number of records in the volume table, or 0 if not even one fits (spec: ubi
    /// 6.3).
    pub fn volume_slots(&self) -> u32 {
        MAX_VOLUMES.min(self.leb_size() / RECORD_SIZE)
    }

    /// Returns the size of a copy of the volume table in bytes, aligned to the minimum I/O unit
    /// (spec: ubi 6.3) but never larger than the LEB.
    pub fn table_size(&self) -> u32 {
        (self.volume_slots() * RECORD_SIZE).next_multiple_of(self.min_io).min(self.leb_size())
    }
}

fn check_units(peb_size: u32, min_io: u32, header_unit: u32) -> Result<(), LayoutError> {
    if !min_io.is_power_of_two() {
        return fail("minimum I/O unit", min_io, "a power of two");
    }
    if !header_unit.is_power_of_two() || header_unit > min_io {
        return fail("sub-page", header_unit, "a power of two not above the minimum I/O unit");
    }
    if peb_size < min_io || !(HEADER_SIZE * 3..=MAX_PEB_SIZE).contains(&peb_size) {
        return fail("eraseblock size", peb_size, "192 bytes to 1 GiB, a minimum I/O unit or more");
    }
    Ok(())
}

fn fail<T>(field: &'static str, found: u32, expected: &'static str) -> Result<T, LayoutError> {
    Err(LayoutError { field, found: u64::from(found), expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_specification() {
        let k = 1024;
        for (peb, min_io, unit, vid, expected) in [
            (16 * k, 512, 256, None, (256, 512)),
            (16 * k, 512, 512, None, (512, 1024)),
            (128 * k, 2048, 512, None, (512, 2048)),
            (128 * k, 2048, 2048, None, (2048, 4096)),
            (128 * k, 2048, 512, Some(1984), (1984, 2048)),
            (256 * k, 4096, 1024, None, (1024, 4096)),
            (64 * k, 1, 1, None, (64, 128)),
        ] {
            let layout = HeaderLayout::new(peb, min_io, unit, vid).unwrap();
            assert_eq!((layout.vid_hdr_offset(), layout.data_offset()), expected);
        }
    }

    #[test]
    fn table_sizes_of_the_specification() {
        let layout = HeaderLayout::new(131_072, 2048, 512, None).unwrap();
        assert_eq!((layout.leb_size(), layout.volume_slots()), (129_024, 128));
        assert_eq!(layout.table_size(), 22_528);
        let layout = HeaderLayout::new(16_384, 512, 256, None).unwrap();
        assert_eq!((layout.volume_slots(), layout.table_size()), (92, 15_872));
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let field = |result: Result<HeaderLayout, LayoutError>| result.unwrap_err().field;
        assert_eq!(field(HeaderLayout::new(131_072, 2000, 500, None)), "minimum I/O unit");
        assert_eq!(field(HeaderLayout::new(131_072, 2048, 4096, None)), "sub-page");
        assert_eq!(field(HeaderLayout::new(64, 1, 1, None)), "eraseblock size");
        assert_eq!(field(HeaderLayout::new(131_072, 2048, 512, Some(32))), "VID header offset");
        assert_eq!(field(HeaderLayout::new(131_072, 2048, 512, Some(514))), "VID header offset");
        assert_eq!(field(HeaderLayout::new(131_072, 2048, 512, Some(1000))), "VID header offset");
        assert_eq!(
            field(HeaderLayout::new(131_072, 2048, 512, Some(131_072))),
            "VID header offset"
        );
        assert_eq!(field(HeaderLayout::new(131_072, 2048, 512, Some(130_560))), "data offset");
        assert_eq!(field(HeaderLayout::from_offsets(4096, 1, 1, 64, 100)), "data offset");
        assert_eq!(
            field(HeaderLayout::from_offsets(4096, 1, 1, u32::MAX, 100)),
            "VID header offset"
        );
    }
}
