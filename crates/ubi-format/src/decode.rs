//! Bytes to checked types. Each function has a strict form, which accepts what Linux accepts. Some
//! also have a `salvage` form, which returns the usable part of a structure with a valid checksum
//! and illegal contents.

use crate::constants::{
    EC_MAGIC, END_MARK, HEADER_CRC_SPAN, HEADER_SIZE, MAX_ERASE_COUNT, MAX_NAME, MAX_VOLUMES,
    RECORD_CRC_SPAN, RECORD_SIZE, VERSION, VID_MAGIC,
};
use crate::error::{Expected, FormatError};
use crate::layout::HeaderLayout;
use crate::raw::{RawEcHeader, RawVidHeader, RawVolumeRecord};
use crate::types::{
    Compat, EcHeader, EraseCount, SqNum, VidHeader, VolumeFlags, VolumeKind, VolumeName,
    VolumeRecord, is_internal_volume,
};
use eraseblock_base::crc::crc32;
use eraseblock_base::raw::Raw;
use eraseblock_base::{Leb, Location, VolumeId};

const EC: &str = "EC header";
const VID: &str = "VID header";
const RECORD: &str = "volume record";
const SIGNED_MAX: u32 = 0x7FFF_FFFF;
const EMPTY_RECORD_CRC: u32 = 0xF116_C36B;

fn raw_part<T: Raw>(bytes: &[u8], what: &'static str, at: Location) -> Result<T, FormatError> {
    let short = FormatError::Short { at, what, found: bytes.len(), expected: T::SIZE };
    T::split(bytes).map(|(raw, _)| raw).ok_or(short)
}

fn check_header(
    bytes: &[u8],
    magic: (u32, u32),
    stored: u32,
    what: &'static str,
    at: Location,
) -> Result<(), FormatError> {
    let (found, expected) = magic;
    if found != expected {
        return Err(FormatError::Magic { at, what, found, expected });
    }
    check_crc(&bytes[..HEADER_CRC_SPAN], stored, what, at)
}

fn check_crc(
    covered: &[u8],
    stored: u32,
    what: &'static str,
    at: Location,
) -> Result<(), FormatError> {
    let computed = crc32(covered);
    if stored == computed { Ok(()) } else { Err(FormatError::Crc { at, what, stored, computed }) }
}

/// A rule about one field.
struct Rule {
    what: &'static str,
    at: Location,
}

impl Rule {
    fn check(
        &self,
        holds: bool,
        field: &'static str,
        found: impl Into<u64>,
        expected: Expected,
    ) -> Result<(), FormatError> {
        if holds {
            return Ok(());
        }
        Err(FormatError::Field {
            at: self.at,
            what: self.what,
            field,
            found: found.into(),
            expected,
        })
    }
}

/// Decodes an erase-counter header: magic, checksum, version and counter range (spec: ubi 4). The
/// offsets are only read; [`check_ec_offsets`] compares them with those of a device.
///
/// # Errors
///
/// Fails if the bytes are too short or one of these is wrong.
pub fn decode_ec(bytes: &[u8], at: Location) -> Result<EcHeader, FormatError> {
    let raw: RawEcHeader = raw_part(bytes, EC, at)?;
    check_header(bytes, (raw.magic.get(), EC_MAGIC), raw.hdr_crc.get(), EC, at)?;
    let rule = Rule { what: EC, at };
    rule.check(
        raw.version == VERSION,
        "version",
        raw.version,
        Expected::Number(u64::from(VERSION)),
    )?;
    let range = Expected::AtMost(u64::from(MAX_ERASE_COUNT));
    let Some(erase_count) = EraseCount::new(raw.ec.get()) else {
        return Err(FormatError::Field {
            at,
            what: EC,
            field: "erase counter",
            found: raw.ec.get(),
            expected: range,
        });
    };
    Ok(EcHeader {
        erase_count,
        vid_hdr_offset: raw.vid_hdr_offset.get(),
        data_offset: raw.data_offset.get(),
        image_seq: raw.image_seq.get(),
        end_mark: raw.padding1 == END_MARK,
    })
}

