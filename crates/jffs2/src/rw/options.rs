//! What a mount is told, and what it tells.

use eraseblock_base::Findings;
use eraseblock_jffs2_format::ByteOrder;

/// How file data is compressed (spec: jffs2 9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// LZO, then zlib, then rtime: the first that makes the data shorter, as Linux does.
    #[default]
    Priority,
    /// Only LZO, where it makes the data shorter.
    Lzo,
    /// Only zlib, where it makes the data shorter.
    Zlib,
    /// Only rtime, where it makes the data shorter.
    Rtime,
    /// None: data is stored as it is.
    None,
}

/// How to mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RwOptions {
    /// Byte order; found out from the medium if left open, little-endian on an empty one.
    pub order: Option<ByteOrder>,
    /// Never writes.
    pub read_only: bool,
    /// Whether full blocks get a summary. Existing ones are always used.
    pub summary: bool,
    /// How file data is compressed.
    pub compression: Compression,
    /// Seeds the choices of garbage collection.
    pub seed: u64,
    /// NAND: the out-of-band bytes of the cleanmarker, at most 8, ascending; found out from the
    /// size of the out-of-band area if left open (spec: jffs2 11.2).
    pub marker_positions: Option<Vec<u32>>,
    /// Bytes of the cleanmarkers at the starts of blocks, 0 for none, a multiple of 4 from 12 to half
    /// a block; by the kind of the medium if left open. An image file does not tell its medium, but
    /// has the markers of it (spec: jffs2 11).
    pub cleanmarker: Option<u32>,
}

impl Default for RwOptions {
    fn default() -> Self {
        Self {
            order: None,
            read_only: false,
            summary: true,
            compression: Compression::Priority,
            seed: 0,
            marker_positions: None,
            cleanmarker: None,
        }
    }
}

/// What a mount found and what it cost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MountReport {
    /// What is worth knowing or wrong.
    pub findings: Findings,
    /// Bytes read from flash, out-of-band bytes not counted.
    pub bytes_read: u64,
    /// Blocks known from their summary alone.
    pub summaries: u32,
    /// Blocks in use or free; the rest is bad.
    pub blocks: u32,
    /// Nodes alive.
    pub nodes: u64,
    /// Inodes alive.
    pub inodes: u64,
    /// Bytes of memory for nodes, inodes and blocks, about.
    pub memory: u64,
}
