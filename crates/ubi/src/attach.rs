//! Attaches a UBI device by scanning all its eraseblocks (spec: ubi 9 to 12), read-only and with
//! salvage: where Linux refuses the device, a [`Finding`](eraseblock_base::Finding) of severity
//! error names the rule, and attaching continues with the most sensible interpretation.
//!
//! Instead of a scan, a fastmap may provide the result ([`AttachOptions::fastmap`]).
//!
//! The phases are `scan` (read the headers of every block), `collect` (sort the blocks into lists
//! and LEB candidates), `resolve` (one block for each LEB), `table` (the volume table) and
//! `volumes` (records and LEBs together).
//!
//! # Invariants
//! 1. Nothing is written to the device.
//! 2. An eraseblock belongs to one LEB at most, and a LEB has one eraseblock at most.
//! 3. The LEBs of a volume lie below its size in LEBs.
//! 4. The result depends only on the bytes of the device and the options; threads only read ahead.
//! 5. Memory is proportional to the number of eraseblocks: at most 48 bytes for each, and one LEB.

mod collect;
mod described;
mod fastmap;
mod padded;
mod report;
mod resolve;
mod scan;
mod table;
mod volumes;

use crate::codes;
use crate::error::UbiError;
use crate::map::VolumeMap;
use collect::Collected;
pub(crate) use collect::NewestCopy;
pub use described::{FastmapStatus, described_peb_count};
use eraseblock_base::{Findings, Peb, VolumeId};
use eraseblock_mtd::Mtd;
use eraseblock_ubi_format::{
    EraseCount, HeaderLayout, SqNum, VolumeFlags, VolumeKind, VolumeName, constants,
};
pub(crate) use fastmap::InUse;
pub use report::Refusal;
use report::Report;
use std::collections::BTreeMap;
pub(crate) use volumes::bad_block_limit;

/// Maximum number of LEBs of a volume in an image whose flash is not known: more than any chip has,
/// and few enough that a forged number cannot make a volume endless.
pub const MAX_IMAGE_LEBS: u32 = 1 << 20;

/// Options of attaching.
#[allow(clippy::struct_excessive_bools, reason = "switches, each independent of the others")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttachOptions {
    /// The device is a whole flash partition, not an image that may be smaller than its flash: the
    /// rules that count eraseblocks apply (spec: ubi 6.3, 11.3).
    pub whole_device: bool,
    /// Read all static volumes and check the checksum of each LEB, as Linux does at first open.
    pub verify_static: bool,
    /// Number of corrected bits in a codeword from which a read counts as having bit flips.
    pub bitflip_threshold: u16,
    /// Use a fastmap if there is one (spec: ubi 16.3). Its information about LEBs may be out of
    /// date until each is read, as [`UbiDevice`](crate::UbiDevice) does.
    pub fastmap: bool,
    /// Eraseblocks after an end mark count as erased (spec: ubi 4.1). Linux without OpenWrt's
    /// changes does not know the mark.
    pub end_marks: bool,
}

impl Default for AttachOptions {
    fn default() -> Self {
        Self {
            whole_device: false,
            verify_static: false,
            bitflip_threshold: 1,
            fastmap: false,
            end_marks: true,
        }
    }
}

/// The end marks of an image (spec: ubi 4.1).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EndMarks {
    /// The eraseblocks with a mark, ascending. Everything after the first is erased before use.
    pub pebs: Vec<Peb>,
    /// Eraseblocks after the first mark, with UBI headers but without a mark: remains of earlier
    /// content of the flash.
    pub hidden: Vec<Peb>,
}

/// The state of an eraseblock after attaching.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum PebState {
    /// Erased and with an erase-counter header: ready for use.
    Free,
    /// Holds a LEB.
    Used,
    /// Holds nothing of value and must be erased before use.
    Erase,
    /// Has data that belongs to no LEB because the header is damaged; Linux leaves it untouched.
    Corrupted,
    /// Belongs to an unknown internal volume that must be preserved.
    Alien,
    /// Marked bad.
    Bad,
    /// Holds a fastmap: erased later, unless it is in use.
    Fastmap,
    /// Belongs to another image or breaks a rule, and is ignored.
    Foreign,
    /// The device failed to read it.
    Unreadable,
}

