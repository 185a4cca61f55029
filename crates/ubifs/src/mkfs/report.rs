//! Progress and result of a builder.

use eraseblock_ubifs_format::layout::Layout;

/// A phase of a build.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Numbering and checking inodes.
    Plan,
    /// Reading, compressing and writing contents, inodes and entries.
    Content,
    /// Writing the index.
    Index,
    /// Writing LPT, master, superblock and log.
    Finish,
}

/// Receives the progress of a build.
pub trait Progress {
    /// A phase begins.
    fn phase(&self, _phase: Phase) {}

    /// Announces the number of bytes of file contents to be read.
    fn total(&self, _bytes: u64) {}

    /// Reports that this many more bytes of file contents are in the image.
    fn advance(&self, _bytes: u64) {}

    /// Reports the inode number in the image of the file at `path` (no leading slash, empty for the
    /// root).
    fn inode(&self, _path: &[u8], _ino: u32) {}
}

/// Discards progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// The number of nodes of each kind in an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeCounts {
    /// Inodes of files of all kinds.
    pub inodes: u64,
    /// Names in directories.
    pub entries: u64,
    /// Xattrs, each with an entry and an inode of its own.
    pub xattrs: u64,
    /// Blocks of file contents; in a plan, including blocks that turn out to be holes.
    pub blocks: u64,
}

/// Statistics of file contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DataStatistics {
    /// Bytes of all files.
    pub content_bytes: u64,
    /// Blocks that are not stored because they are zero.
    pub holes: u64,
    /// Blocks stored, by the number of their compressor: none, LZO, zlib, zstd.
    pub blocks: [u64; 4],
    /// Payload bytes stored, without node headers, by the number of their compressor.
    pub stored_bytes: [u64; 4],
}

/// The result of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MkfsReport {
    /// The areas of the volume.
    pub layout: Layout,
    /// LEBs of the image.
    pub leb_cnt: u32,
    /// LEBs of the image that hold contents, inodes and entries.
    pub data_lebs: u32,
    /// LEBs of the image that hold the index.
    pub index_lebs: u32,
    /// LEBs that a volume of the maximum size has in addition to the image's, all of them free.
    pub spare_lebs: u32,
    /// Bytes that are free for new data in a volume of the maximum size, before the reserves of
    /// UBIFS for index, garbage collection and deletions.
    pub free_bytes: u64,
    /// Bytes of all index nodes.
    pub index_size: u64,
    /// The highest inode number in use.
    pub highest_inum: u32,
    /// The UUID, given or derived from the content.
    pub uuid: [u8; 16],
    /// Nodes by kind.
    pub nodes: NodeCounts,
    /// Statistics of file contents.
    pub data: DataStatistics,
}
