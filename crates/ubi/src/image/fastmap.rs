//! A fastmap in an image, so that Linux attaches the flash without scanning it (spec: ubi 16,
//! 19.5).
//!
//! # Invariants
//! 1. The fastmap lists every block of the flash: blocks of the image that hold LEBs as used,
//!    blocks with only an erase-counter header as free or in a pool, all others as waiting to be
//!    erased. A flasher leaves blocks after the end of the image without a header: if they were
//!    used without an erase, the next scan would lose their LEBs.
//! 2. If a flasher skips up to [`FastmapPlace::bad_blocks`] bad blocks, so that the image lies
//!    further up than the fastmap says, attaching rejects the fastmap and scans.

use super::plan::{ImageError, ImagePlan};
use eraseblock_base::{Leb, Peb, VolumeId};
use eraseblock_ubi_format::constants::{
    FASTMAP_ANCHOR_VOLUME, FASTMAP_DATA_VOLUME, GUARD_VOLUME, LAYOUT_LEBS, LAYOUT_VOLUME,
};
use eraseblock_ubi_format::fastmap::{ANCHOR_RANGE, CountedPeb, fastmap_size, pool_sizes};
use eraseblock_ubi_format::{
    Compat, Fastmap, FastmapPool, FastmapVolume, HeaderLayout, SqNum, VidHeader, VolumeKind,
};

/// Maximum number of blocks of the image for new data and for moves: the smallest pools that Linux
/// uses.
const POOLS: (u32, u32) = (8, 4);

/// The flash that a fastmap describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastmapPlace {
    /// Eraseblocks of the UBI device.
    pub peb_count: u32,
    /// Maximum number of bad blocks that are skipped when the image is written.
    pub bad_blocks: u32,
}

/// The positions of the blocks of a fastmap in an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FastmapPlan {
    flash: FastmapPlace,
    /// Bytes of the fastmap: whole LEBs.
    size: usize,
    /// Blocks that it takes.
    blocks: u32,
    /// The first block after the LEBs of all volumes.
    lebs_end: u32,
    pools: (u32, u32),
}

/// Returns the first block of the first volume in an image with a fastmap for a flash of this many
/// blocks; `None` if fastmaps are not used on such a flash.
pub fn first_volume_peb(layout: &HeaderLayout, peb_count: u32) -> Option<u32> {
    let blocks = fastmap_blocks(layout, peb_count)?;
    // The blocks of the fastmap, and the same number of free ones for the next fastmap of Linux.
    Some(LAYOUT_LEBS + 2 * blocks)
}

/// Returns the number of blocks of a fastmap on a flash of this many blocks; `None` if fastmaps are
/// not used there.
pub fn fastmap_blocks(layout: &HeaderLayout, peb_count: u32) -> Option<u32> {
    if peb_count <= ANCHOR_RANGE {
        return None;
    }
    let size = fastmap_size(peb_count, layout.leb_size())?;
    u32::try_from(size / layout.leb_size() as usize).ok()
}

impl FastmapPlan {
    /// Lays out the blocks after the volumes, the last LEB of which lies before `lebs_end`.
    pub(super) fn new(
        layout: &HeaderLayout,
        flash: FastmapPlace,
        lebs_end: u32,
    ) -> Result<Self, ImageError> {
        let unused = ImageError::NoFastmap { found: flash.peb_count, more_than: ANCHOR_RANGE };
        let blocks = fastmap_blocks(layout, flash.peb_count).ok_or(unused)?;
        let guarded = lebs_end.saturating_add(flash.bad_blocks);
        let left = flash.peb_count.checked_sub(guarded).filter(|left| *left > 0);
        let full = ImageError::FastmapFull {
            found: u64::from(guarded) + 1,
            expected: flash.peb_count,
            bad_blocks: flash.bad_blocks,
        };
        let left = left.ok_or(full)?;
        let moves = POOLS.1.min(left / 3);
        let pools = (POOLS.0.min(left - moves), moves);
        let size = blocks as usize * layout.leb_size() as usize;
        Ok(Self { flash, size, blocks, lebs_end, pools })
    }

    /// Returns the number of eraseblocks of the image.
    pub(super) fn end(&self) -> u32 {
        self.pools_start() + self.pools.0 + self.pools.1
    }

    fn pools_start(&self) -> u32 {
        self.lebs_end + self.flash.bad_blocks
    }

    fn spares(&self) -> std::ops::Range<u32> {
        LAYOUT_LEBS + self.blocks..LAYOUT_LEBS + 2 * self.blocks
    }

