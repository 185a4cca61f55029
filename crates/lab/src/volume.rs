//! The UBI device that most figures need.

use eraseblock_base::VolumeId;
use eraseblock_mtd::Mtd;
use eraseblock_ubi::{NewVolume, OpenOptions, UbiDevice, UbiError};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use std::sync::Arc;

/// Opens a device whose only volume, number 0, takes all of it; makes it on flash without volumes.
///
/// # Errors
///
/// Fails as [`UbiDevice::open`] and [`UbiDevice::create_volume`] do.
pub fn one_volume(flash: Arc<dyn Mtd>, layout: &HeaderLayout) -> Result<UbiDevice, UbiError> {
    let ubi = UbiDevice::open(flash, layout, &OpenOptions::default())?;
    if ubi.volumes().is_empty() {
        ubi.create_volume(&NewVolume {
            id: Some(VolumeId::new(0)),
            name: name(),
            kind: VolumeKind::Dynamic,
            lebs: ubi.available_lebs(),
            alignment: 1,
            flags: VolumeFlags::default(),
        })?;
    }
    Ok(ubi)
}

fn name() -> VolumeName {
    VolumeName::new("data").expect("a short name")
}
