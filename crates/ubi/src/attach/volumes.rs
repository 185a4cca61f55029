//! Derives volumes from records and LEBs, checks them and counts eraseblocks (spec: ubi 11).

use super::collect::{Collected, Order};
use super::report::Report;
use super::resolve::ResolvedVolume;
use super::scan::Scanner;
use super::table::Table;
use super::{AttachOptions, MAX_IMAGE_LEBS, VolumeInfo};
use crate::codes;
use crate::map::VolumeMap;
use eraseblock_base::crc::crc32;
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_ubi_format::constants::{FIRST_INTERNAL_VOLUME, LAYOUT_LEBS};
use eraseblock_ubi_format::{VolumeFlags, VolumeKind, VolumeName, VolumeRecord};
use std::collections::BTreeMap;

/// An attach in progress, after the scan.
pub(super) struct Stage<'a> {
    pub(super) scanner: Scanner<'a>,
    pub(super) options: AttachOptions,
    pub(super) report: Report,
    pub(super) collected: Collected,
    pub(super) maps: BTreeMap<VolumeId, ResolvedVolume>,
}

/// Creates the volumes of the table, and if the table was lost also those of the LEBs.
pub(super) fn build(stage: &mut Stage<'_>, table: Table) -> Vec<VolumeInfo> {
    let slots = stage.scanner.layout.volume_slots();
    let found = u32::try_from(stage.maps.len()).unwrap_or(u32::MAX);
    if found > slots + 1 {
        let message = format!("LEBs of {found} volumes, expected at most {}", slots + 1);
        stage.report.refuse_whole("too-many-volumes", message);
    }
    let mut volumes = Vec::new();
    let without_record: Vec<VolumeId> = stage
        .maps
        .keys()
        .filter(|id| is_user(**id) && !table.records.contains_key(id))
        .copied()
        .collect();
    for (id, record) in table.records {
        let found = stage.maps.get(&id).cloned();
        volumes.push(build_volume(stage, id, record, found));
    }
    for id in without_record {
        if id.get() > slots {
            let message = format!("LEBs of volume {id}, but the table has {slots} records");
            stage.report.refuse(Location::Volume(id), "volume-id-too-large", message);
        }
        if table.is_complete {
            drop_removed(stage, id);
            continue;
        }
        drop_surplus(stage, id, MAX_IMAGE_LEBS);
        if let Some(found) = stage.maps.get(&id).cloned() {
            volumes.push(synthesise(id, &found, stage.scanner.layout.leb_size()));
        }
    }
    volumes.sort_by_key(|volume| volume.id);
    volumes
}

fn is_user(id: VolumeId) -> bool {
    id.get() < FIRST_INTERNAL_VOLUME
}

/// Drops LEBs of a volume without a record: its removal was interrupted (spec: ubi 11.2).
fn drop_removed(stage: &mut Stage<'_>, id: VolumeId) {
    let Some(found) = stage.maps.remove(&id) else { return };
    let message = format!("{} LEBs of a removed volume are to be erased", found.map.len());
    stage.report.findings.note(Location::Volume(id), codes::VOLUME_WITHOUT_RECORD, message);
    for (_, peb) in found.map.iter() {
        stage.collected.discard(peb, Order::Last);
    }
}

fn build_volume(
    stage: &mut Stage<'_>,
    id: VolumeId,
    record: VolumeRecord,
    found: Option<ResolvedVolume>,
) -> VolumeInfo {
    let mut kind = record.kind;
    if let Some(found) = &found {
        kind = found.traits.kind();
        cross_check(stage, id, &record, found);
    }
    // LEBs removed by the cross-check must not be counted.
    let found = found.and_then(|_| stage.maps.get(&id).cloned());
    let leb_size = stage.scanner.layout.leb_size();
    let record = VolumeRecord { kind, ..record };
    let mut info = from_record(id, &record, leb_size);
    let Some(found) = found else { return info };
    info.mapped_lebs = u32::try_from(found.map.len()).unwrap_or(u32::MAX);
    info.highest_leb = found.map.highest().map(Leb::get);
    if kind == VolumeKind::Static {
        fill_static(stage, &mut info, &found);
    }
    info
}

