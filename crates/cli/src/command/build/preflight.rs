//! Whether the volumes fit the flash, said before any work is done (spec: ubi 11.3).

use super::Volume;
use super::layout::{Layout, VolumeFlag};
use crate::accounting;
use crate::args::flash::Flash;
use crate::failure::Failure;
use crate::text;
use eraseblock_ubi::image::VolumeSize;

/// Blocks kept for those that go bad.
fn reserve(flash: &Flash) -> u32 {
    let may_go_bad = flash.geometry.can_have_bad_blocks();
    flash.chip_blocks.filter(|_| may_go_bad).map_or(0, accounting::bad_block_reserve)
}

/// LEBs for volumes on the flash, if its size is known.
pub(super) fn volume_lebs(flash: &Flash) -> Option<u32> {
    let blocks = flash.geometry.peb_count();
    (blocks > 0).then(|| accounting::for_volumes(blocks, reserve(flash)))
}

/// LEBs a volume takes of the flash, at least and at most.
fn bounds(volume: &Volume) -> (u64, u64) {
    let (least, most) = volume.content.bounds(volume.usable_leb_size);
    match volume.spec.size {
        VolumeSize::Bytes(bytes) => {
            let lebs = bytes.div_ceil(u64::from(volume.usable_leb_size));
            (lebs, lebs)
        }
        _ => (u64::from(least), u64::from(most)),
    }
}

/// Adds the volumes up; fails when they cannot fit, else says what is left.
pub(super) fn check(volumes: &[Volume], flash: &Flash, layout: &Layout) -> Result<String, Failure> {
    let growing = layout.volumes.iter().filter(|v| v.flags.contains(&VolumeFlag::Autoresize));
    if growing.count() > 1 {
        return Err(Failure::new("only one volume can have the flag `autoresize`"));
    }
    let (least, most) =
        volumes.iter().map(bounds).fold((0, 0), |sum, volume| (sum.0 + volume.0, sum.1 + volume.1));
    let needed = if least == most {
        text::grouped(least)
    } else {
        format!("{} to {}", text::grouped(least), text::grouped(most))
    };
    let Some(available) = volume_lebs(flash) else {
        return Ok(format!("preflight: {needed} LEBs; the size of the flash is not known"));
    };
    let (blocks, reserve) = (flash.geometry.peb_count(), reserve(flash));
    let overhead = accounting::OVERHEAD;
    let account =
        format!("{blocks} blocks less {overhead} of UBI itself less {reserve} for bad ones");
    if let Some(missing) = least.checked_sub(u64::from(available)).filter(|missing| *missing > 0) {
        let bytes = missing * u64::from(flash.geometry.peb_size());
        return Err(Failure::new(format!(
            "the volumes need {needed} LEBs, the flash has {available} ({account}): {missing} are missing"
        ))
        .hint(format!("{} less content, smaller volumes, or a larger flash", text::size(bytes))));
    }
    let left = u64::from(available).saturating_sub(most);
    Ok(format!("preflight: {needed} LEBs of {available} ({account}), {left} left"))
}