/// Information about an eraseblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PebInfo {
    /// Its state.
    pub state: PebState,
    /// Whether it must soon be moved to another block (bit flips, or a damaged erase-counter
    /// header).
    pub scrub: bool,
    /// The erase counter, `None` if it was lost.
    pub erase_count: Option<EraseCount>,
}

/// The number of eraseblocks in each state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PebCounts {
    /// Ready for use.
    pub free: u32,
    /// Holding a LEB.
    pub used: u32,
    /// Waiting to be erased, including completely empty ones.
    pub erase: u32,
    /// Among those waiting to be erased: without even an erase-counter header, all 0xFF in its
    /// place.
    pub empty: u32,
    /// Damaged and left untouched.
    pub corrupted: u32,
    /// Of unknown internal volumes.
    pub alien: u32,
    /// Marked bad.
    pub bad: u32,
    /// Of fastmaps.
    pub fastmap: u32,
    /// Of other images, or ignored because they break a rule.
    pub foreign: u32,
    /// Failed to read.
    pub unreadable: u32,
}

/// Statistics of the erase counters that could be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EraseCounters {
    /// The number of known counters.
    pub known: u32,
    /// The smallest, 0 if none is known.
    pub min: u32,
    /// The largest, 0 if none is known.
    pub max: u32,
    /// The mean, rounded down; blocks with an unknown counter get this one.
    pub mean: u32,
    /// Their sum.
    pub sum: u64,
}

/// A volume as described by its record and its LEBs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct VolumeInfo {
    /// Its number.
    pub id: VolumeId,
    /// Its name; `volume-N` if the volume table was lost.
    pub name: VolumeName,
    /// Its kind.
    pub kind: VolumeKind,
    /// Its size in LEBs.
    pub reserved_lebs: u32,
    /// Alignment of the usable LEB size.
    pub alignment: u32,
    /// Unused bytes at the end of each LEB.
    pub data_pad: u32,
    /// Usable bytes of a LEB: LEB size less `data_pad`.
    pub usable_leb_size: u32,
    /// Whether an update was started and not finished: Linux refuses to read the volume.
    pub upd_marker: bool,
    /// Its flags.
    pub flags: VolumeFlags,
    /// Number of LEBs occupied by data: for a dynamic volume all, for a static one those stated in
    /// its headers.
    pub used_lebs: u32,
    /// Bytes in the last used LEB.
    pub last_leb_bytes: u32,
    /// Bytes of data. Linux shows 0 for a corrupted static volume; here it is the expected size.
    pub used_bytes: u64,
    /// LEBs with an eraseblock.
    pub mapped_lebs: u32,
    /// The highest LEB with an eraseblock.
    pub highest_leb: Option<u32>,
    /// Whether a static volume has missing LEBs, or wrong checksums if those were verified.
    pub corrupted: bool,
    /// Whether there was no record, so that everything is derived from the headers of the LEBs.
    pub synthesised: bool,
}

