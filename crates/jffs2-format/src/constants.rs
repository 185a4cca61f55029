//! Numbers of the format (spec: jffs2 2 to 6, 9.1).

/// The first 16 bits of a node.
pub const MAGIC: u16 = 0x1985;
/// Second word of the marker that ends a block with a summary.
pub const SUMMARY_MARKER: u32 = 0x0285_1885;
/// Bit of the node type: set while the node is valid.
pub const ACCURATE: u16 = 0x2000;

/// Bytes of the common header.
pub const HEADER_LEN: u32 = 12;
/// Bytes of an INODE node before its data.
pub const INODE_LEN: u32 = 68;
/// Bytes of a DIRENT node before its name.
pub const DIRENT_LEN: u32 = 40;
/// Bytes of an XATTR node before its name.
pub const XATTR_LEN: u32 = 32;
/// Bytes of an XREF node.
pub const XREF_LEN: u32 = 28;
/// Bytes of a SUMMARY node before its records.
pub const SUMMARY_LEN: u32 = 32;
/// Bytes of the marker that ends a SUMMARY node.
pub const SUMMARY_MARKER_LEN: u32 = 8;

/// Node types with the ACCURATE bit set (spec: jffs2 4.2).
pub mod node_type {
    /// One name in one directory.
    pub const DIRENT: u16 = 0xE001;
    /// Attributes and data of an inode.
    pub const INODE: u16 = 0xE002;
    /// The block was erased completely.
    pub const CLEANMARKER: u16 = 0x2003;
    /// Filler.
    pub const PADDING: u16 = 0x2004;
    /// The list of a block's nodes.
    pub const SUMMARY: u16 = 0x2006;
    /// Name and value of an xattr.
    pub const XATTR: u16 = 0xE008;
    /// Connects an xattr to an inode.
    pub const XREF: u16 = 0xE009;
    /// Content of an unknown file was lost. Our own; Linux keeps and copies it unread
    /// (spec: jffs2 8.6).
    pub const DAMAGE_MARKER: u16 = 0x6DA6;
}

/// Compressor numbers (spec: jffs2 9.1).
pub mod compression {
    /// No compression.
    pub const NONE: u8 = 0;
    /// A hole: zeros without payload.
    pub const ZERO: u8 = 1;
    /// Repetitions found through the last position of a byte.
    pub const RTIME: u8 = 2;
    /// Decoded by Linux as Rubin with a table in the payload.
    pub const RUBIN_DYNAMIC: u8 = 3;
    /// Decoded by Linux as Rubin with the fixed table.
    pub const RUBIN_FIXED: u8 = 5;
    /// A zlib stream.
    pub const ZLIB: u8 = 6;
    /// Raw LZO1X.
    pub const LZO: u8 = 7;
    /// Raw LZMA, used by OpenWrt.
    pub const LZMA: u8 = 8;
}

/// Inode number of the root directory.
pub const ROOT_INO: u32 = 1;
/// The longest name Linux looks up, in bytes.
pub const MAX_NAME_LEN: usize = 254;
/// The longest target of a symbolic link, in bytes.
pub const MAX_TARGET_LEN: u32 = 254;
/// The maximum data length of a compressed node in bytes: the largest page of any writer.
pub const MAX_NODE_DATA: u32 = 64 << 10;
/// The number of dead bytes up to which a block counts as clean (spec: jffs2 12.1).
pub const DIRTY_LIMIT: u32 = INODE_LEN + 128;
/// The smallest eraseblock of the tools, in bytes.
pub const MIN_BLOCK: u32 = 8 << 10;

/// Returns `length` rounded up to a multiple of 4 bytes, the grid of nodes, or `None` on overflow.
pub const fn pad(length: u32) -> Option<u32> {
    length.checked_next_multiple_of(4)
}
