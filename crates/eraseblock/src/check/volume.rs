//! Checks one volume with any content.

use super::all_of;
use crate::codes;
use crate::error::Result;
use crate::observe::Observer;
use crate::target::filesystem::{self, Opened};
use crate::target::image::check_static;
use crate::target::peek;
use crate::target::writable::Mode;
use eraseblock_base::{Finding, Findings, Location, VolumeId};
use eraseblock_mtd::LebDevice;
use eraseblock_ubi::UbiVolume;
use eraseblock_ubi_format::VolumeKind;
use eraseblock_ubifs::{CHECK_INCOMPLETE, OpenOptions, Ubifs, UbifsError, UbifsMount};
use std::sync::Arc;

/// Checks a volume of a UBI device. `id` names it where there are others.
pub(super) fn check(
    volume: UbiVolume,
    id: Option<VolumeId>,
    observer: &mut dyn Observer,
) -> Result<()> {
    let is_static = volume.info().kind == VolumeKind::Static;
    if is_static {
        check_static(&volume, observer);
    }
    let content = peek::content(&volume);
    if content.is_ubifs() {
        return ubifs(filesystem::grown(volume, &content), id, observer);
    }
    if content.is_jffs2() || content.is_read_only() {
        scrubbed(filesystem::open_volume(volume, id, None, observer)?, id, observer);
    } else if !is_static {
        data(&volume, observer);
    }
    Ok(())
}

/// Reads all of a volume without a file system: only the device can say that it is damaged.
fn data(volume: &UbiVolume, observer: &mut dyn Observer) {
    let id = volume.info().id;
    let mut findings = Findings::new();
    let mut buf = vec![0; volume.leb_size() as usize];
    for (leb, _) in volume.map().iter() {
        let at = Location::VolumeLeb(id, leb, 0);
        match LebDevice::read(volume, leb, 0, &mut buf) {
            Ok(outcome) if outcome.uncorrectable => {
                findings.error(at, codes::UNREADABLE, "uncorrectable bit errors");
            }
            Ok(_) => {}
            Err(error) => findings.error(at, codes::UNREADABLE, error.to_string()),
        }
    }
    observer.report(findings);
}

/// Checks a UBIFS as a mount sees it. One that no mount takes, or whose index cannot be followed, is
/// read as `extract` reads it.
pub(super) fn ubifs(
    device: Arc<dyn LebDevice>,
    id: Option<VolumeId>,
    observer: &mut dyn Observer,
) -> Result<()> {
    let at = id.map_or(Location::Whole, Location::Volume);
    match UbifsMount::mount(Arc::clone(&device), Mode::READ_ONLY.ubifs()) {
        Ok((fs, findings)) => {
            observer.report(filesystem::placed(findings, id));
            let found = match fs.check() {
                Ok(found) => found,
                Err(error) => {
                    let mut found = Findings::new();
                    found.error(at, CHECK_INCOMPLETE, error.to_string());
                    found
                }
            };
            let is_whole = !found.iter().any(|finding| finding.code == CHECK_INCOMPLETE);
            observer.report(filesystem::placed(found, id));
            if !is_whole && let Ok(opened) = salvaged(device, id) {
                scrubbed(opened, id, observer);
            }
            Ok(())
        }
        Err(refusal) => {
            let Ok((fs, found)) = Ubifs::open(Arc::clone(&device), &OpenOptions { strict: false })
            else {
                return Err(refusal.into());
            };
            let rows = UbifsMount::check_refused(device).unwrap_or_default();
            let found = without(&found, &rows);
            observer.report(filesystem::placed(rows, id));
            observer.error(at, codes::NOT_MOUNTABLE, &refusal.to_string());
            scrubbed(filesystem::of_ubifs(fs, found, id), id, observer);
            Ok(())
        }
    }
}

/// Returns the findings that others, which name the row of the specification, do not repeat.
fn without(found: &Findings, rows: &Findings) -> Findings {
    let mut rest = Findings::new();
    for finding in found {
        let is_repeated = |row: &Finding| {
            (row.at, row.code) == (finding.at, finding.code)
                && row.message.starts_with(&finding.message)
        };
        if !rows.iter().any(is_repeated) {
            rest.push(finding.clone());
        }
    }
    rest
}

/// A UBIFS opened so that everything is delivered that can be, also with `--strict`.
fn salvaged(device: Arc<dyn LebDevice>, id: Option<VolumeId>) -> Result<Opened, UbifsError> {
    let (fs, findings) = Ubifs::open(device, &OpenOptions { strict: false })?;
    Ok(filesystem::of_ubifs(fs, findings, id))
}

/// Reads everything, and hands over what was found.
pub(super) fn scrubbed(opened: Opened, id: Option<VolumeId>, observer: &mut dyn Observer) {
    let found = all_of(opened.fs(), observer);
    observer.report(filesystem::placed(found, id));
    opened.finish(observer);
}
