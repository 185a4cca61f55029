//! The checked types: the meaning of a header or record, with native integers.

use crate::constants::{FIRST_INTERNAL_VOLUME, MAX_ERASE_COUNT, MAX_NAME};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use eraseblock_base::{Leb, VolumeId};

/// How often an eraseblock was erased: 0 to 0x7FFF_FFFF.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct EraseCount(u32);

impl EraseCount {
    /// Returns the counter, or `None` above the largest legal value.
    pub fn new(count: u64) -> Option<Self> {
        u32::try_from(count).ok().filter(|count| *count <= MAX_ERASE_COUNT).map(Self)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for EraseCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Sequence number of a header: the larger one is the newer (spec: ubi 7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct SqNum(u64);

impl SqNum {
    /// Creates a sequence number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The kind of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum VolumeKind {
    /// LEBs are written and erased individually.
    Dynamic,
    /// Content is written as a whole; every LEB has a checksum.
    Static,
}

impl VolumeKind {
    /// Returns the kind for the number in a header or record, 1 or 2.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Dynamic),
            2 => Some(Self::Static),
            _ => None,
        }
    }

    /// Returns the number used in headers and records.
    pub const fn code(self) -> u8 {
        match self {
            Self::Dynamic => 1,
            Self::Static => 2,
        }
    }
}

impl fmt::Display for VolumeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dynamic => "dynamic",
            Self::Static => "static",
        })
    }
}

/// The handling of an unknown internal volume (spec: ubi 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compat {
    /// 0: a user volume.
    None,
    /// 1: erase its blocks.
    Delete,
    /// 2: use the device read-only.
    ReadOnly,
    /// 4: leave its blocks alone.
    Preserve,
    /// 5: refuse the device.
    Reject,
}

impl Compat {
    /// Returns the meaning of the number in a header.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Delete),
            2 => Some(Self::ReadOnly),
            4 => Some(Self::Preserve),
            5 => Some(Self::Reject),
            _ => None,
        }
    }

    /// Returns the number in a header.
    pub const fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Delete => 1,
            Self::ReadOnly => 2,
            Self::Preserve => 4,
            Self::Reject => 5,
        }
    }
}

/// A checked erase-counter header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EcHeader {
    /// How often the block was erased.
    pub erase_count: EraseCount,
    /// Offset of the volume identifier header.
    pub vid_hdr_offset: u32,
    /// Offset of the data area.
    pub data_offset: u32,
    /// Number of the image the block belongs to; 0 matches every image.
    pub image_seq: u32,
    /// Whether blocks after this one do not belong to the device (spec: ubi 4.1).
    pub end_mark: bool,
}

/// A checked volume identifier header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VidHeader {
    /// The kind of the volume.
    pub kind: VolumeKind,
    /// Whether `data_size` and `data_crc` decide between this block and an older one of the same
    /// LEB.
    pub copy_flag: bool,
    /// The handling of the volume if it is unknown.
    pub compat: Compat,
    /// The volume.
    pub volume: VolumeId,
    /// The LEB of the volume.
    pub leb: Leb,
    /// Bytes covered by `data_crc`.
    pub data_size: u32,
    /// Number of LEBs occupied by the data of a static volume; 0 for dynamic volumes.
    pub used_lebs: u32,
    /// Unused bytes at the end of each LEB.
    pub data_pad: u32,
    /// CRC of the first `data_size` bytes of the data area.
    pub data_crc: u32,
    /// Sequence number.
    pub sqnum: SqNum,
}

/// Returns whether the id lies in the range of internal volumes.
pub const fn is_internal_volume(volume: VolumeId) -> bool {
    volume.get() >= FIRST_INTERNAL_VOLUME
}

/// The name of a volume: 1 to 127 bytes, none of them NUL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeName(Vec<u8>);

impl VolumeName {
    /// Creates a name from bytes, or returns `None` if they are not a legal name.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        let legal = (1..=MAX_NAME).contains(&bytes.len()) && !bytes.contains(&0);
        legal.then_some(Self(bytes))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for VolumeName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The flags of a volume; unknown bits are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct VolumeFlags(u8);

impl VolumeFlags {
    /// Grow the volume into all free space at the next attach.
    pub const AUTORESIZE: Self = Self(1);
    /// Do not check the checksums of the static volume when it is opened.
    pub const SKIP_CHECK: Self = Self(2);

    /// Creates flags from the bits of a record.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns the bits for a record.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A checked record of the volume table; empty records have none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRecord {
    /// Size of the volume in LEBs; never 0.
    pub reserved_lebs: u32,
    /// Alignment of the usable LEB size: 1 or a multiple of the minimum I/O unit.
    pub alignment: u32,
    /// Unused bytes at the end of each LEB: LEB size modulo alignment.
    pub data_pad: u32,
    /// The kind of the volume.
    pub kind: VolumeKind,
    /// Whether an update was started and not finished.
    pub upd_marker: bool,
    /// The name.
    pub name: VolumeName,
    /// The flags.
    pub flags: VolumeFlags,
}
