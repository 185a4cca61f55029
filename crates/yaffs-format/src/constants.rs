//! Numbers of the format (spec: yaffs2 2).

use core::ops::RangeInclusive;

/// Magic of checkpoints and of statfs.
pub const MAGIC: u32 = 0x5941_FF53;

/// Numbers of objects that every file system has or reserves.
pub mod object {
    /// The root directory.
    pub const ROOT: u32 = 1;
    /// The directory of objects without a parent.
    pub const LOST_FOUND: u32 = 2;
    /// The parent of files that are open without a name.
    pub const UNLINKED: u32 = 3;
    /// The parent of deleted objects.
    pub const DELETED: u32 = 4;
    /// The pseudo object of block summaries.
    pub const SUMMARY: u32 = 0x10;
    /// The first number given to objects of users.
    pub const FIRST: u32 = 0x101;
    /// The highest number.
    pub const MAX: u32 = 0x3_FFFF;
}

/// Sequence numbers of blocks that hold objects.
pub const SEQUENCES: RangeInclusive<u32> = 0x1000..=0xEFFF_FEFF;
/// Sequence number of blocks of a checkpoint.
pub const CHECKPOINT_SEQUENCE: u32 = 0x21;
/// The highest number of a chunk.
pub const MAX_CHUNK: u32 = (1 << 28) - 1;
/// Bytes of an object header without its xattrs.
pub const HEADER_LEN: usize = 512;
/// The longest name in bytes.
pub const MAX_NAME_LEN: usize = 255;
/// The longest target of a symbolic link, in bytes.
pub const MAX_TARGET_LEN: usize = 159;
/// Bytes of tags without their ECC.
pub const TAGS_LEN: usize = 16;
/// Bytes of the ECC of tags.
pub const TAGS_ECC_LEN: usize = 12;
