//! Progress and result of a builder.

use crate::mount::NodeCounts;

/// Receives the progress of a build.
pub trait Progress {
    /// Announces the number of bytes of file contents to be read.
    fn total(&self, _bytes: u64) {}

    /// Reports that this many more bytes of file contents are in the image.
    fn advance(&self, _bytes: u64) {}
}

/// Discards progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// The result of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MkfsReport {
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Number of eraseblocks of the image; the last one may be incomplete.
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
