//! The superblock and the positions of everything (spec: block-device 2).

use crate::block::BlockError;
use eraseblock_base::crc::crc32;
use eraseblock_base::{Geometry, MediumKind};

/// Size of a metadata unit.
pub(super) const META: usize = 4096;
/// The first bytes of a disk.
pub(super) const MAGIC: [u8; 8] = *b"EBLKFLSH";
const VERSION: u32 = 1;
/// Maximum number of programming units in an eraseblock: their bits must fit into a metadata unit.
const MAX_UNITS: u32 = 8192;
/// Start of the first checkpoint: after both superblocks.
const CHECKPOINTS: u64 = 2 * META as u64;

/// The layout of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) unit: u32,
    pub(super) peb_size: u32,
    pub(super) peb_count: u32,
    /// Slots for eraseblocks; more than there are eraseblocks.
    pub(super) slot_count: u32,
    pub(super) journal_units: u32,
    pub(super) checkpoint_units: u32,
    pub(super) data_start: u64,
}

impl Layout {
    /// Returns the layout for a new flash on a disk of `size` bytes.
    pub(super) fn for_disk(size: u64, peb_size: u32, unit: u32) -> Result<Self, BlockError> {
        let shape = |found: String, expected| BlockError::Shape { found, expected };
        let fits = unit.is_power_of_two() && peb_size.is_power_of_two();
        if !fits || unit < 512 || unit > peb_size || peb_size / unit > MAX_UNITS {
            let found = format!("eraseblocks of {peb_size} bytes in units of {unit}");
            let expected =
                "powers of two, units of at least 512 bytes, at most 8192 of them in a block";
            return Err(shape(found, expected));
        }
        // The largest number of slots that fits; more slots need more metadata.
        let (mut fit, mut too_many) = (0, (size / u64::from(peb_size)).min(1 << 31) + 1);
        while too_many - fit > 1 {
            let middle = u64::midpoint(fit, too_many);
            let slots = u32::try_from(middle).unwrap_or(u32::MAX >> 1);
            if Self::with_slots(peb_size, unit, slots).end() <= size {
                fit = middle;
            } else {
                too_many = middle;
            }
        }
        let layout = Self::with_slots(peb_size, unit, u32::try_from(fit).unwrap_or(0));
        if layout.peb_count >= 2 {
            return Ok(layout);
        }
        let least = "space for the map and at least six eraseblocks";
        Err(shape(format!("a disk of {size} bytes"), least))
    }

    fn with_slots(peb_size: u32, unit: u32, slot_count: u32) -> Self {
        let spare = (slot_count / 64).max(4);
        let peb_count = slot_count.saturating_sub(spare);
        let mut layout = Self {
            unit,
            peb_size,
            peb_count,
            slot_count,
            journal_units: (peb_count / 4).clamp(16, 256),
            checkpoint_units: 0,
            data_start: 0,
        };
        let per_unit = u32::try_from(layout.entries_per_unit()).unwrap_or(1);
        layout.checkpoint_units = peb_count.div_ceil(per_unit).max(1);
        layout.data_start = layout.metadata_end().next_multiple_of(u64::from(peb_size));
        layout
    }

    /// Returns the number of bytes of an eraseblock's bits.
    pub(super) fn bitmap_len(&self) -> usize {
        (self.peb_size / self.unit).div_ceil(32) as usize * 4
    }

    /// Returns the number of bytes of an entry of the map.
    pub(super) fn entry_len(&self) -> usize {
        12 + self.bitmap_len()
    }

    pub(super) fn entries_per_unit(&self) -> usize {
        super::journal::ROOM / self.entry_len()
    }

    pub(super) fn checkpoint_start(&self, area: u8) -> u64 {
        CHECKPOINTS + u64::from(area) * u64::from(self.checkpoint_units) * META as u64
    }

    /// Returns the position of the journal unit with this number.
    pub(super) fn journal_unit(&self, sequence: u64) -> u64 {
        let place = sequence % u64::from(self.journal_units);
        self.checkpoint_start(2) + place * META as u64
    }

    fn metadata_end(&self) -> u64 {
        self.checkpoint_start(2) + u64::from(self.journal_units) * META as u64
    }

    fn end(&self) -> u64 {
        self.slot_start(self.slot_count)
    }

    /// Returns the start of a slot.
    pub(super) fn slot_start(&self, slot: u32) -> u64 {
        self.data_start + u64::from(slot) * u64::from(self.peb_size)
    }

    /// Returns the geometry of the flash.
    pub(super) fn geometry(&self) -> Result<Geometry, BlockError> {
        let (peb, count, unit) = (self.peb_size, self.peb_count, self.unit);
        Ok(Geometry::new(MediumKind::Nand, peb, count, unit, unit, 0)?)
    }

    /// Returns the bytes of a superblock.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; META];
        bytes[..8].copy_from_slice(&MAGIC);
        let fields = [
            VERSION,
            self.unit,
            self.peb_size,
            self.peb_count,
            self.slot_count,
            self.journal_units,
            self.checkpoint_units,
        ];
        for (place, field) in bytes[8..36].chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes[36..44].copy_from_slice(&self.data_start.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Decodes the layout in a superblock; it must fit a disk of `size` bytes.
    pub(super) fn decode(bytes: &[u8], size: u64) -> Result<Self, BlockError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(BlockError::NoSuperblock);
        }
        let damaged = |what| BlockError::Damaged { what };
        if !is_sealed(bytes) {
            return Err(damaged("the superblock's checksum"));
        }
        let mut fields = bytes[8..36].chunks_exact(4).map(le32);
        let mut next = || fields.next().unwrap_or(0);
        let version = next();
        if version != VERSION {
            let (found, expected) = (format!("version {version}"), "version 1");
            return Err(BlockError::Shape { found, expected });
        }
        let (unit, peb_size, peb_count, slot_count) = (next(), next(), next(), next());
        let valid = unit.is_power_of_two()
            && peb_size.is_power_of_two()
            && unit >= 512
            && unit <= peb_size
            && peb_size / unit <= MAX_UNITS
            && slot_count <= u32::MAX >> 1;
        let layout = Self::with_slots(peb_size, unit.max(1), slot_count);
        let same = valid
            && layout.peb_count == peb_count
            && layout.journal_units == next()
            && layout.checkpoint_units == next()
            && bytes[36..44] == layout.data_start.to_le_bytes();
        if !same {
            return Err(damaged("the layout in the superblock"));
        }
        if layout.end() > size {
            return Err(BlockError::Shape {
                found: format!("a disk of {size} bytes"),
                expected: "the size it was made on",
            });
        }
        Ok(layout)
    }
}

/// Returns a little-endian number from a slice of four bytes.
pub(super) fn le32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// Writes the checksum of a metadata unit to its last four bytes; returns it.
pub(super) fn seal(unit: &mut [u8]) -> u32 {
    let crc = crc32(&unit[..META - 4]);
    unit[META - 4..].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// Returns whether the checksum of a metadata unit is right.
pub(super) fn is_sealed(unit: &[u8]) -> bool {
    unit.len() == META && crc32(&unit[..META - 4]) == le32(&unit[META - 4..])
}
