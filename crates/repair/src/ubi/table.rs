//! The volume table: its second copy, and a new one from what is left of the old ones and from the
//! LEBs.

use super::work::Work;
use crate::error::RepairError;
use crate::plan::{Action, Level};
use eraseblock_base::{Finding, Leb, Location, Peb, Severity, VolumeId};
use eraseblock_mtd::LebDevice;
use eraseblock_ubi::attach::MAX_IMAGE_LEBS;
use eraseblock_ubi::{Attachment, PebState, Ubi, VolumeInfo};
use eraseblock_ubi_format::constants::{LAYOUT_LEBS, LAYOUT_VOLUME, RECORD_SIZE};
use eraseblock_ubi_format::decode::{RecordRules, decode_record};
use eraseblock_ubi_format::table::{TableVerdict, encode_table, read_table};
use eraseblock_ubi_format::{
    Compat, SqNum, VidHeader, VolumeFlags, VolumeKind, VolumeName, VolumeRecord,
};
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::decode::{self as ubifs, Limits};
use eraseblock_ubifs_format::raw::SuperblockNode;
use eraseblock_ubifs_format::verify::{self, VolumeShape};
use std::collections::{BTreeMap, BTreeSet};

type Records = BTreeMap<VolumeId, VolumeRecord>;

/// Makes both copies of the table good and equal.
pub(super) fn repair(work: &mut Work) -> Result<(), RepairError> {
    let attachment = work.attach()?;
    let find = |codes: &[&str]| {
        let problems = attachment.findings.iter().filter(|one| one.severity > Severity::Note);
        problems.into_iter().find(|one| codes.contains(&one.code.name())).cloned()
    };
    if let Some(finding) = find(&["no-layout-volume", "volume-table-unusable"]) {
        return rebuild(work, &attachment, &finding);
    }
    if let Some(finding) = find(&["volume-differs", "volume-larger-than-record"]) {
        return correct(work, &attachment, &finding);
    }
    if let Some(finding) = find(&["table-copy-lost", "table-copy-differs"]) {
        let records = copies(work, &attachment)?.into_iter().flatten().find(|copy| copy.is_good);
        let records = records.map(|copy| copy.records).unwrap_or_default();
        let why = format!("{}: both are written again from it", finding.message);
        let at = Location::Volume(LAYOUT_VOLUME);
        let code = finding.code.name();
        work.plan.push(Action::new(Level::Safe, code, "", at, "remake", why));
        return write(work, &attachment, &records);
    }
    Ok(())
}

/// A copy of the table.
struct Copy {
    is_good: bool,
    /// The records that can be used.
    records: Records,
    /// The slots about which it says nothing.
    damaged: BTreeSet<u32>,
}

fn copies(work: &Work, attachment: &Attachment) -> Result<Vec<Option<Copy>>, RepairError> {
    (0..LAYOUT_LEBS)
        .map(|leb| {
            let peb = attachment.map(LAYOUT_VOLUME).and_then(|map| map.get(Leb::new(leb)));
            peb.map(|peb| copy(work, peb.get())).transpose()
        })
        .collect()
}

fn copy(work: &Work, peb: u32) -> Result<Copy, RepairError> {
    let block = work.block(peb)?;
    let bytes = &block[work.layout.data_offset() as usize..];
    let (slots, rules) = (work.layout.volume_slots(), rules(work));
    let at = |offset| Location::Peb(Peb::new(peb), offset);
    let reading = read_table(bytes, slots, &rules, at);
    let is_damaged = |slot: &u32| {
        let record = bytes.get((slot * RECORD_SIZE) as usize..).unwrap_or_default();
        decode_record(record, &rules, at(0)).is_err()
    };
    Ok(Copy {
        is_good: reading.verdict == TableVerdict::Good,
        records: reading.records.into_iter().collect(),
        damaged: (0..slots).filter(is_damaged).collect(),
    })
}

fn rules(work: &Work) -> RecordRules {
    let layout = &work.layout;
    let good_pebs = if work.options.attach.whole_device { work.end() } else { MAX_IMAGE_LEBS };
    RecordRules { leb_size: layout.leb_size(), min_io: layout.min_io(), good_pebs }
}