/// The result of attaching.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct Attachment {
    /// Offsets and sizes.
    pub layout: HeaderLayout,
    /// Eraseblocks of the device.
    pub peb_count: u32,
    /// Number of the image, 0 if all headers have 0.
    pub image_seq: u32,
    /// The largest sequence number found.
    pub max_sqnum: SqNum,
    /// The number of eraseblocks in each state.
    pub counts: PebCounts,
    /// Statistics of the erase counters.
    pub erase_counters: EraseCounters,
    /// The user volumes by ascending id.
    pub volumes: Vec<VolumeInfo>,
    /// Whether Linux would find the device empty and format it.
    pub is_empty: bool,
    /// Whether Linux would use the device read-only.
    pub linux_read_only: bool,
    /// Why Linux would refuse the device; the first of possibly several reasons.
    pub linux_refuses: Option<Refusal>,
    /// LEBs available for new volumes as counted by Linux without fastmap, if the device is a whole
    /// one and has enough.
    pub available_lebs: Option<u32>,
    /// All findings, in the order in which they were found.
    pub findings: Findings,
    /// The end marks, if there are any and the scan heeded them.
    pub end_marks: Option<EndMarks>,
    pub(crate) pebs: Vec<PebInfo>,
    pub(crate) maps: BTreeMap<VolumeId, VolumeMap>,
    pub(crate) erase_order: Vec<Peb>,
    /// No sequence number in use is higher, including those in headers that cannot be read now.
    pub(crate) highest_sqnum: SqNum,
    /// Whether both copies of the volume table are good and identical.
    pub(crate) tables_agree: bool,
    /// The newest copy of a LEB that had a rival. It may be a torn write that reads correctly once:
    /// a writer writes it once more, a reader does not read it from the flash again.
    pub(crate) newest_copy: Option<NewestCopy>,
    /// The fastmap from which everything was taken.
    pub(crate) fastmap: Option<InUse>,
    /// Super blocks of other fastmaps, the oldest first.
    pub(crate) anchors: Vec<Peb>,
}

impl Attachment {
    /// Returns the information about an eraseblock, or `None` beyond the device.
    pub fn peb(&self, peb: Peb) -> Option<PebInfo> {
        self.pebs.get(peb.index()).copied()
    }

    /// Returns the volume of this number.
    pub fn volume(&self, id: VolumeId) -> Option<&VolumeInfo> {
        self.volumes.iter().find(|volume| volume.id == id)
    }

    /// Returns the volume of this name.
    pub fn volume_named(&self, name: &[u8]) -> Option<&VolumeInfo> {
        self.volumes.iter().find(|volume| volume.name.as_bytes() == name)
    }

    /// Returns the eraseblocks of the LEBs of a volume, internal ones included.
    pub fn map(&self, id: VolumeId) -> Option<&VolumeMap> {
        self.maps.get(&id)
    }

    /// Returns whether a fastmap was used instead of a scan.
    pub fn is_by_fastmap(&self) -> bool {
        self.fastmap.is_some()
    }

    /// Returns the blocks to be erased, the most urgent first (spec: ubi 9.1, 11.4).
    pub fn erase_order(&self) -> &[Peb] {
        &self.erase_order
    }
}

/// Attaches the device with headers at the offsets of `layout`.
///
/// Damage never makes this fail: see [`Attachment::findings`] and [`Attachment::linux_refuses`].
pub fn attach(
    device: &dyn Mtd,
    layout: &HeaderLayout,
    options: &AttachOptions,
) -> Result<Attachment, UbiError> {
    let found = device.geometry().peb_size();
    if found != layout.peb_size() {
        let expected = layout.peb_size();
        return Err(UbiError::Geometry { field: "eraseblock size", found, expected });
    }
    let scanner = scan::Scanner { device, layout: *layout, threshold: options.bitflip_threshold };
    let mut report = Report::default();
    let mut readings = Vec::new();
    if options.fastmap {
        match fastmap::attempt(&scanner) {
            fastmap::Attempt::Absent(first) => readings = first,
            fastmap::Attempt::Unusable(why) => {
                report.findings.note(
                    eraseblock_base::Location::Whole,
                    codes::FASTMAP_UNUSABLE,
                    why,
                );
            }
            fastmap::Attempt::Usable(found) => {
                let (collected, in_use) = *found;
                let fresh = Report::default();
                let attachment = settle(&scanner, *options, fresh, collected, Some(in_use));
                let Some(refusal) = &attachment.linux_refuses else { return Ok(attachment) };
                let why = format!("the fastmap does not fit: {}", refusal.message);
                report.findings.note(refusal.at, codes::FASTMAP_UNUSABLE, why);
            }
        }
    }
    let collected = collect::collect(&scanner, readings, options.end_marks, &mut report);
    Ok(settle(&scanner, *options, report, collected, None))
}