/// Spec: ubi 11.1. A static volume without LEBs is an empty one.
fn from_record(id: VolumeId, record: &VolumeRecord, leb_size: u32) -> VolumeInfo {
    let usable = leb_size.saturating_sub(record.data_pad);
    let is_dynamic = record.kind == VolumeKind::Dynamic;
    let used_lebs = if is_dynamic { record.reserved_lebs } else { 0 };
    VolumeInfo {
        id,
        name: record.name.clone(),
        kind: record.kind,
        reserved_lebs: record.reserved_lebs,
        alignment: record.alignment,
        data_pad: record.data_pad,
        usable_leb_size: usable,
        upd_marker: record.upd_marker,
        flags: record.flags,
        used_lebs,
        last_leb_bytes: if is_dynamic { usable } else { 0 },
        used_bytes: u64::from(used_lebs) * u64::from(usable),
        mapped_lebs: 0,
        highest_leb: None,
        corrupted: false,
        synthesised: false,
    }
}

fn fill_static(stage: &mut Stage<'_>, info: &mut VolumeInfo, found: &ResolvedVolume) {
    let used = found.traits.used_lebs.min(info.reserved_lebs);
    let has_last = info.highest_leb.is_some_and(|highest| highest.checked_add(1) == Some(used));
    info.used_lebs = used;
    info.last_leb_bytes = if has_last { found.last_data_size } else { info.usable_leb_size };
    info.last_leb_bytes = info.last_leb_bytes.min(info.usable_leb_size);
    info.used_bytes = u64::from(used.saturating_sub(1)) * u64::from(info.usable_leb_size)
        + u64::from(info.last_leb_bytes);
    if info.mapped_lebs != found.traits.used_lebs {
        info.corrupted = true;
        let message = format!(
            "{} of {} LEBs of the static volume are there",
            info.mapped_lebs, found.traits.used_lebs
        );
        let at = Location::Volume(info.id);
        stage.report.findings.error(at, codes::STATIC_VOLUME_INCOMPLETE, message);
    }
}

/// Spec: ubi 11.2. LEBs beyond the size of the volume are set aside.
fn cross_check(stage: &mut Stage<'_>, id: VolumeId, record: &VolumeRecord, found: &ResolvedVolume) {
    let at = Location::Volume(id);
    let kind = found.traits.kind();
    if kind != record.kind {
        let message = format!("record says {}, the LEBs say {kind}", record.kind);
        stage.report.refuse(at, "volume-differs", message);
    }
    if found.traits.data_pad != record.data_pad {
        let (found, expected) = (found.traits.data_pad, record.data_pad);
        let message = format!("data pad of the LEBs is {found}, the record says {expected}");
        stage.report.refuse(at, "volume-differs", message);
    }
    if found.traits.used_lebs > record.reserved_lebs {
        let (found, limit) = (found.traits.used_lebs, record.reserved_lebs);
        let message = format!("LEBs say that {found} are in use, expected at most {limit}");
        stage.report.refuse(at, "volume-larger-than-record", message);
    }
    drop_surplus(stage, id, record.reserved_lebs);
}

fn drop_surplus(stage: &mut Stage<'_>, id: VolumeId, limit: u32) {
    let Some(volume) = stage.maps.get_mut(&id) else { return };
    for (leb, peb) in volume.map.split_off(Leb::new(limit)) {
        let message = format!("LEB {leb} of volume {id}, which has only {limit}: ignored");
        stage.report.refuse(Location::peb(peb), "volume-larger-than-record", message);
        stage.collected.ignore(peb);
    }
}

/// Returns a volume derived from its LEBs only, named by its number.
fn synthesise(id: VolumeId, found: &ResolvedVolume, leb_size: u32) -> VolumeInfo {
    let count = found.map.highest().map_or(0, |highest| highest.get().saturating_add(1));
    let name = VolumeName::new(format!("volume-{id}")).expect("short and without NUL");
    let kind = found.traits.kind();
    let record = VolumeRecord {
        reserved_lebs: count.max(found.traits.used_lebs).min(MAX_IMAGE_LEBS),
        alignment: 1,
        data_pad: found.traits.data_pad,
        kind,
        upd_marker: false,
        name,
        flags: VolumeFlags::default(),
    };
    let mut info = from_record(id, &record, leb_size);
    info.mapped_lebs = u32::try_from(found.map.len()).unwrap_or(u32::MAX);
    info.highest_leb = found.map.highest().map(Leb::get);
    info.synthesised = true;
    if kind == VolumeKind::Static {
        info.used_lebs = record.reserved_lebs;
        info.last_leb_bytes = found.last_data_size.min(info.usable_leb_size);
        info.used_bytes = u64::from(info.used_lebs.saturating_sub(1))
            * u64::from(info.usable_leb_size)
            + u64::from(info.last_leb_bytes);
        info.corrupted = info.mapped_lebs != info.used_lebs;
    }
    info
}

