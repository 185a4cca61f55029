//! A UBIFS.

use crate::target::filesystem::{Kind, Opened};
use crate::target::image::BareUbifs;
use crate::text;
use eraseblock_ubifs_format::constants::sb_flags;
use eraseblock_ubifs_format::node::Superblock;

/// A bare UBIFS volume.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BareUbifsFacts {
    /// The file.
    pub path: String,
    /// Its length in bytes.
    pub file_size: u64,
    /// Size of a logical eraseblock in bytes.
    pub leb_size: u32,
    /// Size of a page in bytes: the smallest unit that can be programmed.
    pub min_io: u32,
    /// The file system, if its superblock can be read.
    #[cfg_attr(feature = "serde", serde(rename = "ubifs"))]
    pub facts: Option<UbifsFacts>,
}

/// A UBIFS file system.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UbifsFacts {
    /// Version of the format.
    pub format_version: u32,
    /// Version of the format that is enough to read it.
    pub ro_compat_version: u32,
    /// Its UUID.
    pub uuid: String,
    /// The compressor of new data.
    pub compressor: &'static str,
    /// The hash of names in keys.
    pub key_hash: String,
    /// Size of a logical eraseblock in bytes.
    pub leb_size: u32,
    /// Size of a page in bytes: the smallest unit that can be programmed.
    pub min_io: u32,
    /// LEBs that it has.
    pub lebs: u32,
    /// LEBs to which it can grow.
    pub max_lebs: u32,
    /// LEBs of the log.
    pub log_lebs: u32,
    /// LEBs of the LPT.
    pub lpt_lebs: u32,
    /// LEBs of the list of orphans.
    pub orphan_lebs: u32,
    /// Branches of an index node.
    pub fanout: u32,
    /// Largest size of the journal in bytes.
    pub journal_bytes: u64,
    /// Bytes that are reserved for root.
    pub reserved_bytes: u64,
    /// Flags that are set.
    pub flags: Vec<&'static str>,
    /// The result of opening it, if it can be opened.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub state: Option<UbifsState>,
}

/// The result of opening the file system.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UbifsState {
    /// It was unmounted cleanly.
    pub clean: bool,
    /// It has no usable index and was put together from all nodes.
    pub rescued: bool,
    /// Buds of the journal.
    pub buds: u64,
    /// Nodes of the journal that were applied.
    pub replayed_nodes: u64,
    /// Bytes of those nodes.
    pub replayed_bytes: u64,
    /// Deleted files that were still open.
    pub orphans: u64,
    /// Bytes that files can take.
    pub bytes_total: u64,
    /// Bytes of these that are free.
    pub bytes_free: u64,
}

impl BareUbifsFacts {
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