    /// Returns the contents of blocks that belong to no volume.
    pub(super) fn extras(&self, plan: &ImagePlan) -> Result<Vec<Extra>, ImageError> {
        let too_large =
            ImageError::NoFastmap { found: self.flash.peb_count, more_than: ANCHOR_RANGE };
        let bytes = self.compose(plan).encode(self.size).ok_or(too_large)?;
        let leb_size = plan.spec.layout.leb_size() as usize;
        let mut extras = Vec::new();
        for (number, data) in (0..self.blocks).zip(bytes.chunks(leb_size)) {
            let volume = if number == 0 { FASTMAP_ANCHOR_VOLUME } else { FASTMAP_DATA_VOLUME };
            // LEBs of an image have the sequence number 0: the fastmap is newer.
            let header = internal(volume, number, u64::from(number) + 1);
            let peb = LAYOUT_LEBS + number;
            extras.push(Extra { peb, header: Some(header), data: data.to_vec() });
        }
        let free = |peb| Extra { peb, header: None, data: Vec::new() };
        extras.extend(self.spares().map(free));
        // If a skipped bad block moves the image up, the first block of the user pool holds one of
        // these. A block of a pool with a volume that the fastmap does not list makes the fastmap
        // invalid. A scan erases them.
        extras.extend((self.lebs_end..self.pools_start()).zip(0..).map(|(peb, number)| Extra {
            peb,
            header: Some(internal(GUARD_VOLUME, number, 0)),
            data: Vec::new(),
        }));
        extras.extend((self.pools_start()..self.end()).map(free));
        Ok(extras)
    }

    fn compose(&self, plan: &ImagePlan) -> Fastmap {
        let count = |peb: u32| -> CountedPeb { (Peb::new(peb), plan.spec.erase_count) };
        let (user, moves) = pool_sizes(self.flash.peb_count);
        let first_move = self.pools_start() + self.pools.0;
        let pool = |max, range: std::ops::Range<u32>| FastmapPool {
            max,
            pebs: range.map(Peb::new).collect(),
        };
        let lebs = self.spares().end..self.lebs_end;
        let guards = self.lebs_end..self.pools_start();
        Fastmap {
            blocks: (LAYOUT_LEBS..self.spares().start).map(count).collect(),
            bad_pebs: 0,
            user_pool: pool(user, self.pools_start()..first_move),
            wl_pool: pool(moves, first_move..self.end()),
            free: self.spares().map(count).collect(),
            used: (0..LAYOUT_LEBS).chain(lebs).map(count).collect(),
            scrub: Vec::new(),
            erase: guards.chain(self.end()..self.flash.peb_count).map(count).collect(),
            volumes: volumes(plan),
        }
    }
}

/// User volumes by ascending number, then the layout volume.
fn volumes(plan: &ImagePlan) -> Vec<FastmapVolume> {
    let mut volumes: Vec<FastmapVolume> = plan
        .spec
        .volumes
        .iter()
        .zip(&plan.volumes)
        .map(|(spec, planned)| {
            let record = &planned.record;
            let is_static = record.kind == VolumeKind::Static;
            let mut map = vec![None; record.reserved_lebs as usize];
            for (peb, entry) in (planned.first_peb..).zip(&mut map[..planned.lebs as usize]) {
                *entry = Some(Peb::new(peb));
            }
            FastmapVolume {
                id: spec.id,
                kind: record.kind,
                data_pad: record.data_pad,
                used_lebs: if is_static { planned.lebs } else { record.reserved_lebs },
                last_leb_bytes: if is_static { planned.last_bytes } else { planned.usable },
                map,
            }
        })
        .collect();
    volumes.sort_by_key(|volume| volume.id);
    volumes.push(FastmapVolume {
        id: LAYOUT_VOLUME,
        kind: VolumeKind::Dynamic,
        data_pad: 0,
        // The value that Linux writes (spec: ubi 16.2).
        used_lebs: 2,
        last_leb_bytes: 2,
        map: (0..LAYOUT_LEBS).map(|peb| Some(Peb::new(peb))).collect(),
    });
    volumes
}

/// The content of a block that belongs to no volume.
pub(super) struct Extra {
    pub(super) peb: u32,
    /// `None` for a free block.
    pub(super) header: Option<VidHeader>,
    pub(super) data: Vec<u8>,
}

fn internal(volume: VolumeId, leb: u32, sqnum: u64) -> VidHeader {
    VidHeader {
        kind: VolumeKind::Dynamic,
        copy_flag: false,
        compat: Compat::Delete,
        volume,
        leb: Leb::new(leb),
        data_size: 0,
        used_lebs: 0,
        data_pad: 0,
        data_crc: 0,
        sqnum: SqNum::new(sqnum),
    }
}
