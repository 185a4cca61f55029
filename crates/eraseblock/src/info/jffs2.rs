//! A JFFS2.

use crate::target::filesystem::Kind;
use crate::target::image::Jffs2Image;
use eraseblock_jffs2::compressor_name;
use eraseblock_jffs2_format::ByteOrder;
use std::collections::BTreeMap;

/// A JFFS2.
#[derive(Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Jffs2Facts {
    /// The file.
    pub path: String,
    /// Its length in bytes.
    pub file_size: u64,
    /// Where the first eraseblock begins in the file.
    pub start: u64,
    /// Size of a physical eraseblock in bytes.
    pub peb_size: u32,
    /// Number of physical eraseblocks.
    pub peb_count: u32,
    /// `little` or `big`.
    pub byte_order: &'static str,
    /// Length of the cleanmarkers in the blocks, 0 when there are none.
    pub cleanmarker: u32,
    /// Inodes.
    pub inodes: u64,
    /// Valid nodes by kind, superseded ones included.
    pub nodes: BTreeMap<&'static str, u64>,
    /// Bytes of those nodes.
    pub node_bytes: u64,
    /// Nodes with data by compressor.
    pub compressors: BTreeMap<&'static str, u64>,
    /// Bytes that files can take.
    pub bytes_total: u64,
    /// Bytes of these that are free.
    pub bytes_free: u64,
}

impl Jffs2Facts {
    /// Returns the result of opening.
    pub(super) fn of(image: &Jffs2Image) -> Self {
        let space = image.opened.fs().stat_fs().unwrap_or_default();
        let block = u64::from(space.block_size);
        let mut report = Self {
            path: image.path.display().to_string(),
            file_size: image.file_size,
            bytes_total: space.blocks * block,
            bytes_free: space.blocks_free * block,
            ..Self::default()
        };
        let Kind::Jffs2(jffs2) = image.opened.kind() else { return report };
        let info = jffs2.info();
        report.start = info.shape.start;
        report.peb_size = info.shape.erase_size;
        report.peb_count = info.blocks;
        report.byte_order = match info.shape.order {
            ByteOrder::Little => "little",
            ByteOrder::Big => "big",
        };
        report.cleanmarker = info.shape.cleanmarker;
        report.inodes = info.inodes;
        let nodes = &info.nodes;
        report.nodes = BTreeMap::from([
            ("inode", nodes.inodes),
            ("dirent", nodes.entries),
            ("xattr", nodes.xattrs),
            ("xref", nodes.xrefs),
            ("cleanmarker", nodes.cleanmarkers),
            ("padding", nodes.paddings),
            ("summary", nodes.summaries),
            ("damage-marker", nodes.damage_markers),
            ("unknown", nodes.unknown),
        ]);
        report.node_bytes = info.node_bytes;
        for (number, count) in (0_u8..).zip(nodes.compressors).filter(|row| row.1 > 0) {
            *report.compressors.entry(compressor_name(number)).or_default() += count;
        }
        report
    }
}
