//! A UBI in a raw dump of a NAND, with out-of-band bytes behind each page. Read like that, only the
//! first header is where one is expected; read without those bytes, everything is.

use super::image::hints;
use crate::args::SizeArgs;
use crate::failure::Failure;
use eraseblock_base::{Findings, Location};
use eraseblock_mtd::{ImageFile, RawDump, ReadAt};
use eraseblock_ubi::detect::{Detected, detect};
use eraseblock_ubi::{AttachOptions, Ubi};
use std::cmp::Reverse;
use std::sync::Arc;

/// An attached UBI, and where it begins.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) ubi: Ubi,
    pub(super) start: u64,
    /// The dump that it is in, if there are out-of-band bytes between the pages.
    pub(super) dump: Option<RawDump>,
}

/// The UBI in an image, or `None`. Where there are no volumes it may be a raw dump.
pub(super) fn find(image: &Arc<dyn ReadAt>, sizes: &SizeArgs) -> Result<Option<Found>, Failure> {
    let plain = match detect(image, &hints(sizes))? {
        Some(detected) => Some(Found {
            ubi: attach(Arc::clone(image), &detected)?,
            start: detected.start,
            dump: None,
        }),
        None => None,
    };
    if plain.as_ref().is_some_and(|found| !found.ubi.attachment().volumes.is_empty()) {
        return Ok(plain);
    }
    Ok(find_raw(image, sizes)?.or(plain))
}

/// Whether an image is a raw dump with a UBI in it.
pub(super) fn is_one(image: &Arc<dyn ReadAt>, sizes: &SizeArgs) -> Result<bool, Failure> {
    // Attaching takes a while, and the size alone rules out most images.
    if !RawDump::could_be(image.as_ref())? {
        return Ok(false);
    }
    Ok(find(image, sizes)?.is_some_and(|found| found.dump.is_some()))
}

/// A UBI with volumes between the out-of-band bytes; of several sizes that seem to fit, the one that
/// explains most: four pages of 528 bytes are as long as one of 2112.
fn find_raw(image: &Arc<dyn ReadAt>, sizes: &SizeArgs) -> Result<Option<Found>, Failure> {
    let mut best = None;
    for (page, oob) in RawDump::USUAL {
        let wanted = sizes.page.is_none_or(|wanted| wanted == page);
        let Some(dump) = RawDump::new(Arc::clone(image), page, oob)?.filter(|_| wanted) else {
            continue;
        };
        let Some(detected) = detect(&dump, &hints(sizes))? else { continue };
        // What does not even attach is not it.
        let Ok(ubi) = attach(Arc::new(dump.clone()), &detected) else { continue };
        let attached = ubi.attachment();
        let findings = attached.findings.iter().count() as u64 + attached.findings.dropped();
        let rank = (attached.linux_refuses.is_none(), detected.headers, Reverse(findings));
        let is_better = best.as_ref().is_none_or(|(known, _)| rank > *known);
        if is_better && !attached.volumes.is_empty() {
            best = Some((rank, Found { ubi, start: detected.start, dump: Some(dump) }));
        }
    }
    Ok(best.map(|(_, found)| found))
}

fn attach(image: Arc<dyn ReadAt>, detected: &Detected) -> Result<Ubi, Failure> {
    let device = Arc::new(ImageFile::new(image, &detected.shape())?);
    Ok(Ubi::attach(device, &detected.layout, &AttachOptions::default())?)
}

/// Notes what is left out of a raw dump.
pub(super) fn note(dump: &RawDump, findings: &mut Findings) {
    let (oob, page) = (dump.oob(), dump.page());
    let message =
        format!("a raw dump: the {oob} out-of-band bytes behind each page of {page} are left out");
    findings.note(Location::Whole, "raw-dump", message);
}

/// Why nothing is written to a raw dump.
pub(super) fn only_read() -> Failure {
    Failure::new("a raw dump with out-of-band bytes can only be read")
        .hint("`eraseblock chip import CHIP DUMP --oob` makes a chip of it")
}