/// Checks that the header states the offsets of the device (spec: ubi 2).
///
/// # Errors
///
/// Fails if an offset differs.
pub fn check_ec_offsets(
    header: &EcHeader,
    layout: &HeaderLayout,
    at: Location,
) -> Result<(), FormatError> {
    let rule = Rule { what: EC, at };
    let (found, expected) = (header.vid_hdr_offset, layout.vid_hdr_offset());
    rule.check(found == expected, "VID header offset", found, Expected::Number(expected.into()))?;
    let (found, expected) = (header.data_offset, layout.data_offset());
    rule.check(found == expected, "data offset", found, Expected::Number(expected.into()))
}

/// Returns the usable part of an erase-counter header with a valid checksum and illegal contents:
/// counter and image number, if the counter is in range.
pub fn salvage_ec(bytes: &[u8]) -> Option<EcHeader> {
    let raw: RawEcHeader = raw_part(bytes, EC, Location::Whole).ok()?;
    Some(EcHeader {
        erase_count: EraseCount::new(raw.ec.get())?,
        vid_hdr_offset: raw.vid_hdr_offset.get(),
        data_offset: raw.data_offset.get(),
        image_seq: raw.image_seq.get(),
        end_mark: raw.padding1 == END_MARK,
    })
}

/// Decodes a volume identifier header and checks all content rules (spec: ubi 5).
///
/// # Errors
///
/// Fails if the bytes are too short, or if magic, checksum or a field is wrong.
pub fn decode_vid(
    bytes: &[u8],
    layout: &HeaderLayout,
    at: Location,
) -> Result<VidHeader, FormatError> {
    let raw: RawVidHeader = raw_part(bytes, VID, at)?;
    check_header(bytes, (raw.magic.get(), VID_MAGIC), raw.hdr_crc.get(), VID, at)?;
    let rule = Rule { what: VID, at };
    check_vid_identity(&raw, &rule)?;
    check_vid_sizes(&raw, layout, &rule)?;
    let illegal = |field, found: u8, words| FormatError::Field {
        at,
        what: VID,
        field,
        found: found.into(),
        expected: Expected::Words(words),
    };
    let kind = VolumeKind::from_code(raw.vol_type)
        .ok_or_else(|| illegal("volume type", raw.vol_type, "1 or 2"))?;
    let compat = Compat::from_code(raw.compat)
        .ok_or_else(|| illegal("compat", raw.compat, "0, 1, 2, 4 or 5"))?;
    match kind {
        VolumeKind::Static => check_static_vid(&raw, layout, &rule)?,
        VolumeKind::Dynamic => check_dynamic_vid(&raw, &rule)?,
    }
    Ok(vid_from_raw(&raw, kind, compat))
}

fn vid_from_raw(raw: &RawVidHeader, kind: VolumeKind, compat: Compat) -> VidHeader {
    VidHeader {
        kind,
        copy_flag: raw.copy_flag != 0,
        compat,
        volume: VolumeId::new(raw.vol_id.get()),
        leb: Leb::new(raw.lnum.get()),
        data_size: raw.data_size.get(),
        used_lebs: raw.used_ebs.get(),
        data_pad: raw.data_pad.get(),
        data_crc: raw.data_crc.get(),
        sqnum: SqNum::new(raw.sqnum.get()),
    }
}

fn check_vid_identity(raw: &RawVidHeader, rule: &Rule) -> Result<(), FormatError> {
    rule.check(raw.copy_flag <= 1, "copy flag", raw.copy_flag, Expected::Words("0 or 1"))?;
    for (field, value) in [
        ("volume id", raw.vol_id),
        ("LEB number", raw.lnum),
        ("data size", raw.data_size),
        ("used LEBs", raw.used_ebs),
        ("data pad", raw.data_pad),
    ] {
        let limit = Expected::AtMost(SIGNED_MAX.into());
        rule.check(value.get() <= SIGNED_MAX, field, value.get(), limit)?;
    }
    let id = raw.vol_id.get();
    let internal = is_internal_volume(VolumeId::new(id));
    let ids = Expected::Words("below 128 or an internal volume");
    rule.check(internal || id < MAX_VOLUMES, "volume id", id, ids)?;
    if internal {
        let legal = matches!(raw.compat, 1 | 2 | 4 | 5);
        rule.check(legal, "compat", raw.compat, Expected::Words("1, 2, 4 or 5"))
    } else {
        rule.check(raw.compat == 0, "compat", raw.compat, Expected::Number(0))
    }
}

