//! Segment headers and the superblock (spec: readonly-formats A.3, A.4).

use crate::error::LogfsError;
use crate::raw::{RawSegmentHeader, RawSuperblock};
use eraseblock_base::crc::crc32;
use eraseblock_base::raw::Raw;
use eraseblock_base::raw::big_endian::{U32, U64};
use eraseblock_mtd::ReadAt;

/// The magic number, at byte 24.
pub const MAGIC: u64 = 0x7A3A_8E5C_B9D5_BF67;
/// The magic number of the versions before LogFS was part of Linux.
const MAGIC_BEFORE: u64 = 0xB21F_205A_C97E_8168;
/// Binary logarithm of the block size.
const BLOCK_SHIFT: u8 = 12;
/// Segments are of 4 KiB to 16 MiB.
const SEGMENT_SHIFTS: std::ops::RangeInclusive<u8> = 12..=24;
/// The type of a segment with the journal.
const JOURNAL: u8 = 2;

/// A checked superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Superblock {
    /// Bytes of the file system.
    pub size: u64,
    /// Bytes of a segment.
    pub segment_size: u32,
    /// Smallest number of bytes that can be written.
    pub write_size: u32,
    /// Segments that the journal may be in.
    pub journal: Vec<u32>,
}

impl Superblock {
    /// Reads the superblock at `start` of an image.
    ///
    /// # Errors
    ///
    /// Fails if there is none or a field is impossible, and if the image cannot be read.
    pub fn read(image: &dyn ReadAt, start: u64) -> Result<Self, LogfsError> {
        let mut bytes = [0; RawSuperblock::SIZE];
        let read = image.read_exact_at(&mut bytes, start);
        read.map_err(|error| LogfsError::Read { what: "superblock", offset: start, error })?;
        Self::decode(&bytes, start)
    }

    /// Returns whether a segment of the journal is where the superblock at `start` says.
    pub fn has_journal(&self, image: &dyn ReadAt, start: u64) -> bool {
        self.journal.iter().any(|number| {
            let mut header = [0; RawSegmentHeader::SIZE];
            let place = start.saturating_add(self.segment(*number));
            image.read_exact_at(&mut header, place).is_ok() && journal_gec(&header).is_some()
        })
    }

    /// Returns the places that a superblock may be at in an image of `size` bytes.
    pub(crate) fn places(size: u64) -> Vec<u64> {
        let mut places = vec![0];
        places.extend((size & !4095).checked_sub(4096).filter(|place| *place > 0));
        // The image tool puts the second copy into the segment before the last one.
        let before_last = |shift: u8| {
            let segments: u64 = (size >> shift).checked_sub(1)?;
            (segments << shift).checked_sub(4096).filter(|place| *place > 0)
        };
        places.extend(SEGMENT_SHIFTS.filter_map(before_last));
        places
    }

    fn decode(bytes: &[u8; RawSuperblock::SIZE], offset: u64) -> Result<Self, LogfsError> {
        let raw = RawSuperblock::get(bytes);
        let magic = raw.magic.get();
        let field = |field, found, expected: &str| {
            Err(LogfsError::Field { field, offset, found, expected: expected.to_owned() })
        };
        if magic == MAGIC_BEFORE {
            return Err(LogfsError::Unsupported {
                what: "LogFS before Linux 2.6.34, magic",
                found: magic,
            });
        }
        if magic != MAGIC {
            return field("magic number", magic, "8807469955637460839");
        }
        let (stored, computed) = (raw.crc.get(), crc32(&bytes[36..]));
        if stored != computed {
            return Err(LogfsError::Crc { what: "superblock", offset, stored, computed });
        }
        if raw.incompatible.get() != 0 {
            let (what, found) = ("feature set", raw.incompatible.get());
            return Err(LogfsError::Unsupported { what, found });
        }
        if raw.block_shift != BLOCK_SHIFT {
            return field("block shift", raw.block_shift.into(), "12");
        }
        if !SEGMENT_SHIFTS.contains(&raw.segment_shift) {
            return field("segment shift", raw.segment_shift.into(), "12 to 24");
        }
        if raw.write_shift > raw.segment_shift {
            return field("write shift", raw.write_shift.into(), "at most that of segments");
        }
        let journal = raw.journal.chunks_exact(4).map(|bytes| <U32 as Raw>::get(bytes).get());
        Ok(Self {
            size: raw.size.get(),
            segment_size: 1 << raw.segment_shift,
            write_size: 1 << raw.write_shift,
            journal: journal.filter(|segment| *segment != 0).collect(),
        })
    }

    /// Returns where a segment begins.
    pub(crate) fn segment(&self, number: u32) -> u64 {
        u64::from(number) * u64::from(self.segment_size)
    }
}

/// Returns when a journal segment was written, if its header is valid.
pub(crate) fn journal_gec(bytes: &[u8]) -> Option<u64> {
    let (raw, _) = RawSegmentHeader::split(bytes)?;
    let is_valid = raw.crc.get() == crc32(&bytes[4..RawSegmentHeader::SIZE]) && raw.kind == JOURNAL;
    is_valid.then_some(raw.gec.get())
}

/// Returns numbers of 8 bytes, highest byte first.
pub(crate) fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|bytes| <U64 as Raw>::get(bytes).get())
}
