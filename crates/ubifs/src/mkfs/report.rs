//! What a builder tells about its work and its result.

use eraseblock_ubifs_format::layout::Layout;

/// What a build is doing.
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

/// Told how a build goes on.
pub trait Progress {
    /// A phase begins.
    fn phase(&self, _phase: Phase) {}

    /// So many bytes of file contents will be read.
    fn total(&self, _bytes: u64) {}

    /// So many more bytes of file contents are in the image.
    fn advance(&self, _bytes: u64) {}

    /// The file at `path` (no leading slash, empty for the root) has this inode number in the
    /// image.
    fn inode(&self, _path: &[u8], _ino: u32) {}
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// How many nodes of each kind an image has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeCounts {
    /// Inodes of files of all kinds.
    pub inodes: u64,
    /// Names in directories.
    pub entries: u64,
    /// Extended attributes, each with an entry and an inode of its own.
    pub xattrs: u64,
    /// Blocks of file contents; in a plan, including blocks that turn out to be holes.
    pub blocks: u64,
}

/// What became of file contents.
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

/// What was built.
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
    /// LEBs that a volume of the largest size has on top of the image's, all of them free.
    pub spare_lebs: u32,
    /// Bytes that are free for new data in a volume of the largest size, before what UBIFS sets
    /// aside for index, garbage collection and deletions.
    pub free_bytes: u64,
    /// Bytes of all index nodes.
    pub index_size: u64,
    /// The highest inode number in use.
    pub highest_inum: u32,
    /// The UUID, given or made from the content.
    pub uuid: [u8; 16],
    /// Nodes by kind.
    pub nodes: NodeCounts,
    /// What became of file contents.
    pub data: DataStatistics,
}
