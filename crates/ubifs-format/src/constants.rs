//! Numbers of the format (spec: ubifs-format 1, 4.1).

/// First four bytes of every node, as a little-endian number.
pub const NODE_MAGIC: u32 = 0x0610_1831;
/// Fills 8 to 24 bytes of padding, which are too few for a padding node.
pub const PADDING_BYTE: u8 = 0xCE;
/// Bytes of file content in one data node.
pub const BLOCK_SIZE: u32 = 4096;
/// log2 of [`BLOCK_SIZE`].
pub const BLOCK_SHIFT: u32 = 12;
/// Longest name of a directory entry or xattr.
pub const MAX_NAME_LEN: usize = 255;
/// Maximum length of inline data in an inode node.
pub const MAX_INODE_DATA: usize = 4096;
/// Content shorter than this is never compressed.
pub const MIN_COMPRESS_LEN: usize = 128;
/// Inode number of the root directory.
pub const ROOT_INO: u32 = 1;
/// The inode counter of a fresh file system; the first inode created gets the next number.
pub const FIRST_INO: u32 = 64;
/// The first inode number that is refused.
pub const INO_LIMIT: u32 = 0xFFFF_FF00;
/// The first sequence number that means that the volume has reached its end of life.
pub const SQNUM_LIMIT: u64 = 0xFFFF_FFFF_FF00_0000;
/// Largest file: 2^29 blocks.
pub const MAX_FILE_SIZE: u64 = (1 << 29) * BLOCK_SIZE as u64;
/// Smallest allowed fanout of the index.
pub const MIN_FANOUT: u32 = 3;
/// Maximum number of levels of the index tree.
pub const MAX_LEVELS: u32 = 512;
/// Children of an LPT node.
pub const LPT_FANOUT: u32 = 4;
/// The alignment of all nodes but LPT nodes.
pub const NODE_ALIGN: u32 = 8;
/// Smallest node that an operation writes.
pub const MIN_WRITE_SIZE: u32 = 56;
/// Largest node of the journal: an inode node with all inline data, rounded.
pub const MAX_NODE_SIZE: u32 = 4256;
/// Maximum total length of the xattr names of an inode, terminators included.
pub const XATTR_LIST_MAX: u32 = 65_536;
/// Longest hash or HMAC.
pub const MAX_HASH_LEN: usize = 64;
/// Smallest LEB.
pub const MIN_LEB_SIZE: u32 = 15_360;
/// Smallest volume, in LEBs.
pub const MIN_LEB_COUNT: u32 = 17;
/// Smallest number of LEBs of a main area: three buds and six more (spec: ubifs-format 2).
pub const MIN_MAIN_LEBS: u32 = 9;
/// First and only LEB of the superblock area.
pub const SB_LEB: u32 = 0;
/// First of the two master LEBs.
pub const MASTER_LEB: u32 = 1;
/// First LEB of the log.
pub const LOG_FIRST: u32 = 3;
/// Newest supported format version ("w5").
pub const FORMAT_VERSION: u32 = 5;

/// Superblock flags (spec: ubifs-format 13).
pub mod sb_flags {
    /// The big LPT model is used.
    pub const BIG_LPT: u32 = 0x02;
    /// Free space must be rewritten at the first writable mount.
    pub const SPACE_FIXUP: u32 = 0x04;
    /// Directory entries carry cookies (format 5).
    pub const DOUBLE_HASH: u32 = 0x08;
    /// Encrypted files may exist.
    pub const ENCRYPTION: u32 = 0x10;
    /// Index branches carry hashes; superblock and master are authenticated.
    pub const AUTHENTICATION: u32 = 0x20;
    /// All supported flags.
    pub const KNOWN: u32 = BIG_LPT | SPACE_FIXUP | DOUBLE_HASH | ENCRYPTION | AUTHENTICATION;
}

/// Master node flags (spec: ubifs-format 14).
pub mod master_flags {
    /// Mounted for writing and not cleanly unmounted since.
    pub const DIRTY: u32 = 0x01;
    /// The orphan area is empty.
    pub const NO_ORPHANS: u32 = 0x02;
    /// Written by recovery.
    pub const RECOVERY: u32 = 0x04;
}

/// Inode flags (spec: ubifs-format 4.2).
pub mod inode_flags {
    /// New data is compressed.
    pub const COMPRESS: u32 = 0x01;
    /// Writes are synchronous.
    pub const SYNC: u32 = 0x02;
    /// Nothing may change.
    pub const IMMUTABLE: u32 = 0x04;
    /// Data may only be appended.
    pub const APPEND: u32 = 0x08;
    /// Directory changes are synchronous.
    pub const DIRSYNC: u32 = 0x10;
    /// The inode holds the value of an xattr.
    pub const XATTR: u32 = 0x20;
    /// Content or names are encrypted.
    pub const ENCRYPTED: u32 = 0x40;
}

/// The name of the xattr that holds an encryption context; never listed (spec: ubifs-format 21.5 N5).
pub const ENCRYPTION_CONTEXT: &[u8] = b"c";

/// Group types of the common header (spec: ubifs-format 3.4).
pub mod group {
    /// Not part of a group.
    pub const NONE: u8 = 0;
    /// Part of a group, more follows.
    pub const IN: u8 = 1;
    /// Last of a group.
    pub const LAST: u8 = 2;
}

/// The types of nodes (spec: ubifs-format 4.1). The numbers are those on flash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum NodeType {
    /// Inode.
    Inode = 0,
    /// One block of file content.
    Data = 1,
    /// Directory entry.
    Dent = 2,
    /// Xattr entry.
    Xent = 3,
    /// Truncation.
    Truncation = 4,
    /// Padding.
    Padding = 5,
    /// Superblock.
    Superblock = 6,
    /// Master.
    Master = 7,
    /// Bud reference.
    Reference = 8,
    /// Index.
    Index = 9,
    /// Commit start.
    CommitStart = 10,
    /// Orphans.
    Orphan = 11,
    /// Authentication of the preceding nodes.
    Auth = 12,
    /// Signature of the superblock.
    Signature = 13,
}

impl NodeType {
    const ALL: [Self; 14] = [
        Self::Inode,
        Self::Data,
        Self::Dent,
        Self::Xent,
        Self::Truncation,
        Self::Padding,
        Self::Superblock,
        Self::Master,
        Self::Reference,
        Self::Index,
        Self::CommitStart,
        Self::Orphan,
        Self::Auth,
        Self::Signature,
    ];

    /// Returns the type with this number on flash, or `None` for a number that does not exist.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the number on flash.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the common name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inode => "inode node",
            Self::Data => "data node",
            Self::Dent => "directory entry node",
            Self::Xent => "xattr entry node",
            Self::Truncation => "truncation node",
            Self::Padding => "padding node",
            Self::Superblock => "superblock node",
            Self::Master => "master node",
            Self::Reference => "reference node",
            Self::Index => "index node",
            Self::CommitStart => "commit start node",
            Self::Orphan => "orphan node",
            Self::Auth => "authentication node",
            Self::Signature => "signature node",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_types_have_the_numbers_of_the_format() {
        for number in 0..14 {
            assert_eq!(NodeType::from_number(number).unwrap().number(), number);
        }
        assert_eq!(NodeType::from_number(14), None);
    }
}
