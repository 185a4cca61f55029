//! The superblock and the descriptors of regions (spec: readonly-formats B.2, B.3).

use crate::error::AxfsError;
use crate::raw::{RawRegion, RawSuperblock, RawTail32, RawTail64};
use eraseblock_base::raw::Raw;
use eraseblock_base::raw::big_endian::U64;
use eraseblock_mtd::ReadAt;

/// The magic number at the start and at the end of an image.
pub const MAGIC: u32 = 0x48A0_E4CD;

/// What follows the magic number.
pub(crate) const SIGNATURE: [u8; 16] = *b"Advanced XIP FS\0";

/// Number of regions.
pub(crate) const REGIONS: usize = 18;

/// Bytes of a superblock, in the longer form.
pub(crate) const SUPERBLOCK_LEN: usize = RawSuperblock::SIZE + RawTail64::SIZE;

/// Page sizes are from 4 KiB to 64 KiB.
const PAGE_SHIFTS: std::ops::RangeInclusive<u8> = 12..=16;

/// Largest compressed block that is accepted, before compression.
const MAX_CBLOCK: u32 = 4 << 20;

/// The regions, in the order of their descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegionId {
    Strings,
    Xip,
    ByteAligned,
    Compressed,
    NodeType,
    NodeIndex,
    CnodeOffset,
    CnodeIndex,
    BanodeOffset,
    CblockOffset,
    FileSize,
    NameOffset,
    NumEntries,
    ModeIndex,
    ArrayIndex,
    Modes,
    Uids,
    Gids,
}

impl RegionId {
    pub(crate) const NAMES: [&'static str; REGIONS] = [
        "strings",
        "xip region",
        "byte-aligned region",
        "compressed region",
        "node_type table",
        "node_index table",
        "cnode_offset table",
        "cnode_index table",
        "banode_offset table",
        "cblock_offset table",
        "inode_file_size table",
        "inode_name_offset table",
        "inode_num_entries table",
        "inode_mode_index table",
        "inode_array_index table",
        "modes table",
        "uids table",
        "gids table",
    ];

    /// Returns what people call it.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Where a region is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    /// Place in the image.
    pub(crate) offset: u64,
    /// Bytes before compression.
    pub(crate) size: u64,
    /// Bytes of the zlib stream, 0 if it is not compressed.
    pub(crate) compressed_size: u64,
    /// Number of entries.
    pub(crate) entries: u64,
    /// Bytes of an entry.
    pub(crate) depth: u8,
}

/// A checked superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Superblock {
    /// Largest compressed block before compression, in bytes.
    pub cblock_size: u32,
    /// Number of inodes; each name has its own.
    pub inodes: u32,
    /// Bytes of the image; the file may be longer.
    pub image_size: u64,
    /// Number of pages that files have.
    pub nodes: u64,
    /// Bytes on the mapped device. The other ones may be on a second device.
    pub mmap_size: u64,
    /// Major version, minor version, sub-version.
    pub version: [u8; 3],
    /// Time of all files, in seconds since 1970.
    pub time: u64,
    /// Bytes of a page.
    pub page_size: u32,
    pub(crate) page_shift: u8,
    region_offsets: [u64; REGIONS],
}

impl Superblock {
    /// Reads the superblock at `start` of an image, and returns it if it is valid. Places in it count
    /// from `start`.
    ///
    /// # Errors
    ///
    /// Fails if there is none or a field is impossible, and if the image cannot be read.
    pub fn read(image: &dyn ReadAt, start: u64) -> Result<Self, AxfsError> {
        let failed = |error| AxfsError::Read { what: "superblock", offset: start, error };
        let mut bytes = [0; SUPERBLOCK_LEN];
        image.read_exact_at(&mut bytes, start).map_err(failed)?;
        Self::decode(&bytes)
    }

    pub(crate) fn decode(bytes: &[u8; SUPERBLOCK_LEN]) -> Result<Self, AxfsError> {
        let raw = RawSuperblock::get(bytes);
        if raw.magic.get() != MAGIC || raw.signature != SIGNATURE {
            return Err(AxfsError::NotAxfs { found: raw.magic.get() });
        }
        let field = |field, offset, found, expected: &str| AxfsError::Field {
            field,
            offset,
            found,
            expected: expected.to_owned(),
        };
        let (time, page_shift) = tail(&bytes[RawSuperblock::SIZE..])
            .ok_or_else(|| field("page shift", 256, bytes[256].into(), "12 to 16"))?;
        if raw.compression != 0 {
            return Err(field("compression type", 243, raw.compression.into(), "0 (zlib)"));
        }
        let cblock_size = raw.cblock_size.get();
        if cblock_size > MAX_CBLOCK {
            return Err(field("cblock size", 60, cblock_size.into(), "at most 4 MiB"));
        }
        let inodes = raw.inodes.get();
        let inodes = u32::try_from(inodes).ok().filter(|count| (1..u32::MAX).contains(count));
        let inodes = inodes
            .ok_or_else(|| field("number of inodes", 64, raw.inodes.get(), "1 to 4294967294"))?;
        let mut region_offsets = [0; REGIONS];
        for (offset, bytes) in region_offsets.iter_mut().zip(raw.regions.chunks_exact(8)) {
            *offset = <U64 as Raw>::get(bytes).get();
        }
        Ok(Self {
            cblock_size,
            inodes,
            image_size: raw.image_size.get(),
            nodes: raw.nodes.get(),
            mmap_size: raw.mmap_size.get(),
            version: raw.version,
            time,
            page_size: 1 << page_shift,
            page_shift,
            region_offsets,
        })
    }

    /// Reads the descriptor of a region.
    pub(crate) fn region(&self, image: &dyn ReadAt, id: RegionId) -> Result<Region, AxfsError> {
        let (what, offset) = (id.name(), self.region_offsets[id as usize]);
        let mut bytes = [0; RawRegion::SIZE];
        let read = image.read_exact_at(&mut bytes, offset);
        read.map_err(|error| AxfsError::Read { what, offset, error })?;
        let raw = RawRegion::get(&bytes);
        let region = Region {
            offset: raw.offset.get(),
            size: raw.size.get(),
            compressed_size: raw.compressed_size.get(),
            entries: raw.entries.get(),
            depth: raw.depth,
        };
        let stored = if region.compressed_size == 0 { region.size } else { region.compressed_size };
        if region.offset.checked_add(stored).is_none() {
            let expected = "a size below 2^64 after the offset".to_owned();
            return Err(AxfsError::Field { field: what, offset, found: stored, expected });
        }
        Ok(region)
    }
}

/// Returns time and page shift: in the place of a writer with 8-byte alignment, or else in that of
/// one with 4-byte alignment.
fn tail(bytes: &[u8]) -> Option<(u64, u8)> {
    let (wide, narrow) = (RawTail64::get(bytes), RawTail32::get(bytes));
    let both = [(wide.time, wide.page_shift), (narrow.time, narrow.page_shift)];
    let fits = both.into_iter().find(|(_, shift)| PAGE_SHIFTS.contains(shift));
    fits.map(|(time, shift)| (time.get(), shift))
}
