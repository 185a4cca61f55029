//! What `info` knows about an image; as JSON this is its result (docs/json.md).

mod yaffs;

use crate::failure::Failure;
use crate::map::Cell;
use eraseblock::raw::base::Peb;
use eraseblock::raw::jffs2::compressor_name;
use eraseblock::raw::jffs2_format::ByteOrder;
use eraseblock::raw::ubi::{
    Attachment, EndMarks, EraseCounters, FastmapStatus, PebCounts, PebState, VolumeInfo, VolumeMap,
};
use eraseblock::raw::ubi_format::{VolumeFlags, VolumeKind};
use eraseblock::raw::ubifs_format::constants::sb_flags;
use eraseblock::raw::ubifs_format::node::Superblock;
use eraseblock::target::filesystem::{Kind, Opened};
use eraseblock::target::image::{BareUbifs, Jffs2Image, UbiImage};
use eraseblock::target::peek::Content;
use eraseblock::text;
use serde::Serialize;
use std::collections::BTreeMap;
pub(super) use yaffs::YaffsReport;

/// An image of one of the kinds.
#[derive(Debug, Serialize)]
#[serde(tag = "format", rename_all = "kebab-case")]
pub(super) enum Report {
    /// A UBI device.
    Ubi(UbiReport),
    /// A bare UBIFS volume.
    Ubifs(UbifsReport),
    /// A JFFS2.
    Jffs2(Jffs2Report),
    /// A YAFFS.
    Yaffs(YaffsReport),
}

/// A JFFS2.
#[derive(Debug, Default, Serialize)]
pub(super) struct Jffs2Report {
    pub path: String,
    pub file_size: u64,
    /// Where the first eraseblock begins in the file.
    pub start: u64,
    pub peb_size: u32,
    pub peb_count: u32,
    /// `little` or `big`.
    pub byte_order: &'static str,
    /// Length of the cleanmarkers in the blocks, 0 when there are none.
    pub cleanmarker: u32,
    pub inodes: u64,
    /// Valid nodes by kind, superseded ones included, and the bytes of all.
    pub nodes: BTreeMap<&'static str, u64>,
    pub node_bytes: u64,
    /// Nodes with data by compressor.
    pub compressors: BTreeMap<&'static str, u64>,
    /// Bytes that files can take, all and still free.
    pub bytes_total: u64,
    pub bytes_free: u64,
}

/// A UBI device.
#[derive(Debug, Serialize)]
pub(super) struct UbiReport {
    pub path: String,
    pub file_size: u64,
    /// Where the first eraseblock begins in the file.
    pub start: u64,
    pub peb_size: u32,
    pub peb_count: u32,
    pub min_io: u32,
    pub header_unit: u32,
    pub vid_hdr_offset: u32,
    pub data_offset: u32,
    pub leb_size: u32,
    pub image_seq: u32,
    pub max_sqnum: u64,
    pub blocks: PebCounts,
    pub erase_counters: EraseCounters,
    pub available_lebs: Option<u32>,
    /// Whether attaching can use a fastmap, and why not.
    pub fastmap: FastmapStatus,
    pub end_marks: Option<EndMarks>,
    /// Why Linux would not attach it.
    pub linux_refuses: Option<String>,
    pub volumes: Vec<VolumeReport>,
    #[serde(skip)]
    pub map: Vec<Cell>,
}

/// A volume of a UBI device.
#[derive(Debug, Serialize)]
pub(super) struct VolumeReport {
    pub id: u32,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub reserved_lebs: u32,
    pub mapped_lebs: u32,
    pub usable_leb_size: u32,
    pub alignment: u32,
    /// Bytes it can hold.
    pub size: u64,
    /// Bytes of data: of a static volume its length, of a dynamic one its mapped LEBs.
    pub used: u64,
    pub flags: Vec<&'static str>,
    pub corrupted: bool,
    pub update_unfinished: bool,
    /// What it begins with.
    pub content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ubifs: Option<UbifsFacts>,
}

/// A bare UBIFS volume.
#[derive(Debug, Serialize)]
pub(super) struct UbifsReport {
    pub path: String,
    pub file_size: u64,
    pub leb_size: u32,
    pub min_io: u32,
    #[serde(rename = "ubifs")]
    pub facts: Option<UbifsFacts>,
}

/// A UBIFS file system.
#[derive(Debug, Serialize)]
pub(super) struct UbifsFacts {
    pub format_version: u32,
    pub ro_compat_version: u32,
    pub uuid: String,
    pub compressor: &'static str,
    pub key_hash: String,
    pub leb_size: u32,
    pub min_io: u32,
    pub lebs: u32,
    pub max_lebs: u32,
    pub log_lebs: u32,
    pub lpt_lebs: u32,
    pub orphan_lebs: u32,
    pub fanout: u32,
    pub journal_bytes: u64,
    pub reserved_bytes: u64,
    pub flags: Vec<&'static str>,
    #[serde(flatten)]
    pub state: Option<UbifsState>,
}

/// The result of opening the file system.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct UbifsState {
    /// It was unmounted cleanly.
    pub clean: bool,
    /// It has no usable index and was put together from all nodes.
    pub rescued: bool,
    /// Buds of the journal.
    pub buds: u64,
    /// Nodes of the journal that were applied, and their bytes.
    pub replayed_nodes: u64,
    pub replayed_bytes: u64,
    /// Deleted files that were still open.
    pub orphans: u64,
    /// Bytes that files can take, all and still free.
    pub bytes_total: u64,
    pub bytes_free: u64,
}

