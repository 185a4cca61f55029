//! Structures byte for byte (spec: readonly-formats A.3 to A.9).

use eraseblock_base::raw;
use eraseblock_base::raw::big_endian::{U16, U32, U64};

raw!(
    /// The start of every segment.
    RawSegmentHeader, 24, {
        /// CRC of the other bytes
        crc @ 0: U32,
        /// Zero
        pad @ 4: U16,
        /// 1 superblock, 2 journal, 3 object store
        kind @ 6: u8,
        /// Level of the objects
        level @ 7: u8,
        /// Number of the segment
        segment @ 8: U32,
        /// Erasures of the segment
        erase_count @ 12: U32,
        /// Erasures of all segments when it was written
        gec @ 16: U64,
    }
);

raw!(
    /// The superblock.
    RawSuperblock, 256, {
        /// Header of the segment
        header @ 0: [u8; 24],
        /// [`crate::MAGIC`]
        magic @ 24: U64,
        /// CRC of the following bytes
        crc @ 32: U32,
        /// Levels of the inode file, of files, of data
        levels @ 36: [u8; 3],
        /// Binary logarithm of the segment size
        segment_shift @ 39: u8,
        /// Binary logarithm of the block size
        block_shift @ 40: u8,
        /// Binary logarithm of the smallest write
        write_shift @ 41: u8,
        /// Not used
        pad @ 42: [u8; 6],
        /// Bytes of the file system
        size @ 48: U64,
        /// Bytes of a segment; 0 = as the shift says
        segment_size @ 56: U32,
        /// Segments kept for bad ones
        bad_reserve @ 60: U32,
        /// Features a reader must know
        incompatible @ 64: U64,
        /// Features a writer must know
        read_only @ 72: U64,
        /// Other features
        compatible @ 80: U64,
        /// Flags
        flags @ 88: U64,
        /// Bytes kept for root and for speed
        reserves @ 96: [u8; 16],
        /// Numbers of the journal segments; 0 = none
        journal @ 112: [u8; 64],
        /// Places of the superblocks
        superblocks @ 176: [u8; 16],
        /// Zero
        rest @ 192: [u8; 64],
    }
);

raw!(
    /// The start of an entry of the journal.
    RawEntryHeader, 16, {
        /// CRC of the following bytes, payload included
        crc @ 0: U32,
        /// Stored bytes of the payload
        len @ 4: U16,
        /// Bytes of the payload after decompression
        data_len @ 6: U16,
        /// What it is
        kind @ 8: U16,
        /// 0 none, 1 zlib
        compression @ 10: u8,
        /// A text of no consequence
        pad @ 11: [u8; 5],
    }
);

raw!(
    /// What changes about the superblock.
    RawDynamic, 64, {
        /// Erasures of all segments
        gec @ 0: U64,
        /// State of the garbage collector
        sweeper @ 8: U64,
        /// Directory of an interrupted renaming, 0 if there is none
        rename_dir @ 16: U64,
        /// Position of the old entry in it
        rename_position @ 24: U64,
        /// Inode that was about to be removed or created, 0 if there is none
        victim @ 32: U64,
        /// Its directory
        victim_parent @ 40: U64,
        /// Bytes in use
        used_bytes @ 48: U64,
        /// Generation
        generation @ 56: U32,
        /// Zero
        pad @ 60: [u8; 4],
    }
);

raw!(
    /// The inode of the inode file.
    RawAnchor, 168, {
        /// Bytes of the inode file
        size @ 0: U64,
        /// Highest inode number
        last_ino @ 8: U64,
        /// Bytes in use
        used_bytes @ 16: U64,
        /// Height of its tree
        height @ 24: u8,
        /// Zero
        pad @ 25: [u8; 7],
        /// Its pointers
        pointers @ 32: [u8; 136],
    }
);

raw!(
    /// A pointer that is newer than the block it is in.
    RawAlias, 32, {
        /// Inode
        ino @ 0: U64,
        /// Position of the block
        bix @ 8: U64,
        /// The value
        value @ 16: U64,
        /// Level of the block
        level @ 24: u8,
        /// Zero
        pad @ 25: [u8; 5],
        /// Which pointer
        child @ 30: U16,
    }
);

raw!(
    /// What a partly written segment ends with.
    RawArea, 10, {
        /// Number of the segment
        segment @ 0: U32,
        /// Bytes in use
        used_bytes @ 4: U32,
        /// Level of its objects
        level @ 8: u8,
        /// Zero
        vim @ 9: u8,
    }
);

raw!(
    /// The start of an object.
    RawObjectHeader, 28, {
        /// CRC of the next 20 bytes
        crc @ 0: U32,
        /// Stored bytes of the payload
        len @ 4: U16,
        /// 4 block, 5 inode, 6 directory entry
        kind @ 6: u8,
        /// 0 none, 1 zlib
        compression @ 7: u8,
        /// Inode that owns the block
        ino @ 8: U64,
        /// Position
        bix @ 16: U64,
        /// CRC of the stored payload
        data_crc @ 24: U32,
    }
);

raw!(
    /// An inode.
    RawInode, 200, {
        /// Type and permissions
        mode @ 0: U16,
        /// Height of the tree
        height @ 2: u8,
        /// Zero
        pad @ 3: u8,
        /// Flags
        flags @ 4: U32,
        /// Owner
        uid @ 8: U32,
        /// Group
        gid @ 12: U32,
        /// Change of the inode, in nanoseconds since 1970
        ctime @ 16: U64,
        /// Change of the content
        mtime @ 24: U64,
        /// Access
        atime @ 32: U64,
        /// Number of names
        nlink @ 40: U32,
        /// Generation
        generation @ 44: U32,
        /// Bytes in use
        used_bytes @ 48: U64,
        /// Bytes of the content
        size @ 56: U64,
        /// Pointers; of a device, its number
        pointers @ 64: [u8; 136],
    }
);

raw!(
    /// An entry of a directory.
    RawDentry, 266, {
        /// The inode it names
        ino @ 0: U64,
        /// Bytes of the name
        name_len @ 8: U16,
        /// Type of the inode
        kind @ 10: u8,
        /// The name
        name @ 11: [u8; 255],
    }
);