/// Makes the table from the records that are left and, for volumes without one, from their LEBs.
fn rebuild(work: &mut Work, attachment: &Attachment, finding: &Finding) -> Result<(), RepairError> {
    let copies = copies(work, attachment)?;
    let unknown = unknown_slots(work, &copies);
    let old = superseded(work, attachment, &unknown)?;
    let ubi = Ubi::attach(work.flash()?, &work.layout, &work.options.attach)?;
    let mut records = Records::new();
    let mut guessed = Vec::new();
    for info in &attachment.volumes {
        if !info.synthesised {
            records.insert(info.id, record(info));
        } else if let Some(record) = old.get(&info.id) {
            let reserved_lebs = record.reserved_lebs.max(info.reserved_lebs);
            records.insert(info.id, VolumeRecord { reserved_lebs, ..record.clone() });
        } else {
            guessed.push(info.id);
            records.insert(info.id, from_content(&ubi, info));
        }
    }
    for (id, record) in old {
        records.entry(id).or_insert(record);
    }
    settle(&mut records);
    let level = if unknown.is_empty() { Level::Safe } else { Level::Rebuild };
    let source =
        if guessed.is_empty() { "from what is left of its copies" } else { "from the LEBs" };
    let why = format!("{}: made again {source}", finding.message);
    let at = Location::Volume(LAYOUT_VOLUME);
    let mut action = Action::new(level, finding.code.name(), "", at, "remake", why);
    for (id, record) in &records {
        let VolumeRecord { name, kind, reserved_lebs, .. } = record;
        action = action.shown_by(format!("volume {id}: {name}, {kind}, {reserved_lebs} LEBs"));
    }
    work.plan.push(action);
    for id in guessed {
        work.plan.push(new_record(id, &records[&id]));
    }
    write(work, attachment, &records)
}

/// Returns the action for a record that was derived from LEBs alone.
fn new_record(id: VolumeId, record: &VolumeRecord) -> Action {
    let VolumeRecord { name, kind, reserved_lebs, .. } = record;
    let why = format!("no record is left: {kind}, {reserved_lebs} LEBs, named `{name}`");
    let at = Location::Volume(id);
    Action::new(Level::Rebuild, "volume-without-record", "", at, "add", why)
}

/// Returns the slots of which no copy says whether there is a volume.
fn unknown_slots(work: &Work, copies: &[Option<Copy>]) -> BTreeSet<u32> {
    let mut unknown: BTreeSet<u32> = (0..work.layout.volume_slots()).collect();
    for copy in copies.iter().flatten() {
        unknown.retain(|slot| copy.damaged.contains(slot));
    }
    unknown
}

/// Returns the records of the newest good copy that was superseded, for these slots.
fn superseded(
    work: &Work,
    attachment: &Attachment,
    slots: &BTreeSet<u32>,
) -> Result<Records, RepairError> {
    let mut newest: Option<(SqNum, Records)> = None;
    if slots.is_empty() {
        return Ok(Records::new());
    }
    for peb in 0..attachment.peb_count {
        let state = attachment.peb(Peb::new(peb)).map(|info| info.state);
        if state != Some(PebState::Erase) {
            continue;
        }
        let header = work.vid(peb)?;
        let Some(header) = header.filter(|header| header.volume == LAYOUT_VOLUME) else {
            continue;
        };
        let copy = copy(work, peb)?;
        let is_newer = newest.as_ref().is_none_or(|(sqnum, _)| *sqnum < header.sqnum);
        if copy.is_good && is_newer {
            newest = Some((header.sqnum, copy.records));
        }
    }
    let mut records = newest.map(|(_, records)| records).unwrap_or_default();
    records.retain(|id, _| slots.contains(&id.get()));
    Ok(records)
}

fn record(info: &VolumeInfo) -> VolumeRecord {
    VolumeRecord {
        reserved_lebs: info.reserved_lebs.max(info.highest_leb.map_or(0, |highest| highest + 1)),
        alignment: info.alignment,
        data_pad: info.data_pad,
        kind: info.kind,
        upd_marker: info.upd_marker,
        name: info.name.clone(),
        flags: info.flags,
    }
}

