//! What must hold after a repair of a flash.

use super::FlashRepair;
use super::work::HEADER;
use crate::error::RepairError;
use eraseblock_base::{Finding, Findings, Leb, Location, Peb, Severity};
use eraseblock_mtd::{LebDevice, Mtd};
use eraseblock_ubi::{AttachOptions, Attachment, Ubi, UbiVolume};
use eraseblock_ubi_format::{HeaderLayout, ReadQuality, SqNum, classify_vid};
use std::sync::Arc;

/// What no rule repairs: content is lost, the device fails, or the block may belong to something else.
const NOT_REPAIRED: [&str; 10] = [
    "static-volume-incomplete",
    "static-data-corrupt",
    "peb-corrupted",
    "peb-unreadable",
    "vid-header-illegal",
    "no-ubi-headers",
    "after-end-mark",
    "internal-volume",
    "internal-volume-rejects",
    "too-many-corrupted-pebs",
];

/// Returns the problems of a flash.
pub(super) fn problems(attachment: &Attachment) -> Vec<Finding> {
    let problems = attachment.findings.iter().filter(|one| one.severity > Severity::Note);
    problems.cloned().collect()
}

/// Fails unless the repaired flash is consistent but for what no rule repairs, `again` has nothing to
/// do, and every LEB that could be read before has the same bytes, or newer ones.
pub(super) fn verify(
    before: &Arc<dyn Mtd>,
    after: &Arc<dyn Mtd>,
    layout: &HeaderLayout,
    options: AttachOptions,
    again: &FlashRepair,
) -> Result<(), RepairError> {
    let mut left = Findings::new();
    for finding in &again.left {
        if !NOT_REPAIRED.contains(&finding.code.name()) {
            left.push(finding.clone());
        }
    }
    for action in again.plan.actions() {
        left.error(action.at, "still-planned", action.why.clone());
    }
    if left.has_problems() {
        return Err(RepairError::StillWrong(left));
    }
    let sqnum = |peb| sqnum(&**after, layout, peb);
    let before = Ubi::attach(Arc::clone(before), layout, &options)?;
    let after = Ubi::attach(Arc::clone(after), layout, &options)?;
    let mut unnamed = Vec::new();
    for info in &before.attachment().volumes {
        match after.volume(info.id) {
            Ok(volume) => compare(&before.volume(info.id)?, &volume, &sqnum, &mut unnamed),
            Err(error) => unnamed.push(error.to_string()),
        }
    }
    if unnamed.is_empty() { Ok(()) } else { Err(RepairError::UnnamedLoss(unnamed)) }
}

/// Compares every mapped LEB of a volume. Where the newest eraseblock of a LEB had a damaged header, an
/// older one was read before.
fn compare(
    before: &UbiVolume,
    after: &UbiVolume,
    sqnum: &dyn Fn(Peb) -> Option<SqNum>,
    unnamed: &mut Vec<String>,
) {
    for (leb, peb) in before.map().iter() {
        let is_newer = after.map().get(leb).is_some_and(|other| sqnum(other) > sqnum(peb));
        let Some(bytes_before) = bytes(before, leb).filter(|_| !is_newer) else { continue };
        if bytes(after, leb) != Some(bytes_before) {
            unnamed.push(format!("LEB {leb} of volume {}", before.info().id));
        }
    }
}

/// Returns the sequence number of an eraseblock.
fn sqnum(flash: &dyn Mtd, layout: &HeaderLayout, peb: Peb) -> Option<SqNum> {
    let mut bytes = [0; HEADER];
    let offset = layout.vid_hdr_offset();
    flash.read(flash.geometry().address_of(peb) + u64::from(offset), &mut bytes).ok()?;
    let at = Location::Peb(peb, offset);
    let header = classify_vid(&bytes, ReadQuality::Clean, layout, at).usable()?;
    Some(header.sqnum)
}

/// Returns the bytes of a LEB, if they can be read without errors.
fn bytes(volume: &UbiVolume, leb: Leb) -> Option<Vec<u8>> {
    let mut bytes = vec![0; volume.leb_size() as usize];
    let outcome = volume.read(leb, 0, &mut bytes).ok()?;
    (!outcome.uncorrectable).then_some(bytes)
}