impl UbiReport {
    /// Everything but the volumes.
    pub(super) fn of(image: &UbiImage) -> Result<Self, Failure> {
        let found = image.attachment();
        let layout = &found.layout;
        Ok(Self {
            fastmap: image.ubi.fastmap_status()?,
            path: image.path.display().to_string(),
            file_size: image.file_size,
            start: image.start,
            peb_size: layout.peb_size(),
            peb_count: found.peb_count,
            min_io: layout.min_io(),
            header_unit: layout.header_unit(),
            vid_hdr_offset: layout.vid_hdr_offset(),
            data_offset: layout.data_offset(),
            leb_size: layout.leb_size(),
            image_seq: found.image_seq,
            max_sqnum: found.max_sqnum.get(),
            blocks: found.counts,
            erase_counters: found.erase_counters,
            available_lebs: found.available_lebs,
            end_marks: found.end_marks.clone(),
            linux_refuses: found.linux_refuses.as_ref().map(|why| why.message.clone()),
            volumes: Vec::new(),
            map: map_of(found),
        })
    }
}

/// One cell for each eraseblock.
fn map_of(found: &Attachment) -> Vec<Cell> {
    let cell = |peb: u32| match found.peb(Peb::new(peb)).map(|info| info.state) {
        Some(PebState::Used) => Cell::Layout,
        Some(PebState::Erase | PebState::Foreign | PebState::Alien) => Cell::Stale,
        Some(PebState::Corrupted | PebState::Unreadable) => Cell::Damaged,
        Some(PebState::Bad) => Cell::Bad,
        Some(PebState::Fastmap) => Cell::Fastmap,
        Some(PebState::Free) | None => Cell::Free,
    };
    let mut cells: Vec<Cell> = (0..found.peb_count).map(cell).collect();
    for (place, info) in found.volumes.iter().enumerate() {
        let place = u8::try_from(place).unwrap_or(u8::MAX);
        for (_, peb) in found.map(info.id).into_iter().flat_map(VolumeMap::iter) {
            if let Some(cell) = cells.get_mut(peb.index()) {
                *cell = Cell::Volume(place);
            }
        }
    }
    cells
}

impl VolumeReport {
    /// Returns a volume without the result of opening it.
    pub(super) fn of(info: &VolumeInfo, content: &Content) -> Self {
        let usable = u64::from(info.usable_leb_size);
        let is_static = info.kind == VolumeKind::Static;
        let mapped = u64::from(info.mapped_lebs) * usable;
        let flag = |flag, word| info.flags.contains(flag).then_some(word);
        let flags = [
            flag(VolumeFlags::AUTORESIZE, "autoresize"),
            flag(VolumeFlags::SKIP_CHECK, "skip-check"),
        ];
        Self {
            id: info.id.get(),
            name: text::name(info.name.as_bytes()),
            kind: if is_static { "static" } else { "dynamic" },
            reserved_lebs: info.reserved_lebs,
            mapped_lebs: info.mapped_lebs,
            usable_leb_size: info.usable_leb_size,
            alignment: info.alignment,
            size: u64::from(info.reserved_lebs) * usable,
            used: if is_static { info.used_bytes } else { mapped },
            flags: flags.into_iter().flatten().collect(),
            corrupted: info.corrupted,
            update_unfinished: info.upd_marker,
            content: content.describe(),
            ubifs: None,
        }
    }
}

impl UbifsReport {
    /// A bare volume without what is in it.
    pub(super) fn of(image: &BareUbifs) -> Self {
        Self {
            path: image.path.display().to_string(),
            file_size: image.file_size,
            leb_size: image.device.leb_size(),
            min_io: image.device.min_io(),
            facts: None,
        }
    }
}

impl UbifsFacts {
    /// What the superblock says.
    pub(super) fn of(sb: &Superblock) -> Self {
        let flag = |flag, word| sb.has(flag).then_some(word);
        let flags = [
            flag(sb_flags::BIG_LPT, "big-lpt"),
            flag(sb_flags::SPACE_FIXUP, "space-fixup"),
            flag(sb_flags::DOUBLE_HASH, "double-hash"),
            flag(sb_flags::ENCRYPTION, "encryption"),
            flag(sb_flags::AUTHENTICATION, "authentication"),
        ];
        Self {
            format_version: sb.fmt_version,
            ro_compat_version: sb.ro_compat_version,
            uuid: text::uuid(&sb.uuid),
            compressor: sb.default_compr.name(),
            key_hash: format!("{:?}", sb.key_hash).to_lowercase(),
            leb_size: sb.leb_size,
            min_io: sb.min_io_size,
            lebs: sb.leb_cnt,
            max_lebs: sb.max_leb_cnt,
            log_lebs: sb.log_lebs,
            lpt_lebs: sb.lpt_lebs,
            orphan_lebs: sb.orph_lebs,
            fanout: sb.fanout,
            journal_bytes: sb.max_bud_bytes,
            reserved_bytes: sb.rp_size,
            flags: flags.into_iter().flatten().collect(),
            state: None,
        }
    }

    /// Adds the result of opening it.
    pub(super) fn add_state(&mut self, opened: &Opened) {
        let Kind::Ubifs(ubifs) = opened.kind() else { return };
        let info = ubifs.info();
        let space = opened.fs().stat_fs().unwrap_or_default();
        let block = u64::from(space.block_size);
        self.state = Some(UbifsState {
            clean: info.is_clean,
            rescued: info.is_rescued,
            buds: info.buds,
            replayed_nodes: info.replayed_nodes,
            replayed_bytes: info.journal_bytes,
            orphans: info.orphans_removed,
            bytes_total: space.blocks * block,
            bytes_free: space.blocks_free * block,
        });
    }
}

impl Jffs2Report {
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