/// Returns the record of a volume that has none: a UBIFS says how many LEBs it has at least.
fn from_content(ubi: &Ubi, info: &VolumeInfo) -> VolumeRecord {
    let record = record(info);
    let stated = if info.kind == VolumeKind::Dynamic { stated_lebs(ubi, info.id) } else { 0 };
    VolumeRecord { reserved_lebs: record.reserved_lebs.max(stated), ..record }
}

/// LEBs that a volume may get beyond those that its superblock states.
const MOST_MORE: u32 = 4096;

/// Returns how many LEBs a UBIFS needs according to its superblock; 0 without one. One that was never
/// mounted states those that are in use: how many its volume had is not known, only the least that a
/// mount accepts.
fn stated_lebs(ubi: &Ubi, id: VolumeId) -> u32 {
    let read = || {
        let volume = ubi.volume(id).ok()?;
        let mut bytes = vec![0; SuperblockNode::SIZE.min(volume.leb_size() as usize)];
        volume.read(Leb::new(0), 0, &mut bytes).ok()?;
        let (limits, at) = (Limits::unknown(volume.leb_size()), Location::leb(Leb::new(0)));
        let node = ubifs::expect(&bytes, NodeType::Superblock, &limits, at).ok()?;
        node.superblock().ok()
    };
    let Some(sb) = read() else { return 0 };
    let (leb_size, min_io) = (sb.leb_size, sb.min_io_size);
    let most = sb.max_leb_cnt.min(sb.leb_cnt.saturating_add(MOST_MORE)).min(MAX_IMAGE_LEBS);
    let is_accepted = |count: &u32| {
        let shape = VolumeShape { leb_size, min_io, leb_count: *count };
        verify::superblock(&sb.grown(*count), shape, Location::Whole).is_ok()
    };
    (sb.leb_cnt..=most).find(is_accepted).unwrap_or(sb.leb_cnt.min(MAX_IMAGE_LEBS))
}

/// Puts right what records say about each other: names differ, and one volume resizes itself at most.
fn settle(records: &mut Records) {
    let (mut names, mut resizes) = (BTreeSet::new(), false);
    for (id, record) in records.iter_mut() {
        if !names.insert(record.name.as_bytes().to_vec())
            && let Some(name) = VolumeName::new(format!("volume-{id}"))
        {
            names.insert(name.as_bytes().to_vec());
            record.name = name;
        }
        let flag = VolumeFlags::AUTORESIZE;
        if record.flags.contains(flag) && resizes {
            record.flags = VolumeFlags::from_bits(record.flags.bits() & !flag.bits());
        }
        resizes |= record.flags.contains(flag);
    }
}

/// Corrects the records that the LEBs contradict: the headers of the LEBs win for kind and pad, and no
/// volume is smaller than its LEBs.
fn correct(work: &mut Work, attachment: &Attachment, finding: &Finding) -> Result<(), RepairError> {
    let seen = seen(work, attachment)?;
    let ubi = Ubi::attach(work.flash()?, &work.layout, &work.options.attach)?;
    let mut records = Records::new();
    for info in &attachment.volumes {
        let mut record = from_content(&ubi, info);
        if let Some(header) = seen.get(&info.id) {
            let more = header.leb.get().saturating_add(1).max(header.used_lebs);
            let before = record.clone();
            record.reserved_lebs = record.reserved_lebs.max(more).min(MAX_IMAGE_LEBS);
            record.kind = header.kind;
            set_pad(work, &mut record, header.data_pad)?;
            say(work, info, &before, &record, finding);
        }
        records.insert(info.id, record);
    }
    write(work, attachment, &records)
}

fn set_pad(work: &Work, record: &mut VolumeRecord, pad: u32) -> Result<(), RepairError> {
    let leb_size = work.layout.leb_size();
    if leb_size % record.alignment.max(1) == pad && record.alignment > 0 {
        record.data_pad = pad;
        return Ok(());
    }
    if pad == 0 {
        (record.alignment, record.data_pad) = (1, 0);
        return Ok(());
    }
    let what =
        format!("a data pad of {pad} bytes, and nothing says which alignment that follows from");
    Err(RepairError::Unsupported { at: Location::Volume(LAYOUT_VOLUME), what })
}

