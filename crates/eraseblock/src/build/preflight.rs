//! Whether the volumes fit the flash, said before any work is done (spec: ubi 11.3).

use super::layout::{Layout, VolumeFlag};
use super::{Draft, Volume};
use crate::accounting;
use crate::error::Error;
use crate::medium::Flash;
use crate::text;
use eraseblock_ubi::image::{FastmapPlace, VolumeSize, fastmap_blocks};
use eraseblock_ubi_format::HeaderLayout;
use serde::Serialize;

/// Blocks kept for those that go bad.
fn reserve(flash: &Flash) -> u32 {
    if !flash.geometry.can_have_bad_blocks() {
        return 0;
    }
    flash.chip_blocks.map_or(0, accounting::bad_block_reserve)
}

/// The flash that a fastmap is to describe.
pub(super) fn fastmap(layout: &HeaderLayout, flash: &Flash) -> Result<FastmapPlace, Error> {
    let peb_count = flash.geometry.peb_count();
    if peb_count == 0 {
        return Err(Error::new("[image] fastmap: the number of eraseblocks is not known").hint(
            "a fastmap lists every block of the flash: [flash] `blocks` or `part` says how many",
        ));
    }
    if fastmap_blocks(layout, peb_count).is_none() {
        return Err(Error::new(format!(
            "[image] fastmap: Linux uses none on a flash of {peb_count} eraseblocks"
        ))
        .hint("more than 64 eraseblocks are needed; leave `fastmap` out, the flash is scanned quickly"));
    }
    Ok(FastmapPlace { peb_count, bad_blocks: reserve(flash) })
}

/// Blocks that UBI keeps for itself.
fn overhead(image: &Draft) -> u32 {
    // Linux keeps blocks for two fastmaps: the one in use and the next.
    let fastmap =
        image.fastmap.and_then(|flash| fastmap_blocks(&image.header_layout, flash.peb_count));
    accounting::OVERHEAD + 2 * fastmap.unwrap_or(0)
}

/// LEBs for volumes on the flash, if its size is known.
pub(super) fn volume_lebs(image: &Draft) -> Option<u32> {
    let blocks = image.flash.geometry.peb_count();
    let taken = overhead(image) + reserve(&image.flash);
    (blocks > 0).then(|| blocks.saturating_sub(taken))
}

/// LEBs a volume takes of the flash, at least and at most.
fn bounds(volume: &Volume) -> (u64, u64) {
    let (least, most) = volume.content.bounds(volume.usable_leb_size);
    if let VolumeSize::Bytes(bytes) = volume.spec.size {
        let lebs = bytes.div_ceil(u64::from(volume.usable_leb_size));
        return (lebs, lebs);
    }
    let at_least = |lebs: u32| u64::from(lebs.max(volume.least_lebs));
    (at_least(least), at_least(most))
}

/// What the volumes come to.
#[derive(Debug, Serialize)]
pub struct Sum {
    /// LEBs that the volumes take of the flash.
    lebs_least: u64,
    lebs_most: u64,
    /// LEBs for volumes on the flash, if its size is known.
    lebs_available: Option<u32>,
    /// Contents may turn out too large for their volume, or for the flash.
    #[serde(skip)]
    open: bool,
    #[serde(skip)]
    account: String,
}

impl Sum {
    /// Returns whether only the exact sizes of the contents say that everything fits.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// In one line.
    pub fn line(&self) -> String {
        let needed = text::range(self.lebs_least, self.lebs_most);
        let Some(available) = self.lebs_available else {
            return format!("preflight: {needed} LEBs; the size of the flash is not known");
        };
        let left = |taken| text::grouped(u64::from(available).saturating_sub(taken));
        let left = match (left(self.lebs_most), left(self.lebs_least)) {
            (least, most) if least == most => least,
            (least, most) => format!("{least} to {most}"),
        };
        format!("preflight: {needed} LEBs of {available} ({}), {left} left", self.account)
    }
}

/// Adds the volumes up; fails when they cannot fit.
pub(super) fn check(image: &Draft, layout: &Layout) -> Result<Sum, Error> {
    let (volumes, flash) = (&image.volumes, &image.flash);
    let growing = layout.volumes.iter().filter(|v| v.flags.contains(&VolumeFlag::Autoresize));
    if growing.count() > 1 {
        return Err(Error::new("only one volume can have the flag `autoresize`"));
    }
    let (least, most) =
        volumes.iter().map(bounds).fold((0, 0), |sum, volume| (sum.0 + volume.0, sum.1 + volume.1));
    let lebs_available = volume_lebs(image);
    let (blocks, reserve) = (flash.geometry.peb_count(), reserve(flash));
    let overhead = overhead(image);
    let account =
        format!("{blocks} blocks less {overhead} of UBI itself less {reserve} for bad ones");
    let available = lebs_available.map_or(u64::MAX, u64::from);
    if let Some(missing) = least.checked_sub(available).filter(|missing| *missing > 0) {
        let bytes = missing * u64::from(flash.geometry.peb_size());
        let needed = text::range(least, most);
        return Err(Error::new(format!(
            "the volumes need {needed} LEBs, the flash has {available} ({account}): {missing} are missing"
        ))
        .hint(format!("{} less content, smaller volumes, or a larger flash", text::size(bytes))));
    }
    let open = most > available || volumes.iter().any(|volume| volume.content.is_open());
    Ok(Sum { lebs_least: least, lebs_most: most, lebs_available, open, account })
}
