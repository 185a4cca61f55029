//! What an image may have at most.

/// Bytes in a metadata block, uncompressed.
pub const METADATA: usize = 8192;

/// Bytes in a data block.
pub const BLOCK: u32 = 1 << 20;

/// Bytes in the listing of one directory: some 250,000 names of usual length.
pub const LISTING: u32 = 8 << 20;

/// Directories that are remembered, so that none is reached twice.
pub const DIRECTORIES: usize = 1 << 20;

/// Bytes in the target of a symbolic link, as in Linux.
pub const TARGET: u32 = 4096;

/// Bytes in the value of an xattr, as in Linux.
pub const XATTR: u32 = 64 << 10;

/// Xattrs of one inode.
pub const XATTRS: u32 = 64 << 10;

/// Memory in KiB that the stream of a block may ask of a decompressor: the largest dictionary that
/// helps, and the tables of LZMA.
pub(crate) const DECODER_KIB: u32 = 4 << 10;