/// Does everything after the headers have been read, or taken from a fastmap.
fn settle(
    scanner: &scan::Scanner<'_>,
    options: AttachOptions,
    mut report: Report,
    mut collected: Collected,
    fastmap: Option<InUse>,
) -> Attachment {
    let maps = resolve::resolve(scanner, &mut collected, &mut report);
    collected.finish_counters();
    let is_empty = check_empty(&collected, &mut report);
    let mut stage = volumes::Stage { scanner: *scanner, options, report, collected, maps };
    let table = table::read(&mut stage, is_empty);
    let tables_agree = table.copies_agree;
    let mut volumes = volumes::build(&mut stage, table);
    if options.verify_static {
        volumes::verify_static(&mut stage, &mut volumes);
    }
    let available_lebs = volumes::account(&mut stage, &volumes);
    Attachment { tables_agree, fastmap, ..assemble(stage, volumes, is_empty, available_lebs) }
}

/// Spec: ubi 9.4, steps 2 and 3.
fn check_empty(collected: &Collected, report: &mut Report) -> bool {
    let (counts, maybe_bad) = (collected.counts(), collected.maybe_bad);
    let peb_count = u32::try_from(collected.pebs.len()).expect("PEB numbers are 32 bits");
    let usable = peb_count.saturating_sub(counts.bad + counts.alien);
    let limit = if usable / 20 == 0 { 8 } else { usable / 20 };
    if counts.corrupted >= limit {
        let corrupted = counts.corrupted;
        report.refuse_whole(
            codes::TOO_MANY_CORRUPTED_PEBS,
            format!("{corrupted} of {usable} eraseblocks are corrupted, expected below {limit}"),
        );
    }
    if counts.empty + maybe_bad != usable {
        return false;
    }
    if maybe_bad > 2 {
        report.refuse_whole(
            "garbage-device",
            format!("{maybe_bad} eraseblocks cannot be read and all others are empty"),
        );
    }
    maybe_bad <= 2
}

fn assemble(
    stage: volumes::Stage<'_>,
    volumes: Vec<VolumeInfo>,
    is_empty: bool,
    available_lebs: Option<u32>,
) -> Attachment {
    let volumes::Stage { scanner, mut report, mut collected, maps, .. } = stage;
    let counts = collected.counts();
    let layout = scanner.layout;
    collected.report_garbage(&mut report);
    collected.report_end_marks(&mut report);
    if is_empty {
        report.findings.note(
            eraseblock_base::Location::Whole,
            "empty-device",
            "no UBI headers at all: Linux formats such a device when it attaches it",
        );
    }
    let (findings, linux_refuses) = report.into_parts();
    Attachment {
        layout,
        peb_count: scanner.device.geometry().peb_count(),
        image_seq: collected.image_seq,
        max_sqnum: collected.max_sqnum,
        counts,
        erase_counters: collected.erase_counters,
        volumes,
        is_empty,
        linux_read_only: collected.read_only || layout.headers_share_a_unit(),
        linux_refuses,
        available_lebs,
        findings,
        erase_order: collected.erase_order(),
        highest_sqnum: collected.highest_sqnum(),
        tables_agree: false,
        newest_copy: collected.newest_copy.take(),
        fastmap: None,
        anchors: collected.anchors(),
        end_marks: collected.end_marks.take(),
        pebs: collected.into_pebs(),
        maps: volumes::into_maps(maps),
    }
}

/// Returns whether the volume holds a fastmap.
fn is_fastmap(volume: VolumeId) -> bool {
    volume == constants::FASTMAP_ANCHOR_VOLUME || volume == constants::FASTMAP_DATA_VOLUME
}
