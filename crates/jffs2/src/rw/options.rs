//! Options and result of a mount.
//!
//! Layer: data. Uses nothing else of the run time.

use eraseblock_base::Findings;
use eraseblock_jffs2_format::ByteOrder;

/// How file data is compressed (spec: jffs2 9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// The first of LZO, zlib and rtime that makes the data shorter, as in Linux.
    #[default]
    Priority,
    /// Only LZO, where it makes the data shorter.
    Lzo,
    /// Only zlib, where it makes the data shorter.
    Zlib,
    /// Only rtime, where it makes the data shorter.
    Rtime,
    /// None: data is stored uncompressed.
    None,
}

/// Options of a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RwOptions {
    /// Byte order; by default detected from the medium, little-endian on an empty one.
    pub order: Option<ByteOrder>,
    /// Never writes.
    pub read_only: bool,
    /// Whether full blocks get a summary. Existing ones are always used.
    pub summary: bool,
    /// How file data is compressed.
    pub compression: Compression,
    /// Seeds the choices of garbage collection.
    pub seed: u64,
    /// NAND: the out-of-band bytes of the cleanmarker, at most 8, ascending; by default derived
    /// from the size of the out-of-band area (spec: jffs2 11.2).
    pub marker_positions: Option<Vec<u32>>,
    /// Length of the cleanmarkers at the starts of blocks: 0 for none, otherwise a multiple of 4
    /// from 12 to half a block. By default derived from the kind of the medium. Set it for an image
    /// file: its markers are those of the target medium, which the file does not name (spec: jffs2
    /// 11).
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

/// The result and the cost of a mount.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MountReport {
    /// Notes, warnings and errors.
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
    /// Approximate bytes of memory for nodes, inodes and blocks.
    pub memory: u64,
}
