//! One volume, whatever is in it.

use super::all_of;
use crate::failure::Failure;
use crate::session::Session;
use crate::target::filesystem::{self, Opened};
use crate::target::image::check_static;
use crate::target::peek;
use crate::target::writable::Mode;
use eraseblock_base::{Findings, Location, VolumeId};
use eraseblock_mtd::LebDevice;
use eraseblock_ubi::UbiVolume;
use eraseblock_ubi_format::VolumeKind;
use eraseblock_ubifs::{Ubifs, UbifsMount};
use std::sync::Arc;

/// Checks a volume of a UBI device. `id` names it where there are others.
pub(super) fn check(
    volume: UbiVolume,
    id: Option<VolumeId>,
    session: &mut Session,
) -> Result<(), Failure> {
    let is_static = volume.info().kind == VolumeKind::Static;
    if is_static {
        check_static(&volume, session);
    }
    let content = peek::content(&volume);
    if content.is_ubifs() {
        return ubifs(Arc::new(volume), id, session);
    }
    if content.is_jffs2() {
        scrubbed(filesystem::open_volume(volume, id, session)?, id, session);
    } else if !is_static {
        data(&volume, session);
    }
    Ok(())
}

/// Reads all of a volume without a file system: only the device can say that it is damaged.
fn data(volume: &UbiVolume, session: &mut Session) {
    let id = volume.info().id;
    let mut findings = Findings::new();
    let mut buf = vec![0; volume.leb_size() as usize];
    for (leb, _) in volume.map().iter() {
        let at = Location::VolumeLeb(id, leb, 0);
        match LebDevice::read(volume, leb, 0, &mut buf) {
            Ok(outcome) if outcome.uncorrectable => {
                findings.error(at, "unreadable", "uncorrectable bit errors");
            }
            Ok(_) => {}
            Err(error) => findings.error(at, "unreadable", error.to_string()),
        }
    }
    session.report(findings);
}

/// Checks a UBIFS as a mount sees it. One that no mount takes is read as `extract` reads it.
pub(super) fn ubifs(
    device: Arc<dyn LebDevice>,
    id: Option<VolumeId>,
    session: &mut Session,
) -> Result<(), Failure> {
    let refusal = match UbifsMount::mount(Arc::clone(&device), Mode::READ_ONLY.ubifs()) {
        Ok((fs, mut findings)) => {
            match fs.check() {
                Ok(found) => findings.append(found),
                Err(error) => findings.error(Location::Whole, "not-checked", error.to_string()),
            }
            session.report(filesystem::placed(findings, id));
            return Ok(());
        }
        Err(refusal) => refusal,
    };
    let Ok((fs, findings)) = Ubifs::open(device, &eraseblock_ubifs::OpenOptions { strict: false })
    else {
        return Err(refusal.into());
    };
    session.not_mounted(id.map_or(Location::Whole, Location::Volume), &refusal.to_string());
    scrubbed(filesystem::of_ubifs(fs, findings, id), id, session);
    Ok(())
}

/// Reads everything, and hands over what was found.
fn scrubbed(opened: Opened, id: Option<VolumeId>, session: &mut Session) {
    let found = all_of(opened.fs(), session);
    session.report(filesystem::placed(found, id));
    opened.finish(session);
}
