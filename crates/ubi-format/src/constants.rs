//! The numbers of the format (spec: ubi 4, 5, 6, 21).

use eraseblock_base::VolumeId;

/// Magic of the erase-counter header: `UBI#`.
pub const EC_MAGIC: u32 = 0x5542_4923;

/// Magic of the volume identifier header: `UBI!`.
pub const VID_MAGIC: u32 = 0x5542_4921;

/// The only media format version.
pub const VERSION: u8 = 1;

/// Bytes in an erase-counter or volume identifier header.
pub const HEADER_SIZE: u32 = 64;

/// The first padding of an erase-counter header that ends the device (spec: ubi 4.1).
pub const END_MARK: [u8; 3] = *b"EOF";

/// Bytes of a header its CRC covers.
pub const HEADER_CRC_SPAN: usize = 60;

/// The largest legal erase counter.
pub const MAX_ERASE_COUNT: u32 = 0x7FFF_FFFF;

/// Bytes in a volume table record.
pub const RECORD_SIZE: u32 = 172;

/// Bytes of a record its CRC covers.
pub const RECORD_CRC_SPAN: usize = 168;

/// The maximum number of volumes in a table.
pub const MAX_VOLUMES: u32 = 128;

/// The longest volume name, in bytes.
pub const MAX_NAME: usize = 127;

/// The first volume id of the internal range (spec: ubi 6.1).
pub const FIRST_INTERNAL_VOLUME: u32 = 0x7FFF_EFFF;

/// The volume that holds the volume table.
pub const LAYOUT_VOLUME: VolumeId = VolumeId::new(FIRST_INTERNAL_VOLUME);

/// LEBs of the layout volume: two copies of the volume table.
pub const LAYOUT_LEBS: u32 = 2;

/// The volume of fastmap super blocks.
pub const FASTMAP_ANCHOR_VOLUME: VolumeId = VolumeId::new(0x7FFF_F000);

/// The volume of the other fastmap blocks.
pub const FASTMAP_DATA_VOLUME: VolumeId = VolumeId::new(0x7FFF_F001);

/// The volume of the blocks that invalidate a fastmap in an image if the image does not lie where
/// the fastmap says (spec: ubi 19.5). Linux does not know this volume and erases its blocks.
pub const GUARD_VOLUME: VolumeId = VolumeId::new(0x7FFF_FFFE);
