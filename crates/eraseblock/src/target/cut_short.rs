//! UBI images that end inside an eraseblock: not all of them was copied.

use super::image::UbiImage;
use crate::codes;
use eraseblock_base::{Findings, Location};

/// Where the number of the image is in an erase counter header (spec: ubi 3).
const IMAGE_SEQ: std::ops::Range<usize> = 24..28;

/// Notes the eraseblock at the end of an image of which only the beginning is there.
pub(super) fn note(image: &UbiImage, findings: &mut Findings) {
    let attachment = image.attachment();
    let peb_size = u64::from(attachment.layout.peb_size());
    let rest = image.file_size.saturating_sub(image.start) % peb_size;
    let at = image.file_size - rest;
    if rest == 0 || !is_of(image, at) {
        return;
    }
    let reserved: u64 = attachment.volumes.iter().map(|info| u64::from(info.reserved_lebs)).sum();
    let message = format!(
        "the image is cut short: {rest} bytes of an eraseblock of {peb_size}, which are not read; \
         found {} bytes, its volume table reserves {}",
        image.file_size - image.start,
        reserved.saturating_mul(peb_size)
    );
    findings.error(Location::Byte(at), codes::IMAGE_CUT_SHORT, message);
}

/// Returns whether what begins at a byte of the file is an eraseblock of the same image.
fn is_of(image: &UbiImage, at: u64) -> bool {
    let mut header = [0; IMAGE_SEQ.end];
    let Some(file) = &image.file else { return false };
    let read = file.read_exact_at(&mut header, at);
    let number = image.attachment().image_seq.to_be_bytes();
    read.is_ok() && header.starts_with(b"UBI#") && header[IMAGE_SEQ] == number
}
