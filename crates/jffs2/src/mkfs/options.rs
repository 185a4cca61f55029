//! Options of an image.

use super::error::MkfsError;
use crate::mount::Highest;
use eraseblock_jffs2_format::ByteOrder;
use eraseblock_jffs2_format::constants::{HEADER_LEN, MAX_NODE_DATA, MIN_BLOCK, compression};
use std::num::NonZeroUsize;

/// The largest erase block, in bytes.
const MAX_BLOCK: u32 = 64 << 20;
/// The smallest page, in bytes.
const MIN_PAGE: u32 = 256;

/// A compressor for pages of files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compressor {
    /// LZO1X. Not supported by every Linux.
    Lzo,
    /// zlib.
    Zlib,
    /// Runs that repeat the bytes after a byte's last occurrence.
    Rtime,
}

impl Compressor {
    /// All compressors, in the order that decides between equal priorities.
    pub const ALL: [Self; 3] = [Self::Lzo, Self::Zlib, Self::Rtime];

    /// Returns the name used by tools.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lzo => "lzo",
            Self::Zlib => "zlib",
            Self::Rtime => "rtime",
        }
    }

    /// Returns the one of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns its priority in the tools (spec: jffs2 9.1).
    pub const fn usual_priority(self) -> i32 {
        match self {
            Self::Lzo => 80,
            Self::Zlib => 60,
            Self::Rtime => 50,
        }
    }

    /// Returns its number on flash.
    pub const fn number(self) -> u8 {
        match self {
            Self::Lzo => compression::LZO,
            Self::Zlib => compression::ZLIB,
            Self::Rtime => compression::RTIME,
        }
    }
}

/// How one of several compressors is selected (spec: jffs2 9.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CompressionMode {
    /// None: everything is stored uncompressed.
    None,
    /// The first that makes a page smaller, by descending priority.
    #[default]
    Priority,
    /// The one with the smallest result.
    Size,
    /// The smallest result, but LZO's unless another is a fifth smaller.
    FavourLzo,
}

/// The compressors to try, and the result to use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compression {
    /// How the result is selected.
    pub mode: CompressionMode,
    /// Enabled compressors with their priorities, in any order.
    pub compressors: Vec<(Compressor, i32)>,
    /// Effort of zlib: 1 to 12.
    pub zlib_level: u8,
}

impl Default for Compression {
    /// zlib, then rtime: supported by every Linux.
    fn default() -> Self {
        let on = [Compressor::Zlib, Compressor::Rtime];
        Self {
            mode: CompressionMode::Priority,
            compressors: on.map(|one| (one, one.usual_priority())).to_vec(),
            zlib_level: 6,
        }
    }
}

/// What follows the last node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Padding {
    /// Nothing.
    #[default]
    None,
    /// Erased bytes up to the end of the block.
    Block,
    /// Erased bytes up to this size of the image, rounded up to whole blocks, with cleanmarkers in
    /// the blocks that are begun.
    Size(u64),
}

/// Options of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MkfsOptions {
    /// Bytes in an erase block: 8 KiB to 64 MiB, a multiple of 4.
    pub block_size: u32,
    /// Maximum number of file bytes in one node: a power of two from 256 to 65536. Linux destroys
    /// nodes that cross its own pages, which have 4096 bytes almost everywhere (spec: jffs2 8.5).
    pub page_size: u32,
    /// Byte order.
    pub order: ByteOrder,
    /// Length of the cleanmarker at the start of each block, 12 or more; 0 for
    /// media that keep it elsewhere.
    pub cleanmarker: u32,
    /// What follows the last node.
    pub padding: Padding,
    /// The compression of contents.
    pub compression: Compression,
    /// Whether full blocks end with a list of their nodes, so that Linux mounts faster.
    pub summary: bool,
    /// The highest numbers of the image to which this one is appended. Such an image does not
    /// change the root directory's attributes; existing names are replaced.
    pub base: Option<Highest>,
    /// Maximum size of the image in bytes.
    pub limit: Option<u64>,
    /// Whether every compressed page is decompressed again and compared.
    pub verify: bool,
    /// Number of worker threads; by default the number of processors.
    pub threads: Option<NonZeroUsize>,
}

impl MkfsOptions {
    /// Returns the defaults for blocks of this size: little-endian, cleanmarkers of 12 bytes, pages
    /// of 4096 bytes, zlib and rtime, no padding, no summaries.
    pub fn new(block_size: u32) -> Self {
        Self {
            block_size,
            page_size: 4096,
            order: ByteOrder::Little,
            cleanmarker: HEADER_LEN,
            padding: Padding::None,
            compression: Compression::default(),
            summary: false,
            base: None,
            limit: None,
            verify: false,
            threads: None,
        }
    }

    /// Checks the ranges.
    pub(super) fn check(&self) -> Result<(), MkfsError> {
        check_block(self.block_size, self.cleanmarker)?;
        let fits = (MIN_PAGE..=MAX_NODE_DATA).contains(&self.page_size);
        if !fits || !self.page_size.is_power_of_two() {
            let expected = "a power of two from 256 to 65536";
            let found = self.page_size.into();
            return Err(MkfsError::Option { option: "page size", found, expected });
        }
        if !(1..=12).contains(&self.compression.zlib_level) {
            let found = self.compression.zlib_level.into();
            return Err(MkfsError::Option { option: "zlib level", found, expected: "1 to 12" });
        }
        Ok(())
    }
}

/// Options of [`super::summarise`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SummaryOptions {
    /// Bytes in an erase block of the output: 8 KiB to 64 MiB, a multiple of 4.
    pub block_size: u32,
    /// Byte order of the input; detected by default.
    pub order: Option<ByteOrder>,
    /// Length of the cleanmarker at the start of each block, 12 or more; 0 for
    /// none.
    pub cleanmarker: u32,
    /// Whether the last block is padded.
    pub pad: bool,
}

pub(super) fn check_block(block_size: u32, cleanmarker: u32) -> Result<(), MkfsError> {
    let is_size = (MIN_BLOCK..=MAX_BLOCK).contains(&block_size) && block_size.is_multiple_of(4);
    if !is_size {
        let expected = "a multiple of 4 from 8 KiB to 64 MiB";
        let found = block_size.into();
        return Err(MkfsError::Option { option: "erase block size", found, expected });
    }
    let is_marker = (HEADER_LEN..=block_size / 2).contains(&cleanmarker);
    if cleanmarker != 0 && !is_marker {
        let expected = "0, or from 12 to half a block";
        let found = cleanmarker.into();
        return Err(MkfsError::Option { option: "cleanmarker size", found, expected });
    }
    Ok(())
}
