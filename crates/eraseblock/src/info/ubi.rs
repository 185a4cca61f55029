//! A UBI device.

use super::UbifsFacts;
use crate::error::Result;
use crate::target::image::UbiImage;
use crate::target::peek::Content;
use crate::text;
use eraseblock_base::Peb;
use eraseblock_ubi::{
    Attachment, EndMarks, EraseCounters, FastmapStatus, PebCounts, PebState, VolumeInfo, VolumeMap,
};
use eraseblock_ubi_format::{VolumeFlags, VolumeKind};

/// A UBI device.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UbiInfo {
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
    /// Size of a page in bytes: the smallest unit that can be programmed.
    pub min_io: u32,
    /// The unit of UBI headers in bytes.
    pub header_unit: u32,
    /// Where in an eraseblock the volume identifier header is.
    pub vid_hdr_offset: u32,
    /// Where in an eraseblock the data begins.
    pub data_offset: u32,
    /// Size of a logical eraseblock in bytes.
    pub leb_size: u32,
    /// Number of the image.
    pub image_seq: u32,
    /// The highest sequence number.
    pub max_sqnum: u64,
    /// Eraseblocks by state.
    pub blocks: PebCounts,
    /// The erase counters.
    pub erase_counters: EraseCounters,
    /// LEBs for new volumes, if they can be counted.
    pub available_lebs: Option<u32>,
    /// Whether attaching can use a fastmap, and why not.
    pub fastmap: FastmapStatus,
    /// Marks of the end of the image, as OpenWrt makes them.
    pub end_marks: Option<EndMarks>,
    /// Why Linux would not attach it.
    pub linux_refuses: Option<String>,
    /// Its volumes, by number.
    pub volumes: Vec<VolumeFacts>,
    /// The use of every eraseblock.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub map: Vec<BlockUse>,
}

/// A volume of a UBI device.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct VolumeFacts {
    /// Its number.
    pub id: u32,
    /// Its name; bytes that are no text are escaped.
    pub name: String,
    /// `static` or `dynamic`.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: &'static str,
    /// Its size in LEBs.
    pub reserved_lebs: u32,
    /// LEBs that are mapped.
    pub mapped_lebs: u32,
    /// Bytes of a LEB that hold data.
    pub usable_leb_size: u32,
    /// The usable size of a LEB is a multiple of this.
    pub alignment: u32,
    /// Bytes it can hold.
    pub size: u64,
    /// Bytes of data: of a static volume its length, of a dynamic one its mapped LEBs.
    pub used: u64,
    /// Flags that are set.
    pub flags: Vec<&'static str>,
    /// Whether data of a static volume is missing or damaged.
    pub corrupted: bool,
    /// Whether an update was cut short.
    pub update_unfinished: bool,
    /// What it begins with.
    pub content: String,
    /// The UBIFS in it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub ubifs: Option<UbifsFacts>,
}

/// What an eraseblock holds. Of several that share one place in a picture, the greatest matters most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BlockUse {
    /// Erased, with an erase counter or entirely.
    Free,
    /// A block of the volume with this place in the list.
    Volume(u8),
    /// The volume table.
    Layout,
    /// A fastmap.
    Fastmap,
    /// Waiting for erasure, or outdated.
    Stale,
    /// Readable only in part.
    Damaged,
    /// Marked bad.
    Bad,
}

impl UbiInfo {
    /// Everything but the volumes.
    pub(super) fn of(image: &UbiImage) -> Result<Self> {
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

/// The use of each eraseblock.
fn map_of(found: &Attachment) -> Vec<BlockUse> {
    let cell = |peb: u32| match found.peb(Peb::new(peb)).map(|info| info.state) {
        Some(PebState::Used) => BlockUse::Layout,
        Some(PebState::Erase | PebState::Foreign | PebState::Alien) => BlockUse::Stale,
        Some(PebState::Corrupted | PebState::Unreadable) => BlockUse::Damaged,
        Some(PebState::Bad) => BlockUse::Bad,
        Some(PebState::Fastmap) => BlockUse::Fastmap,
        Some(PebState::Free) | None => BlockUse::Free,
    };
    let mut cells: Vec<BlockUse> = (0..found.peb_count).map(cell).collect();
    for (place, info) in found.volumes.iter().enumerate() {
        let place = u8::try_from(place).unwrap_or(u8::MAX);
        for (_, peb) in found.map(info.id).into_iter().flat_map(VolumeMap::iter) {
            if let Some(cell) = cells.get_mut(peb.index()) {
                *cell = BlockUse::Volume(place);
            }
        }
    }
    cells
}

impl VolumeFacts {
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
