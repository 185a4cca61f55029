//! A YAFFS.

use crate::target::filesystem::Kind;
use crate::target::yaffs::YaffsImage;
use eraseblock_base::ByteOrder;
use eraseblock_yaffs::{DataEcc, Origin, TagsPlace, Version};

/// A YAFFS.
#[derive(Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct YaffsFacts {
    /// The file.
    pub path: String,
    /// Its length in bytes.
    pub file_size: u64,
    /// 1 or 2.
    pub version: u32,
    /// Size of a physical eraseblock in bytes.
    pub peb_size: u32,
    /// Number of physical eraseblocks.
    pub peb_count: u32,
    /// Size of a page in bytes.
    pub page: u32,
    /// Spare bytes after each page.
    pub spare: u32,
    /// `little` or `big`.
    pub byte_order: &'static str,
    /// Where the tags of a page are.
    pub tags: String,
    /// Whether tags have an ECC.
    pub tags_ecc: bool,
    /// `hamming` or `none`.
    pub data_ecc: &'static str,
    /// `checkpoint` or `scan`.
    pub state_from: &'static str,
    /// Objects with a name.
    pub objects: u64,
    /// Chunks with content or an object's header that is needed.
    pub live_chunks: u64,
    /// Erased eraseblocks.
    pub free_pebs: u32,
    /// Bad eraseblocks.
    pub bad_pebs: u32,
    /// Eraseblocks of the checkpoint.
    pub checkpoint_pebs: u32,
    /// Full blocks with a summary.
    pub summaries: u32,
    /// The highest sequence number.
    pub sequence: u32,
    /// Bytes that files can take.
    pub bytes_total: u64,
    /// Bytes of these that are free.
    pub bytes_free: u64,
}

impl YaffsFacts {
    /// Returns the result of opening.
    pub(super) fn of(image: &YaffsImage) -> Self {
        let space = image.opened.fs().stat_fs().unwrap_or_default();
        let block = u64::from(space.block_size);
        let report = Self {
            path: image.path.display().to_string(),
            file_size: image.file_size,
            bytes_total: space.blocks * block,
            bytes_free: space.blocks_free * block,
            ..Self::default()
        };
        let Kind::Yaffs(yaffs) = image.opened.kind() else { return report };
        let info = yaffs.info();
        let layout = &info.layout;
        let (version, tags) = match (layout.version, &layout.place) {
            (Version::Yaffs1, _) => (1, "in the spare bytes of YAFFS1".to_owned()),
            (_, TagsPlace::InBand) => (2, "in the data".to_owned()),
            (_, TagsPlace::Spare(places)) => {
                (2, format!("from spare byte {}", places.first().copied().unwrap_or(0)))
            }
        };
        Self {
            version,
            peb_size: layout.page * layout.pages_per_block,
            peb_count: info.blocks,
            page: layout.page,
            spare: layout.spare,
            byte_order: match layout.order {
                ByteOrder::Little => "little",
                ByteOrder::Big => "big",
            },
            tags,
            tags_ecc: layout.tags_ecc,
            data_ecc: match layout.data_ecc {
                DataEcc::None => "none",
                DataEcc::Hamming { .. } => "hamming",
            },
            state_from: match info.origin {
                Origin::Checkpoint => "checkpoint",
                Origin::Scan => "scan",
            },
            objects: info.objects,
            live_chunks: info.live_chunks,
            free_pebs: info.free_blocks,
            bad_pebs: info.bad_blocks,
            checkpoint_pebs: info.checkpoint_blocks,
            summaries: info.summaries,
            sequence: info.sequence,
            ..report
        }
    }
}
