//! Erase-counter headers, and headers of which one byte is wrong.

use super::work::{HEADER, Work};
use crate::error::RepairError;
use crate::plan::{Action, Level};
use eraseblock_base::{Finding, Location, Peb};
use eraseblock_ubi::Attachment;
use eraseblock_ubi_format::EcHeader;
use eraseblock_ubi_format::constants::VID_MAGIC;
use eraseblock_ubi_format::decode::{check_ec_offsets, decode_ec, decode_vid};
use eraseblock_ubi_format::encode::encode_ec;
use eraseblock_ubi_format::{HeaderLayout, VidHeader};

/// Writes damaged erase-counter headers again.
pub(super) fn repair(work: &mut Work) -> Result<(), RepairError> {
    let attachment = work.attach()?;
    for finding in &attachment.findings {
        let code = finding.code.name();
        if let (Location::Peb(peb, _), "ec-header-damaged" | "ec-header-illegal") =
            (finding.at, code)
        {
            renew(work, &attachment, peb, finding)?;
        }
    }
    Ok(())
}

fn renew(
    work: &mut Work,
    attachment: &Attachment,
    peb: Peb,
    finding: &Finding,
) -> Result<(), RepairError> {
    let mut bytes = work.block(peb.get())?;
    let usual = work.ec(attachment, peb.get());
    let known = with_one_byte(&bytes, |header| {
        let header = decode_ec(header, Location::peb(peb)).ok()?;
        let is_ours = header.image_seq == 0 || header.image_seq == attachment.image_seq;
        check_ec_offsets(&header, &work.layout, Location::peb(peb)).ok()?;
        is_ours.then_some(header)
    });
    let counter = attachment.peb(peb).and_then(|info| info.erase_count);
    let (header, source) = match (known, counter) {
        (Some(header), _) => (header, "one byte of it is wrong, which its checksum shows"),
        (None, Some(_)) => (usual, "its counter can be read"),
        (None, None) => (usual, "it gets the mean of the others"),
    };
    let header = EcHeader { end_mark: false, ..header };
    bytes[..HEADER].copy_from_slice(&encode_ec(&header));
    let why = format!("{}: {source}", finding.message);
    let code = finding.code.name();
    let action = Action::new(Level::Safe, code, "", Location::peb(peb), "set", why);
    let before = counter.map_or_else(|| "lost".to_owned(), |count| count.get().to_string());
    work.plan.push(action.sets("ec", before, header.erase_count.get().to_string()));
    work.blocks.insert(peb.get(), bytes);
    Ok(())
}

/// Returns the volume identifier header whose bytes differ from these in one place, if that is the only
/// one.
pub(super) fn recovered_vid(block: &[u8], layout: &HeaderLayout) -> Option<VidHeader> {
    let stored = block.get(layout.vid_hdr_offset() as usize..)?;
    // Of most blocks without a header this is clear at once.
    let magic = stored.iter().zip(VID_MAGIC.to_be_bytes());
    if magic.filter(|(stored, right)| *stored != right).count() > 1 {
        return None;
    }
    with_one_byte(stored, |header| decode_vid(header, layout, Location::Whole).ok())
}

/// Replaces each byte of a header by each other value; returns what `decode` accepts, if that is one
/// value. The checksum covers all bytes, so that a wrong guess passes in one of 2^18 headers.
fn with_one_byte<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut header: [u8; HEADER] = *bytes.first_chunk()?;
    let mut found = None;
    for at in 0..HEADER {
        let stored = header[at];
        for value in (0..=u8::MAX).filter(|value| *value != stored) {
            header[at] = value;
            if let Some(decoded) = decode(&header) {
                if found.is_some() {
                    return None;
                }
                found = Some(decoded);
            }
        }
        header[at] = stored;
    }
    found
}