/// Checks the checksum of every LEB of the static volumes (spec: ubi 17, check).
pub(super) fn verify_static(stage: &mut Stage<'_>, volumes: &mut [VolumeInfo]) {
    let mut data = vec![0; stage.scanner.layout.leb_size() as usize];
    for volume in volumes.iter_mut().filter(|volume| volume.kind == VolumeKind::Static) {
        let Some(found) = stage.maps.get(&volume.id) else { continue };
        for (leb, peb) in found.map.iter() {
            let at = Location::VolumeLeb(volume.id, leb, 0);
            if let Err(message) = verify_leb(&stage.scanner, peb, &mut data) {
                volume.corrupted = true;
                stage.report.findings.error(at, codes::STATIC_DATA_CORRUPT, message);
            }
        }
    }
}

fn verify_leb(scanner: &Scanner<'_>, peb: Peb, data: &mut [u8]) -> Result<(), String> {
    let state = scanner.read_vid(peb).map_err(|error| error.to_string())?;
    let Some(header) = state.usable() else {
        return Err("the VID header cannot be read any more".to_owned());
    };
    let data = data.get_mut(..header.data_size as usize).unwrap_or_default();
    let offset = scanner.layout.data_offset();
    scanner.read(peb, offset, data).map_err(|error| error.to_string())?;
    let (stored, computed) = (header.data_crc, crc32(data));
    if stored == computed {
        return Ok(());
    }
    Err(format!("data CRC mismatch: stored {stored:#010x}, computed {computed:#010x}"))
}

/// Blocks that Linux reserves for moving and for atomic changes.
const MANDATORY_RESERVE: u32 = 2;

/// Spec: ubi 11.3, as counted by a Linux without fastmap.
pub(super) fn account(stage: &mut Stage<'_>, volumes: &[VolumeInfo]) -> Option<u32> {
    if !stage.options.whole_device {
        return None;
    }
    let counts = stage.collected.counts();
    let total = u32::try_from(stage.collected.pebs.len()).expect("PEB numbers are 32 bits");
    let good = total - counts.bad;
    let reserved: u64 = volumes.iter().map(|volume| u64::from(volume.reserved_lebs)).sum();
    let needed = reserved + u64::from(LAYOUT_LEBS + MANDATORY_RESERVE);
    let there = u64::from(good.saturating_sub(counts.corrupted));
    let Some(left) = there.checked_sub(needed) else {
        let message = format!("{there} usable eraseblocks, but volumes and reserves need {needed}");
        stage.report.refuse_whole("not-enough-pebs", message);
        return None;
    };
    let can_be_bad = stage.scanner.device.geometry().can_have_bad_blocks();
    let level = if can_be_bad { bad_block_limit(total).saturating_sub(counts.bad) } else { 0 };
    u32::try_from(left.saturating_sub(u64::from(level))).ok()
}

/// Returns the blocks reserved for bad-block handling on a chip of `total` blocks, at Linux's
/// default of 20 in 1024.
pub(crate) fn bad_block_limit(total: u32) -> u32 {
    const PER_1024: u64 = 20;
    let total = u64::from(total);
    let limit = total * PER_1024 / 1024;
    let rounded_up = limit + u64::from(limit * 1024 / PER_1024 < total);
    u32::try_from(rounded_up).expect("a fraction of a 32-bit number")
}

/// Returns the maps of all volumes, for the attachment.
pub(super) fn into_maps(maps: BTreeMap<VolumeId, ResolvedVolume>) -> BTreeMap<VolumeId, VolumeMap> {
    maps.into_iter().map(|(id, volume)| (id, volume.map)).collect()
}

#[cfg(test)]
mod tests {
    use super::bad_block_limit;

    #[test]
    fn limits_of_the_specification() {
        let limits = [64, 128, 256, 512, 1024, 2048, 4096, 8192].map(bad_block_limit);
        assert_eq!(limits, [2, 3, 5, 10, 20, 40, 80, 160]);
    }
}
