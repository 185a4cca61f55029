//! The superblock (spec: readonly-formats C.1).

use crate::error::SquashfsError;
use crate::limits;
use crate::unpack::Compressor;
use eraseblock_base::ByteOrder;
use eraseblock_mtd::ReadAt;

/// What an image begins with.
pub const MAGIC_LITTLE: [u8; 4] = *b"hsqs";
/// What a big-endian image begins with.
pub const MAGIC_BIG: [u8; 4] = *b"sqsh";
/// What images of vendors begin with, in either byte order.
pub const MAGICS_OF_VENDORS: [[u8; 4]; 5] = [*b"shsq", *b"qshs", *b"tqsh", *b"hsqt", *b"sqlz"];

/// Bytes in the superblock.
pub(crate) const LEN: usize = 96;
/// The place of a table that is not there.
pub(crate) const NONE: u64 = u64::MAX;

/// Bits of the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(u16);

impl Flags {
    const NAMES: [(u16, &'static str); 10] = [
        (0x001, "inodes-uncompressed"),
        (0x002, "data-uncompressed"),
        (0x008, "fragments-uncompressed"),
        (0x010, "no-fragments"),
        (0x020, "always-fragments"),
        (0x040, "duplicates-removed"),
        (0x080, "exportable"),
        (0x100, "xattrs-uncompressed"),
        (0x200, "no-xattrs"),
        (0x800, "ids-uncompressed"),
    ];

    /// Returns the names of those that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |row| self.0 & row.0 != 0).map(|row| row.1)
    }
}

/// A valid superblock. Places are bytes from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Superblock {
    /// Byte order of everything but the headers of metadata blocks.
    pub order: ByteOrder,
    /// Number of inodes.
    pub inodes: u32,
    /// When the image was made, in seconds since 1970.
    pub made: u32,
    /// Bytes in a data block; a power of two of 4 KiB to 1 MiB.
    pub block_size: u32,
    /// Number of fragment blocks.
    pub fragments: u32,
    /// How blocks are compressed, as it says; those of vendors may be LZMA nevertheless.
    pub compressor: Compressor,
    /// Bits.
    pub flags: Flags,
    /// Number of owners and groups.
    pub ids: u16,
    /// Where the root inode is.
    pub(crate) root: u64,
    /// Bytes in the file system.
    pub bytes_used: u64,
    pub(crate) id_table: u64,
    pub(crate) xattr_table: u64,
    pub(crate) inode_table: u64,
    pub(crate) directory_table: u64,
    pub(crate) fragment_table: u64,
}

impl Superblock {
    /// Reads the superblock at `offset`.
    ///
    /// # Errors
    ///
    /// Fails if there is none, if it is impossible, or if the image ends before the file system.
    pub fn read(image: &dyn ReadAt, offset: u64) -> Result<Self, SquashfsError> {
        let size = image.size().map_err(SquashfsError::Read)?.saturating_sub(offset);
        if size < LEN as u64 {
            return Err(SquashfsError::NotSquashfs);
        }
        let mut bytes = [0; LEN];
        image.read_exact_at(&mut bytes, offset).map_err(SquashfsError::Read)?;
        let this = Self::decode(&bytes)?;
        if this.bytes_used > size {
            return Err(SquashfsError::CutShort { found: size, expected: this.bytes_used });
        }
        Ok(this)
    }

    fn decode(bytes: &[u8; LEN]) -> Result<Self, SquashfsError> {
        let order = match bytes.first_chunk() {
            Some(&MAGIC_LITTLE) => ByteOrder::Little,
            Some(&MAGIC_BIG) => ByteOrder::Big,
            // The version shows it.
            Some(other) if MAGICS_OF_VENDORS.contains(other) && bytes[28] == 0 => ByteOrder::Big,
            Some(other) if MAGICS_OF_VENDORS.contains(other) => ByteOrder::Little,
            _ => return Err(SquashfsError::NotSquashfs),
        };
        let u16 = |at| order.u16_at(bytes, at);
        let u32 = |at| order.u32_at(bytes, at);
        let u64 = |at| order.u64_at(bytes, at);
        let found = (u16(28), u16(30));
        if found != (4, 0) {
            return Err(SquashfsError::Version { found });
        }
        let wrong = |field, found, expected| SquashfsError::Field { field, found, expected };
        let compressor = Compressor::from_number(u16(20))
            .ok_or_else(|| wrong("compressor", u16(20).into(), "1 to 6"))?;
        let block_size = u32(12);
        let is_usual = block_size.is_power_of_two() && (4096..=limits::BLOCK).contains(&block_size);
        if !is_usual || u32::from(u16(22)) != block_size.trailing_zeros() {
            let expected = "a power of two of 4 KiB to 1 MiB, as its logarithm says";
            return Err(wrong("block size", block_size.into(), expected));
        }
        let this = Self {
            order,
            inodes: u32(4),
            made: u32(8),
            block_size,
            fragments: u32(16),
            compressor,
            flags: Flags(u16(24)),
            ids: u16(26),
            root: u64(32),
            bytes_used: u64(40),
            id_table: u64(48),
            xattr_table: u64(56),
            inode_table: u64(64),
            directory_table: u64(72),
            fragment_table: u64(80),
        };
        this.check_places()?;
        Ok(this)
    }

    /// Every table that must be there lies in the file system, in the order in which they are written.
    fn check_places(&self) -> Result<(), SquashfsError> {
        let wrong = |field, found, expected| SquashfsError::Field { field, found, expected };
        let places = [
            ("inode table", self.inode_table, LEN as u64),
            ("directory table", self.directory_table, self.inode_table),
            ("id table", self.id_table, self.directory_table),
        ];
        for (field, found, from) in places {
            if found < from || found >= self.bytes_used {
                return Err(wrong(field, found, "a place inside, after the table before it"));
            }
        }
        if self.ids == 0 || self.inodes == 0 {
            return Err(wrong("the number of ids or inodes", 0, "at least 1"));
        }
        if self.root >> 16 >= self.directory_table - self.inode_table {
            return Err(wrong("root inode", self.root >> 16, "a place in the inode table"));
        }
        Ok(())
    }
}