fn check_vid_sizes(
    raw: &RawVidHeader,
    layout: &HeaderLayout,
    rule: &Rule,
) -> Result<(), FormatError> {
    let pad = raw.data_pad.get();
    let below_half = Expected::Words("less than half a LEB");
    rule.check(pad < layout.leb_size() / 2, "data pad", pad, below_half)?;
    let size = raw.data_size.get();
    let limit = Expected::AtMost(layout.leb_size().into());
    rule.check(size <= layout.leb_size(), "data size", size, limit)
}

fn check_static_vid(
    raw: &RawVidHeader,
    layout: &HeaderLayout,
    rule: &Rule,
) -> Result<(), FormatError> {
    let (used, size, lnum) = (raw.used_ebs.get(), raw.data_size.get(), raw.lnum.get());
    rule.check(used != 0, "used LEBs", used, Expected::Words("not 0 in a static volume"))?;
    rule.check(size != 0, "data size", size, Expected::Words("not 0 in a static volume"))?;
    let last = used - 1;
    rule.check(lnum <= last, "LEB number", lnum, Expected::AtMost(last.into()))?;
    let full = layout.leb_size() - raw.data_pad.get();
    let whole = lnum == last || size == full;
    rule.check(whole, "data size", size, Expected::Number(full.into()))
}

fn check_dynamic_vid(raw: &RawVidHeader, rule: &Rule) -> Result<(), FormatError> {
    let (used, size, crc) = (raw.used_ebs.get(), raw.data_size.get(), raw.data_crc.get());
    rule.check(used == 0, "used LEBs", used, Expected::Number(0))?;
    if raw.copy_flag == 1 {
        return rule.check(size != 0, "data size", size, Expected::Words("not 0 in a copy"));
    }
    rule.check(size == 0, "data size", size, Expected::Number(0))?;
    rule.check(crc == 0, "data CRC", crc, Expected::Number(0))
}

/// Returns the usable part of a volume identifier header with a valid checksum and illegal
/// contents, if it names a possible LEB of a user volume. Sizes are clamped to their range.
pub fn salvage_vid(bytes: &[u8], layout: &HeaderLayout) -> Option<VidHeader> {
    let raw: RawVidHeader = raw_part(bytes, VID, Location::Whole).ok()?;
    let possible = raw.vol_id.get() < MAX_VOLUMES
        && raw.lnum.get() <= SIGNED_MAX
        && raw.data_pad.get() < layout.leb_size() / 2;
    if !possible {
        return None;
    }
    let kind = VolumeKind::from_code(raw.vol_type)?;
    let mut header = vid_from_raw(&raw, kind, Compat::None);
    header.data_size = header.data_size.min(layout.leb_size() - header.data_pad);
    if kind == VolumeKind::Dynamic {
        header.used_lebs = 0;
    }
    Some(header)
}

/// The parameters that the rules of a volume record depend on, in addition to the record (spec: ubi
/// 6.3).
#[derive(Clone, Copy, Debug)]
pub struct RecordRules {
    /// Bytes in a LEB.
    pub leb_size: u32,
    /// The minimum I/O unit.
    pub min_io: u32,
    /// The maximum number of LEBs of a volume: the good eraseblocks of the device.
    pub good_pebs: u32,
}

