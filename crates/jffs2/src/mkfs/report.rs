//! What a builder tells about its work and its result.

use crate::mount::NodeCounts;

/// Told how a build goes on.
pub trait Progress {
    /// So many bytes of file contents will be read.
    fn total(&self, _bytes: u64) {}

    /// So many more bytes of file contents are in the image.
    fn advance(&self, _bytes: u64) {}
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// What was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MkfsReport {
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Erase blocks of the image, the last one perhaps not whole.
    pub blocks: u32,
    /// Inodes.
    pub inodes: u64,
    /// Names in directories.
    pub names: u64,
    /// Bytes of all files.
    pub content_bytes: u64,
    /// Bytes of file contents as stored, without node headers.
    pub stored_bytes: u64,
    /// Nodes by kind.
    pub nodes: NodeCounts,
    /// The highest inode number in use.
    pub highest_ino: u32,
}
