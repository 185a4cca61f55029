//! The geometry of a flash device.

use crate::addr::Peb;
use core::error::Error;
use core::fmt;

/// The kind of cells, which determines how they can be programmed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum MediumKind {
    /// Pages, out-of-band bytes, bad blocks.
    Nand,
    /// Byte-programmable flash without bad blocks.
    Nor,
}

/// The geometry of a flash device, in bytes unless a name says otherwise.
///
/// Only [`Geometry::new`] creates it, so it is always consistent: sizes are powers of two where the
/// medium requires it, and no product of its fields overflows 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Geometry {
    kind: MediumKind,
    peb_size: u32,
    peb_count: u32,
    min_io: u32,
    subpage: u32,
    oob_size: u32,
    write_buffer: u32,
}

/// A geometry that is impossible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeometryError {
    /// The invalid field.
    pub field: &'static str,
    /// Its value.
    pub found: u64,
    /// The rule it breaks.
    pub expected: &'static str,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, found, expected } = self;
        write!(f, "{field} is {found}, expected {expected}")
    }
}

impl Error for GeometryError {}

impl Geometry {
    /// The program buffer size assumed for a NOR chip that does not state it: the largest of the
    /// usual sizes. Code that handles a torn program of this size handles smaller ones, too.
    pub const NOR_WRITE_BUFFER: u32 = 1024;

    /// Describes a device of `peb_count` eraseblocks of `peb_size` bytes, programmed in units of
    /// `min_io` bytes (the page of a NAND, 1 for NOR), with UBI headers in units of `subpage` bytes
    /// and `oob_size` out-of-band bytes per page.
    ///
    /// # Errors
    ///
    /// Fails if `min_io` or `subpage` is not a power of two, if `subpage` exceeds `min_io`, or if
    /// `peb_size` is not a positive multiple of `min_io` of at most 1 GiB.
    pub fn new(
        kind: MediumKind,
        peb_size: u32,
        peb_count: u32,
        min_io: u32,
        subpage: u32,
        oob_size: u32,
    ) -> Result<Self, GeometryError> {
        let fail = |field, found: u32, expected| {
            Err(GeometryError { field, found: u64::from(found), expected })
        };
        if !min_io.is_power_of_two() {
            return fail("minimum I/O unit", min_io, "a power of two");
        }
        if !subpage.is_power_of_two() || subpage > min_io {
            return fail("sub-page", subpage, "a power of two not above the minimum I/O unit");
        }
        if peb_size < min_io || !peb_size.is_multiple_of(min_io) {
            return fail(
                "eraseblock size",
                peb_size,
                "a positive multiple of the minimum I/O unit",
            );
        }
        if peb_size > 1 << 30 {
            return fail("eraseblock size", peb_size, "at most 1 GiB");
        }
        let write_buffer = match kind {
            MediumKind::Nor if peb_size.is_multiple_of(Self::NOR_WRITE_BUFFER) => {
                min_io.max(Self::NOR_WRITE_BUFFER)
            }
            _ => min_io,
        };
        Ok(Self { kind, peb_size, peb_count, min_io, subpage, oob_size, write_buffer })
    }

    /// Returns the same device with a program buffer of `write_buffer` bytes.
    ///
    /// # Errors
    ///
    /// Fails unless `write_buffer` is a power of two, at least the minimum I/O unit, and divides
    /// the eraseblock size.
    pub fn with_write_buffer(self, write_buffer: u32) -> Result<Self, GeometryError> {
        let is_possible = write_buffer.is_power_of_two()
            && write_buffer >= self.min_io
            && self.peb_size.is_multiple_of(write_buffer);
        if is_possible {
            return Ok(Self { write_buffer, ..self });
        }
        Err(GeometryError {
            field: "write-buffer",
            found: u64::from(write_buffer),
            expected: "a power of two that divides the eraseblock, at least the minimum I/O unit",
        })
    }

    /// Returns the kind of cells.
    pub const fn kind(&self) -> MediumKind {
        self.kind
    }

    /// Returns the size of a physical eraseblock in bytes.
    pub const fn peb_size(&self) -> u32 {
        self.peb_size
    }

    /// Returns the number of physical eraseblocks on the device.
    pub const fn peb_count(&self) -> u32 {
        self.peb_count
    }

    /// Returns the smallest unit that can be programmed: a NAND page, or 1 on NOR.
    pub const fn min_io(&self) -> u32 {
        self.min_io
    }

    /// Returns the unit in which UBI headers are written: the sub-page, or the page if there are
    /// none.
    pub const fn subpage(&self) -> u32 {
        self.subpage
    }

    /// Returns the number of out-of-band bytes per page; 0 if there are none.
    pub const fn oob_size(&self) -> u32 {
        self.oob_size
    }

    /// Returns the largest unit programmed at once, which a power cut therefore tears as a whole:
    /// the page of a NAND, the program buffer of a NOR (spec: mtd-nand 1, `writebufsize`). Units
    /// start at its multiples.
    pub const fn write_buffer(&self) -> u32 {
        self.write_buffer
    }

    /// Returns the number of pages in an eraseblock.
    pub const fn pages_per_peb(&self) -> u32 {
        self.peb_size / self.min_io
    }

    /// Returns the size of the device in bytes, without out-of-band bytes.
    pub const fn size(&self) -> u64 {
        self.peb_size as u64 * self.peb_count as u64
    }

    /// Returns whether blocks of this medium may go bad.
    pub const fn can_have_bad_blocks(&self) -> bool {
        matches!(self.kind, MediumKind::Nand)
    }

    /// Returns the byte address of an eraseblock on the device.
    pub const fn address_of(&self, peb: Peb) -> u64 {
        peb.get() as u64 * self.peb_size as u64
    }

    /// Returns all eraseblocks in ascending order.
    pub fn pebs(&self) -> impl DoubleEndedIterator<Item = Peb> + use<> {
        (0..self.peb_count).map(Peb::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_shapes_are_refused() {
        let nand = |peb, min_io, sub| Geometry::new(MediumKind::Nand, peb, 8, min_io, sub, 64);
        assert!(nand(131_072, 2048, 512).is_ok());
        assert_eq!(nand(131_072, 2000, 500).unwrap_err().field, "minimum I/O unit");
        assert_eq!(nand(131_072, 2048, 4096).unwrap_err().field, "sub-page");
        assert_eq!(nand(3000, 2048, 512).unwrap_err().field, "eraseblock size");
        assert_eq!(nand(0, 2048, 512).unwrap_err().field, "eraseblock size");
    }

    #[test]
    fn write_buffers_are_those_of_the_chip_or_large() {
        let nand = Geometry::new(MediumKind::Nand, 131_072, 8, 2048, 512, 64).unwrap();
        assert_eq!(nand.write_buffer(), 2048);
        let nor = |peb| Geometry::new(MediumKind::Nor, peb, 8, 1, 1, 0).unwrap();
        assert_eq!((nor(65_536).write_buffer(), nor(512).write_buffer()), (1024, 1));
        assert_eq!(nor(65_536).with_write_buffer(64).unwrap().write_buffer(), 64);
        for impossible in [0, 96, 131_072] {
            let error = nor(65_536).with_write_buffer(impossible).unwrap_err();
            assert_eq!(error.field, "write-buffer");
        }
        assert!(nand.with_write_buffer(512).is_err());
    }
}
