//! Structures byte for byte (spec: readonly-formats B.2, B.3).

use eraseblock_base::raw;
use eraseblock_base::raw::big_endian::{U32, U64};

raw!(
    /// The superblock up to the version; what follows depends on the alignment of the writer.
    RawSuperblock, 244, {
        /// [`crate::MAGIC`]
        magic @ 0: U32,
        /// `Advanced XIP FS` and a NUL
        signature @ 4: [u8; 16],
        /// Zero in every image seen
        digest @ 20: [u8; 40],
        /// Largest compressed block before compression
        cblock_size @ 60: U32,
        /// Number of inodes
        inodes @ 64: U64,
        /// Bytes of the image, without what pads the file
        image_size @ 72: U64,
        /// Number of pages
        nodes @ 80: U64,
        /// Bytes on the mapped device
        mmap_size @ 88: U64,
        /// Places of the 18 region descriptors
        regions @ 96: [u8; 144],
        /// Major version, minor version, sub-version
        version @ 240: [u8; 3],
        /// 0 = zlib
        compression @ 243: u8,
    }
);

raw!(
    /// The end of a superblock whose 64-bit numbers are aligned to 8 bytes.
    RawTail64, 13, {
        /// Not used
        gap @ 0: U32,
        /// Time of all files in seconds since 1970
        time @ 4: U64,
        /// Binary logarithm of the page size
        page_shift @ 12: u8,
    }
);

raw!(
    /// The end of a superblock whose 64-bit numbers are aligned to 4 bytes.
    RawTail32, 9, {
        /// Time of all files in seconds since 1970
        time @ 0: U64,
        /// Binary logarithm of the page size
        page_shift @ 8: u8,
    }
);

raw!(
    /// Where a region is.
    RawRegion, 34, {
        /// Place in the image
        offset @ 0: U64,
        /// Bytes before compression
        size @ 8: U64,
        /// Bytes of the zlib stream, 0 if it is not compressed
        compressed_size @ 16: U64,
        /// Number of entries
        entries @ 24: U64,
        /// Bytes of an entry
        depth @ 32: u8,
        /// A hint of no consequence
        in_core @ 33: u8,
    }
);
