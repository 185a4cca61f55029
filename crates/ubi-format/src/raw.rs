//! The structures as stored on flash: packed, big-endian, every bit pattern legal.

use crate::constants::{HEADER_CRC_SPAN, HEADER_SIZE, RECORD_CRC_SPAN, RECORD_SIZE};
use core::mem::offset_of;
use eraseblock_base::raw;
use eraseblock_base::raw::big_endian::{U16, U32, U64};

raw!(
    /// Erase-counter header at offset 0 of every eraseblock in use (spec: ubi 4).
    ///
    /// Written once after each erase; a cut leaves it erased or torn, and the counter is then lost.
    RawEcHeader, 64, {
        /// `UBI#`.
        magic @ 0: U32 = Hex,
        /// Format version, 1.
        version @ 4: u8,
        /// Zero.
        padding1 @ 5: [u8; 3] = Zero,
        /// How often the block was erased.
        ec @ 8: U64,

        /// Offset of the volume identifier header.
        vid_hdr_offset @ 16: U32,
        /// Offset of the data area.
        data_offset @ 20: U32,
        /// Number of the image the block belongs to.
        image_seq @ 24: U32 = Hex,
        /// Zero.
        padding2 @ 28: [u8; 32] = Zero,
        /// CRC of bytes 0..60.
        hdr_crc @ 60: U32 = Sum,
    }
);

raw!(
    /// Volume identifier header: which LEB the block holds (spec: ubi 5).
    ///
    /// Written once, before the data; a cut leaves it erased or torn, and the block holds no LEB.
    RawVidHeader, 64, {
        /// `UBI!`.
        magic @ 0: U32 = Hex,
        /// Format version, 1; not checked.
        version @ 4: u8,
        /// 1 dynamic, 2 static.
        vol_type @ 5: u8,
        /// Whether `data_size` and `data_crc` decide between this block and an older one.
        copy_flag @ 6: u8,
        /// What to do with an unknown internal volume.
        compat @ 7: u8,
        /// The volume.
        vol_id @ 8: U32,
        /// The LEB.
        lnum @ 12: U32,

        /// Zero.
        padding1 @ 16: U32 = Zero,
        /// Bytes covered by `data_crc`.
        data_size @ 20: U32,
        /// LEBs in use in a static volume.
        used_ebs @ 24: U32,
        /// Unused bytes at the end of each LEB.
        data_pad @ 28: U32,

        /// CRC of the first `data_size` bytes of the data area.
        data_crc @ 32: U32 = Hex,
        /// Zero.
        padding2 @ 36: U32 = Zero,
        /// Sequence number.
        sqnum @ 40: U64,

        /// Zero.
        padding3 @ 48: [u8; 12] = Zero,
        /// CRC of bytes 0..60.
        hdr_crc @ 60: U32 = Sum,
    }
);

raw!(
    /// One record of the volume table (spec: ubi 6.3).
    ///
    /// Rewritten with its whole table by an atomic LEB change: a cut leaves the old or the new table.
    RawVolumeRecord, 172, {
        /// Size of the volume in LEBs; 0 marks an empty record.
        reserved_pebs @ 0: U32,
        /// LEB alignment.
        alignment @ 4: U32,
        /// LEB size modulo alignment.
        data_pad @ 8: U32,
        /// 1 dynamic, 2 static.
        vol_type @ 12: u8,
        /// 1 while an update is under way.
        upd_marker @ 13: u8,
        /// Length of the name.
        name_len @ 14: U16,

        /// The name, then zeros.
        name @ 16: [u8; 128] = Text,

        /// Bit 0: resize automatically; bit 1: no CRC check of a static volume.
        flags @ 144: u8 = Hex,
        /// Zero.
        padding @ 145: [u8; 23] = Zero,
        /// CRC of bytes 0..168.
        crc @ 168: U32 = Sum,
    }
);

const _: () = {
    assert!(RawEcHeader::SIZE == HEADER_SIZE as usize);
    assert!(offset_of!(RawEcHeader, hdr_crc) == HEADER_CRC_SPAN);
    assert!(RawVidHeader::SIZE == HEADER_SIZE as usize);
    assert!(offset_of!(RawVidHeader, hdr_crc) == HEADER_CRC_SPAN);
    assert!(RawVolumeRecord::SIZE == RECORD_SIZE as usize);
    assert!(offset_of!(RawVolumeRecord, crc) == RECORD_CRC_SPAN);
};
