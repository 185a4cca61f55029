//! The structures as stored on flash: packed, big-endian, every bit pattern legal.

use crate::constants::{HEADER_CRC_SPAN, HEADER_SIZE, RECORD_CRC_SPAN, RECORD_SIZE};
use core::mem::{align_of, offset_of, size_of};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Erase-counter header at offset 0 of every eraseblock in use (spec: ubi 4).
///
/// Written once after each erase; a cut leaves it erased or torn, and the counter is then lost.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawEcHeader {
    /// `UBI#`.
    pub magic: U32,
    /// Format version, 1.
    pub version: u8,
    /// Zero.
    pub padding1: [u8; 3],
    /// How often the block was erased.
    pub ec: U64,

    /// Offset of the volume identifier header.
    pub vid_hdr_offset: U32,
    /// Offset of the data area.
    pub data_offset: U32,
    /// Number of the image the block belongs to.
    pub image_seq: U32,
    /// Zero.
    pub padding2: [u8; 32],
    /// CRC of bytes 0..60.
    pub hdr_crc: U32,
}

/// Volume identifier header: which LEB the block holds (spec: ubi 5).
///
/// Written once, before the data; a cut leaves it erased or torn, and the block holds no LEB.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawVidHeader {
    /// `UBI!`.
    pub magic: U32,
    /// Format version, 1; not checked.
    pub version: u8,
    /// 1 dynamic, 2 static.
    pub vol_type: u8,
    /// Whether `data_size` and `data_crc` decide between this block and an older one.
    pub copy_flag: u8,
    /// What to do with an unknown internal volume.
    pub compat: u8,
    /// The volume.
    pub vol_id: U32,
    /// The LEB.
    pub lnum: U32,

    /// Zero.
    pub padding1: U32,
    /// Bytes covered by `data_crc`.
    pub data_size: U32,
    /// LEBs in use in a static volume.
    pub used_ebs: U32,
    /// Unused bytes at the end of each LEB.
    pub data_pad: U32,

    /// CRC of the first `data_size` bytes of the data area.
    pub data_crc: U32,
    /// Zero.
    pub padding2: U32,
    /// Sequence number.
    pub sqnum: U64,

    /// Zero.
    pub padding3: [u8; 12],
    /// CRC of bytes 0..60.
    pub hdr_crc: U32,
}

/// One record of the volume table (spec: ubi 6.3).
///
/// Rewritten with its whole table by an atomic LEB change: a cut leaves the old or the new table.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawVolumeRecord {
    /// Size of the volume in LEBs; 0 marks an empty record.
    pub reserved_pebs: U32,
    /// LEB alignment.
    pub alignment: U32,
    /// LEB size modulo alignment.
    pub data_pad: U32,
    /// 1 dynamic, 2 static.
    pub vol_type: u8,
    /// 1 while an update is under way.
    pub upd_marker: u8,
    /// Length of the name.
    pub name_len: U16,

    /// The name, then zeros.
    pub name: [u8; 128],

    /// Bit 0: resize automatically; bit 1: no CRC check of a static volume.
    pub flags: u8,
    /// Zero.
    pub padding: [u8; 23],
    /// CRC of bytes 0..168.
    pub crc: U32,
}

const _: () = {
    assert!(size_of::<RawEcHeader>() == HEADER_SIZE as usize);
    assert!(align_of::<RawEcHeader>() == 1);
    assert!(offset_of!(RawEcHeader, ec) == 8);
    assert!(offset_of!(RawEcHeader, vid_hdr_offset) == 16);
    assert!(offset_of!(RawEcHeader, image_seq) == 24);
    assert!(offset_of!(RawEcHeader, hdr_crc) == HEADER_CRC_SPAN);

    assert!(size_of::<RawVidHeader>() == HEADER_SIZE as usize);
    assert!(align_of::<RawVidHeader>() == 1);
    assert!(offset_of!(RawVidHeader, vol_id) == 8);
    assert!(offset_of!(RawVidHeader, data_size) == 20);
    assert!(offset_of!(RawVidHeader, data_crc) == 32);
    assert!(offset_of!(RawVidHeader, sqnum) == 40);
    assert!(offset_of!(RawVidHeader, hdr_crc) == HEADER_CRC_SPAN);

    assert!(size_of::<RawVolumeRecord>() == RECORD_SIZE as usize);
    assert!(align_of::<RawVolumeRecord>() == 1);
    assert!(offset_of!(RawVolumeRecord, vol_type) == 12);
    assert!(offset_of!(RawVolumeRecord, name_len) == 14);
    assert!(offset_of!(RawVolumeRecord, name) == 16);
    assert!(offset_of!(RawVolumeRecord, flags) == 144);
    assert!(offset_of!(RawVolumeRecord, crc) == RECORD_CRC_SPAN);
};