fn say(
    work: &mut Work,
    info: &VolumeInfo,
    before: &VolumeRecord,
    after: &VolumeRecord,
    finding: &Finding,
) {
    let at = Location::Volume(info.id);
    let code = finding.code.name();
    let why = "the record is set to what the headers of the LEBs say";
    let action = || Action::new(Level::Drop, code, "", at, "set", why);
    let stored = info.reserved_lebs;
    if stored != after.reserved_lebs {
        work.plan.push(action().sets("reserved_pebs", stored, after.reserved_lebs));
    }
    if before.data_pad != after.data_pad {
        work.plan.push(action().sets("data_pad", before.data_pad, after.data_pad));
    }
    if finding.code == "volume-differs" && finding.at == at && before.data_pad == after.data_pad {
        let why = format!("{}: the record is set to that", finding.message);
        work.plan.push(Action { why, ..action() });
    }
}

/// Returns for each volume the header of its highest LEB, beyond its record or not.
fn seen(
    work: &Work,
    attachment: &Attachment,
) -> Result<BTreeMap<VolumeId, VidHeader>, RepairError> {
    let mut seen: BTreeMap<VolumeId, VidHeader> = BTreeMap::new();
    for peb in 0..attachment.peb_count {
        let state = attachment.peb(Peb::new(peb)).map(|info| info.state);
        if !matches!(state, Some(PebState::Used | PebState::Foreign)) {
            continue;
        }
        let Some(header) = work.vid(peb)? else { continue };
        if seen.get(&header.volume).is_none_or(|known| known.leb < header.leb) {
            seen.insert(header.volume, header);
        }
    }
    Ok(seen)
}

/// Writes both copies, each into the eraseblock that it has or into a spare one.
fn write(work: &mut Work, attachment: &Attachment, records: &Records) -> Result<(), RepairError> {
    let list: Vec<_> = records.iter().map(|(id, record)| (*id, record.clone())).collect();
    let mut bytes = encode_table(&work.layout, &list);
    let reading = read_table(&bytes, work.layout.volume_slots(), &rules(work), |_| Location::Whole);
    if let Some(problem) = reading.problems.first() {
        let what = format!("the new volume table would break a rule: {problem}");
        return Err(RepairError::Unsupported { at: Location::Volume(LAYOUT_VOLUME), what });
    }
    bytes.resize(work.layout.table_size() as usize, 0);
    let mut taken = BTreeSet::new();
    for leb in 0..LAYOUT_LEBS {
        let own = attachment.map(LAYOUT_VOLUME).and_then(|map| map.get(Leb::new(leb)));
        let peb = match own {
            Some(peb) => peb.get(),
            None => spare(work, attachment, &taken)?,
        };
        taken.insert(peb);
        let vid = VidHeader {
            kind: VolumeKind::Dynamic,
            copy_flag: false,
            compat: Compat::Reject,
            volume: LAYOUT_VOLUME,
            leb: Leb::new(leb),
            data_size: 0,
            used_lebs: 0,
            data_pad: 0,
            data_crc: 0,
            sqnum: work.next_sqnum(attachment),
        };
        let ec = work.ec(attachment, peb);
        let block = work.with_leb(&ec, &vid, &bytes);
        work.blocks.insert(peb, block);
    }
    Ok(())
}

/// Returns an eraseblock that holds nothing, or a new one at the end of the file.
fn spare(work: &Work, attachment: &Attachment, taken: &BTreeSet<u32>) -> Result<u32, RepairError> {
    let is = |peb: &u32, wanted: PebState| {
        let state = attachment.peb(Peb::new(*peb)).map(|info| info.state);
        state == Some(wanted) && !taken.contains(peb)
    };
    let all = || 0..attachment.peb_count;
    let found = all().find(|peb| is(peb, PebState::Free));
    if let Some(peb) = found {
        return Ok(peb);
    }
    for peb in all().filter(|peb| is(peb, PebState::Erase)) {
        // A block without headers may belong to something else.
        let is_ours = attachment.peb(Peb::new(peb)).is_some_and(|info| info.erase_count.is_some());
        if is_ours || work.block(peb)?.iter().all(|byte| *byte == 0xFF) {
            return Ok(peb);
        }
    }
    if work.options.can_grow {
        return Ok(work.end().max(taken.last().map_or(0, |last| last + 1)));
    }
    Err(RepairError::NoBlock)
}