/// Decodes a record of the volume table; `Ok(None)` is an empty one (spec: ubi 6.3).
///
/// # Errors
///
/// Fails if the bytes are too short, the checksum is wrong or a field breaks a rule.
pub fn decode_record(
    bytes: &[u8],
    rules: &RecordRules,
    at: Location,
) -> Result<Option<VolumeRecord>, FormatError> {
    let raw: RawVolumeRecord = raw_part(bytes, RECORD, at)?;
    let empty = bytes[..RECORD_CRC_SPAN] == [0; RECORD_CRC_SPAN];
    if empty && raw.crc.get() == EMPTY_RECORD_CRC {
        return Ok(None);
    }
    check_crc(&bytes[..RECORD_CRC_SPAN], raw.crc.get(), RECORD, at)?;
    let rule = Rule { what: RECORD, at };
    let words = Expected::Words("not 0, or an all-zero record");
    rule.check(raw.reserved_pebs.get() != 0, "reserved PEBs", 0_u32, words)?;
    check_record_numbers(&raw, rules, &rule)?;
    let name = decode_name(&raw, &rule)?;
    let reserved = raw.reserved_pebs.get();
    let limit = Expected::AtMost(rules.good_pebs.into());
    rule.check(reserved <= rules.good_pebs, "reserved PEBs", reserved, limit)?;
    Ok(record_from_raw(&raw, name))
}

fn record_from_raw(raw: &RawVolumeRecord, name: VolumeName) -> Option<VolumeRecord> {
    Some(VolumeRecord {
        reserved_lebs: raw.reserved_pebs.get(),
        alignment: raw.alignment.get(),
        data_pad: raw.data_pad.get(),
        kind: VolumeKind::from_code(raw.vol_type)?,
        upd_marker: raw.upd_marker != 0,
        name,
        flags: VolumeFlags::from_bits(raw.flags),
    })
}

fn check_record_numbers(
    raw: &RawVolumeRecord,
    rules: &RecordRules,
    rule: &Rule,
) -> Result<(), FormatError> {
    let alignment = raw.alignment.get();
    let in_range = (1..=rules.leb_size).contains(&alignment);
    let leb = Expected::Words("1 to the LEB size");
    rule.check(in_range, "alignment", alignment, leb)?;
    let aligned = alignment == 1 || alignment.is_multiple_of(rules.min_io);
    let units = Expected::Words("1 or a multiple of the minimum I/O unit");
    rule.check(aligned, "alignment", alignment, units)?;
    let (pad, expected) = (raw.data_pad.get(), rules.leb_size % alignment);
    rule.check(pad == expected, "data pad", pad, Expected::Number(expected.into()))?;
    let known = VolumeKind::from_code(raw.vol_type).is_some();
    rule.check(known, "volume type", raw.vol_type, Expected::Words("1 or 2"))?;
    rule.check(raw.upd_marker <= 1, "update marker", raw.upd_marker, Expected::Words("0 or 1"))
}

fn decode_name(raw: &RawVolumeRecord, rule: &Rule) -> Result<VolumeName, FormatError> {
    let length = raw.name_len.get();
    let limit = Expected::AtMost(MAX_NAME as u64);
    rule.check(usize::from(length) <= MAX_NAME, "name length", length, limit)?;
    let (name, rest) = raw.name.split_at(usize::from(length));
    let ended = rest.first() == Some(&0);
    rule.check(ended, "name length", length, Expected::Words("the NUL after the name"))?;
    VolumeName::new(name).ok_or(FormatError::Field {
        at: rule.at,
        what: RECORD,
        field: "name length",
        found: length.into(),
        expected: Expected::Words("1 to 127 bytes without NUL"),
    })
}

/// Returns the usable part of a record with a valid checksum and illegal contents, if its name,
/// kind and padding are usable. The size is limited by the rules.
pub fn salvage_record(bytes: &[u8], rules: &RecordRules) -> Option<VolumeRecord> {
    let raw: RawVolumeRecord = raw_part(bytes, RECORD, Location::Whole).ok()?;
    let usable = raw.reserved_pebs.get() != 0 && raw.data_pad.get() < rules.leb_size;
    if !usable {
        return None;
    }
    let length = usize::from(raw.name_len.get()).min(MAX_NAME);
    let name = raw.name.get(..length)?.split(|byte| *byte == 0).next()?;
    let mut record = record_from_raw(&raw, VolumeName::new(name)?)?;
    record.reserved_lebs = record.reserved_lebs.min(rules.good_pebs);
    Some(record)
}

/// Size of a record, for splitting a table into records.
pub const RECORD_BYTES: usize = RECORD_SIZE as usize;

/// Size of a header.
pub const HEADER_BYTES: usize = HEADER_SIZE as usize;
