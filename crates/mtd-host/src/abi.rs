//! The ioctls of Linux's MTD and UBI drivers: their numbers, computed from their parts, and their
//! structures (spec: mtd-nand 3.3, ubi 18.1).

use rustix::ioctl::{Opcode, opcode};

/// An ioctl that takes a pointer to one plain structure without pointers in it.
///
/// # Safety
///
/// The driver must read and write at most `size_of::<Self::Argument>()` bytes of the argument and
/// leave a valid value in it.
#[expect(unsafe_code, reason = "each implementation guarantees the size of its argument")]
pub(crate) unsafe trait Request {
    type Argument;
    const OPCODE: Opcode;
}

macro_rules! request {
    ($(#[$doc:meta])* $name:ident, $argument:ty, $opcode:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name;
        #[expect(unsafe_code, reason = "the argument is the structure of the specification")]
        // SAFETY: the sizes are those of spec: mtd-nand 3.3 and ubi 18.1, compared below.
        unsafe impl Request for $name {
            type Argument = $argument;
            const OPCODE: Opcode = $opcode;
        }
    };
}

/// `mtd_info_user`: the result of MEMGETINFO.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MtdInfo {
    pub(crate) kind: u8,
    pub(crate) flags: u32,
    /// Wraps at 4 GiB.
    pub(crate) size: u32,
    pub(crate) erase_size: u32,
    pub(crate) write_size: u32,
    pub(crate) oob_size: u32,
    pub(crate) padding: u64,
}

/// `erase_info_user64`: a range.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EraseRange {
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// `mtd_oob_buf64`: out-of-band bytes and their position.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OobRequest {
    pub(crate) start: u64,
    pub(crate) padding: u32,
    pub(crate) length: u32,
    pub(crate) pointer: u64,
}

/// `mtd_ecc_stats`: counters since the driver was loaded.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EccStats {
    /// Bits corrected.
    pub corrected: u32,
    /// Codewords that could not be corrected.
    pub failed: u32,
    /// Bad blocks.
    pub bad_blocks: u32,
    /// Blocks reserved for a bad-block table.
    pub bbt_blocks: u32,
}

/// `mtd_write_req`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteRequest {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) oob_length: u64,
    pub(crate) data: u64,
    pub(crate) oob: u64,
    pub(crate) mode: u8,
    pub(crate) padding: [u8; 7],
}

/// `mtd_read_req`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadRequest {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) oob_length: u64,
    pub(crate) data: u64,
    pub(crate) oob: u64,
    pub(crate) mode: u8,
    pub(crate) padding: [u8; 7],
    pub(crate) uncorrectable: u32,
    pub(crate) corrected: u32,
    pub(crate) max_bitflips: u32,
    pub(crate) padding_end: u32,
}

/// `ubi_leb_change_req`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LebChange {
    pub(crate) leb: i32,
    pub(crate) bytes: i32,
    pub(crate) data_type: i8,
    pub(crate) padding: [u8; 7],
}

/// `ubi_map_req`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LebMap {
    pub(crate) leb: i32,
    pub(crate) data_type: i8,
    pub(crate) padding: [u8; 3],
}

/// `ubi_set_vol_prop_req`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VolumeProperty {
    pub(crate) property: u8,
    pub(crate) padding: [u8; 7],
    pub(crate) value: u64,
}

/// The data type in UBI's requests: unknown.
pub(crate) const DATA_TYPE_UNKNOWN: i8 = 3;
/// The property that allows writing into LEBs.
pub(crate) const DIRECT_WRITE: u8 = 1;
/// Places out-of-band bytes unchanged (spec: mtd-nand 1.3).
pub(crate) const MODE_PLACE: u8 = 0;
/// The descriptor mode without error correction (spec: mtd-nand 3.2).
pub(crate) const FILE_MODE_RAW: usize = 3;

const MTD: u8 = b'M';
const VOLUME: u8 = b'O';

request!(MemGetInfo, MtdInfo, opcode::read::<MtdInfo>(MTD, 1));
request!(MemGetBadBlock, i64, opcode::write::<i64>(MTD, 11));
request!(MemSetBadBlock, i64, opcode::write::<i64>(MTD, 12));
request!(EccGetStats, EccStats, opcode::read::<EccStats>(MTD, 18));
request!(MemErase64, EraseRange, opcode::write::<EraseRange>(MTD, 20));
request!(
    /// The encoded size is that of the number alone, but the argument is a whole structure.
    UbiLebChange, LebChange, opcode::write::<i32>(VOLUME, 2)
);
request!(UbiLebErase, i32, opcode::write::<i32>(VOLUME, 1));
request!(UbiLebMap, LebMap, opcode::write::<LebMap>(VOLUME, 3));
request!(UbiLebUnmap, i32, opcode::write::<i32>(VOLUME, 4));
request!(UbiLebIsMapped, i32, opcode::read::<i32>(VOLUME, 5));
request!(UbiSetProperty, VolumeProperty, opcode::write::<VolumeProperty>(VOLUME, 6));

/// Takes its argument by value.
pub(crate) const MTD_FILE_MODE: Opcode = opcode::none(MTD, 19);
/// The arguments of these contain pointers; [`crate::sys`] creates them from slices.
pub(crate) const MEM_WRITE_OOB64: Opcode = opcode::read_write::<OobRequest>(MTD, 21);
pub(crate) const MEM_READ_OOB64: Opcode = opcode::read_write::<OobRequest>(MTD, 22);
pub(crate) const MEM_WRITE: Opcode = opcode::read_write::<WriteRequest>(MTD, 24);
pub(crate) const MEM_READ: Opcode = opcode::read_write::<ReadRequest>(MTD, 26);

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_specification() {
        // spec: mtd-nand 3.3
        let mtd = [
            (MemGetInfo::OPCODE, 0x8020_4D01),
            (MemGetBadBlock::OPCODE, 0x4008_4D0B),
            (MemSetBadBlock::OPCODE, 0x4008_4D0C),
            (EccGetStats::OPCODE, 0x8010_4D12),
            (MTD_FILE_MODE, 0x4D13),
            (MemErase64::OPCODE, 0x4010_4D14),
            (MEM_WRITE_OOB64, 0xC018_4D15),
            (MEM_READ_OOB64, 0xC018_4D16),
            (MEM_WRITE, 0xC030_4D18),
            (MEM_READ, 0xC040_4D1A),
        ];
        // spec: ubi 18.1
        let ubi = [
            (UbiLebErase::OPCODE, 0x4004_4F01),
            (UbiLebChange::OPCODE, 0x4004_4F02),
            (UbiLebMap::OPCODE, 0x4008_4F03),
            (UbiLebUnmap::OPCODE, 0x4004_4F04),
            (UbiLebIsMapped::OPCODE, 0x8004_4F05),
            (UbiSetProperty::OPCODE, 0x4010_4F06),
        ];
        for (found, expected) in mtd.into_iter().chain(ubi) {
            assert_eq!(found, expected, "{found:#x}");
        }
        assert_eq!(size_of::<LebChange>(), 16);
        assert_eq!(size_of::<VolumeProperty>(), 16);
    }
}
