//! Raw dumps of a NAND, with out-of-band bytes after each page, and how a UBI is found in one. With
//! those bytes, only its first header is where one is expected; without them, all headers are.

use super::Sizes;
use super::image::{attach_options, hints};
use crate::error::Error;
#[cfg(feature = "edit")]
use crate::error::Setting;
use eraseblock_base::{Findings, Location};
use eraseblock_mtd::{ImageFile, RawDump, ReadAt};
use eraseblock_ubi::Ubi;
use eraseblock_ubi::detect::{Detected, detect};
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

/// How well a reading explains an image: with volumes, as Linux would take it, with the most headers
/// where they are expected, and with the fewest findings.
type Rank = (bool, bool, u32, Reverse<u64>);

/// The UBI in an image, or `None` if there is none. Where not everything is as Linux wants it, it may
/// be a raw dump.
pub(super) fn find_ubi(image: &Arc<dyn ReadAt>, sizes: &Sizes) -> Result<Option<Found>, Error> {
    let plain = match detect(image, &hints(sizes))? {
        Some(detected) => Some(attach(Arc::clone(image), &detected, sizes, None)?),
        None => None,
    };
    if plain.as_ref().is_some_and(|((volumes, whole, ..), _)| *volumes && *whole) {
        return Ok(plain.map(|(_, found)| found));
    }
    find_raw(image, sizes, plain)
}

/// The raw dump that an image is, if there is a UBI in it.
pub(super) fn dump_of(image: &Arc<dyn ReadAt>, sizes: &Sizes) -> Result<Option<RawDump>, Error> {
    // Attaching takes a while, and the size alone rules out most images.
    if !RawDump::could_be(image.as_ref())? {
        return Ok(None);
    }
    Ok(find_ubi(image, sizes)?.and_then(|found| found.dump))
}

/// A UBI with volumes between the out-of-band bytes, if one explains more than `best`. Several sizes
/// may seem to fit: four pages of 528 bytes are as long as one of 2112.
fn find_raw(
    image: &Arc<dyn ReadAt>,
    sizes: &Sizes,
    mut best: Option<(Rank, Found)>,
) -> Result<Option<Found>, Error> {
    for (page, oob) in RawDump::USUAL {
        let wanted = sizes.page.is_none_or(|wanted| wanted == page);
        if !wanted {
            continue;
        }
        let Some(dump) = RawDump::new(Arc::clone(image), page, oob)? else { continue };
        let Some(detected) = detect(&dump, &hints(sizes))? else { continue };
        // What does not even attach is not it.
        let attached = attach(Arc::new(dump.clone()), &detected, sizes, Some(dump));
        let Ok((rank, found)) = attached else { continue };
        if rank.0 && best.as_ref().is_none_or(|(known, _)| rank > *known) {
            best = Some((rank, found));
        }
    }
    Ok(best.map(|(_, found)| found))
}

fn attach(
    image: Arc<dyn ReadAt>,
    detected: &Detected,
    sizes: &Sizes,
    dump: Option<RawDump>,
) -> Result<(Rank, Found), Error> {
    let device = Arc::new(ImageFile::new(image, &detected.shape())?);
    let ubi = Ubi::attach(device, &detected.layout, &attach_options(sizes))?;
    let attached = ubi.attachment();
    let findings = attached.findings.iter().count() as u64 + attached.findings.dropped();
    let has_volumes = !attached.volumes.is_empty();
    let is_whole = attached.linux_refuses.is_none();
    let rank = (has_volumes, is_whole, detected.headers, Reverse(findings));
    Ok((rank, Found { ubi, start: detected.start, dump }))
}

/// Notes what is left out of a raw dump.
pub(super) fn note(dump: &RawDump, findings: &mut Findings) {
    let (oob, page) = (dump.oob(), dump.page());
    let message =
        format!("a raw dump: the {oob} out-of-band bytes after each page of {page} are left out");
    findings.note(Location::Whole, "raw-dump", message);
}

/// Why nothing is written to a raw dump.
#[cfg(feature = "edit")]
pub(super) fn only_read() -> Error {
    Error::new("a raw dump with out-of-band bytes can only be read")
        .hint(Setting::ImportDump + " makes a chip of it")
}
