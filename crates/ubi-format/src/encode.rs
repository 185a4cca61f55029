//! Checked types to bytes: the inverse of [`crate::decode`].

use crate::constants::{
    EC_MAGIC, END_MARK, HEADER_CRC_SPAN, HEADER_SIZE, RECORD_CRC_SPAN, RECORD_SIZE, VERSION,
    VID_MAGIC,
};
use crate::raw::{RawEcHeader, RawVidHeader, RawVolumeRecord};
use crate::types::{EcHeader, VidHeader, VolumeRecord};
use core::mem::offset_of;
use eraseblock_base::crc::crc32;
use eraseblock_base::raw::Raw;

/// Returns the 64 bytes of an erase-counter header (spec: ubi 4).
pub fn encode_ec(header: &EcHeader) -> [u8; HEADER_SIZE as usize] {
    let mut raw = RawEcHeader::zeroed();
    raw.magic.set(EC_MAGIC);
    raw.version = VERSION;
    raw.ec.set(u64::from(header.erase_count.get()));
    raw.vid_hdr_offset.set(header.vid_hdr_offset);
    raw.data_offset.set(header.data_offset);
    raw.image_seq.set(header.image_seq);
    if header.end_mark {
        raw.padding1 = END_MARK;
    }
    raw.hdr_crc.set(crc32(&raw.to_bytes()[..HEADER_CRC_SPAN]));
    raw.to_bytes()
}

/// Returns the 64 bytes of a volume identifier header (spec: ubi 5).
pub fn encode_vid(header: &VidHeader) -> [u8; HEADER_SIZE as usize] {
    let mut raw = RawVidHeader::zeroed();
    raw.magic.set(VID_MAGIC);
    raw.version = VERSION;
    raw.vol_type = header.kind.code();
    raw.copy_flag = u8::from(header.copy_flag);
    raw.compat = header.compat.code();
    raw.vol_id.set(header.volume.get());
    raw.lnum.set(header.leb.get());
    raw.data_size.set(header.data_size);
    raw.used_ebs.set(header.used_lebs);
    raw.data_pad.set(header.data_pad);
    raw.data_crc.set(header.data_crc);
    raw.sqnum.set(header.sqnum.get());
    raw.hdr_crc.set(crc32(&raw.to_bytes()[..HEADER_CRC_SPAN]));
    raw.to_bytes()
}

/// Replaces the version of a header of either kind and updates its checksum.
pub fn with_version(
    mut header: [u8; HEADER_SIZE as usize],
    version: u8,
) -> [u8; HEADER_SIZE as usize] {
    header[offset_of!(RawEcHeader, version)] = version;
    let crc = crc32(&header[..HEADER_CRC_SPAN]);
    header[HEADER_CRC_SPAN..].copy_from_slice(&crc.to_be_bytes());
    header
}

/// Returns the 172 bytes of a record of the volume table; `None` is the empty record (spec: ubi
/// 6.3).
pub fn encode_record(record: Option<&VolumeRecord>) -> [u8; RECORD_SIZE as usize] {
    let mut raw = RawVolumeRecord::zeroed();
    if let Some(record) = record {
        let name = record.name.as_bytes();
        raw.reserved_pebs.set(record.reserved_lebs);
        raw.alignment.set(record.alignment);
        raw.data_pad.set(record.data_pad);
        raw.vol_type = record.kind.code();
        raw.upd_marker = u8::from(record.upd_marker);
        raw.name_len.set(u16::try_from(name.len()).expect("a name has at most 127 bytes"));
        raw.name[..name.len()].copy_from_slice(name);
        raw.flags = record.flags.bits();
    }
    raw.crc.set(crc32(&raw.to_bytes()[..RECORD_CRC_SPAN]));
    raw.to_bytes()
}
