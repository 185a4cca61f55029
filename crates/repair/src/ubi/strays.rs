//! Eraseblocks that claim no LEB, or one that they cannot have.

use super::content::Missing;
use super::headers::recovered_vid;
use super::work::{HEADER, Work};
use crate::error::RepairError;
use crate::plan::{Action, Level, Loss, Part};
use eraseblock_base::align::is_erased;
use eraseblock_base::{Finding, Leb, Location, Peb, Severity, VolumeId};
use eraseblock_ubi::{Attachment, PebState};
use eraseblock_ubi_format::encode::encode_vid;
use eraseblock_ubi_format::{
    Compat, HeaderState, ReadQuality, VidHeader, VolumeKind, classify_ec, classify_vid,
};
use std::collections::BTreeMap;

/// Blocks with these codes are of no use to the image: they are kept in the quarantine and erased.
const OF_NO_USE: [&str; 3] = ["image-seq-differs", "leb-disagrees", "layout-volume-too-large"];

/// Blocks with these codes have data, but no VID header that says which LEB it is.
const NAMELESS: [&str; 2] = ["peb-corrupted", "vid-header-illegal"];

/// A recovered header may be the newest of all, by no more than this.
const NEAR: u64 = 1 << 20;

/// Puts right the eraseblocks that break a rule.
pub(super) fn repair(work: &mut Work) -> Result<(), RepairError> {
    let attachment = work.attach()?;
    for finding in problems(&attachment) {
        match (finding.at, finding.code.name()) {
            (Location::Peb(peb, _), code) if OF_NO_USE.contains(&code) => {
                remove(work, &attachment, peb.get(), finding, Level::Drop)?;
            }
            (Location::Peb(peb, _), "volume-larger-than-record")
                if is_beyond_flash(work, &attachment, peb.get())? =>
            {
                remove(work, &attachment, peb.get(), finding, Level::Drop)?;
            }
            (Location::Peb(peb, _), "equal-sequence-numbers") => {
                twins(work, &attachment, peb.get(), finding)?;
            }
            _ => {}
        }
    }
    let attachment = work.attach()?;
    let mut known = Vec::new();
    each_nameless(work, &attachment, &mut |one| {
        let header = recovered_vid(&work.headers(one.peb)?, &work.layout);
        known.extend(header.map(|header| (one, header)));
        Ok(())
    })?;
    for (one, header) in known {
        by_one_byte(work, &one, &header, &attachment)?;
    }
    Ok(())
}

fn problems(attachment: &Attachment) -> impl Iterator<Item = &Finding> {
    attachment.findings.iter().filter(|finding| finding.severity > Severity::Note)
}

/// Returns whether the number of a LEB is that of none of the flash, nor of its volume: its record would
/// have to become larger than the flash.
fn is_beyond_flash(work: &Work, attachment: &Attachment, peb: u32) -> Result<bool, RepairError> {
    let Some(vid) = work.vid(peb)? else { return Ok(false) };
    let reserved = attachment.volume(vid.volume).map_or(0, |volume| volume.reserved_lebs);
    Ok(vid.leb.get() >= reserved.max(attachment.peb_count))
}

/// Moves an eraseblock to the quarantine and erases it.
fn remove(
    work: &mut Work,
    attachment: &Attachment,
    peb: u32,
    finding: &Finding,
    level: Level,
) -> Result<(), RepairError> {
    let at = Location::peb(Peb::new(peb));
    work.keep(peb, &finding.message)?;
    let why = format!("{}: erased", finding.message);
    let mut action = Action::new(level, finding.code.name(), "", at, "remove", why);
    if level > Level::Safe {
        action = action.losing(Loss { path: None, ino: 0, part: Part::Block { peb } });
    }
    work.plan.push(action);
    let erased = work.erased(attachment, peb);
    work.blocks.insert(peb, erased);
    Ok(())
}

/// Two eraseblocks hold the same LEB with the same sequence number, which UBI never writes. If the bytes
/// are the same, either will do.
fn twins(
    work: &mut Work,
    attachment: &Attachment,
    peb: u32,
    finding: &Finding,
) -> Result<(), RepairError> {
    let start = work.layout.data_offset() as usize;
    let block = work.block(peb)?;
    let kept = work.vid(peb)?.and_then(|vid| attachment.map(vid.volume)?.get(vid.leb));
    let Some(kept) = kept else { return Ok(()) };
    if work.block(kept.get())?[start..] == block[start..] {
        return remove(work, attachment, peb, finding, Level::Safe);
    }
    let what = format!("{}; their bytes differ, and nothing says which are right", finding.message);
    Err(RepairError::Unsupported { at: finding.at, what })
}

/// An eraseblock with data that belongs to no LEB. Its bytes are not kept: a flash may be full of such blocks.
struct Nameless {
    peb: u32,
    finding: Finding,
}

/// Finds the LEBs of eraseblocks whose VID headers are lost, once the volumes are known.
pub(super) fn identify(work: &mut Work) -> Result<(), RepairError> {
    let attachment = work.attach()?;
    let (mut missing, mut all) = (None, Vec::new());
    each_nameless(work, &attachment, &mut |one| {
        if missing.is_none() {
            missing = Some(Missing::of(&work.flash()?, &work.layout, work.options.attach)?);
        }
        let place = missing.as_ref().map(|missing| of_content(work, &one, missing)).transpose()?;
        let place = place.flatten();
        if place.is_some() || one.finding.code != "no-ubi-headers" {
            all.push((one, place));
        }
        Ok(())
    })?;
    let mut claims: BTreeMap<(VolumeId, Leb), u32> = BTreeMap::new();
    for place in all.iter().filter_map(|(_, place)| *place) {
        *claims.entry(place).or_default() += 1;
    }
    for (one, place) in &all {
        match place.filter(|place| claims.get(place) == Some(&1)) {
            Some((volume, leb)) => claim(work, &attachment, one, volume, leb)?,
            None if one.finding.code == "no-ubi-headers" => {}
            None if work.options.level >= Level::Drop => {
                remove(work, &attachment, one.peb, &one.finding, Level::Drop)?;
            }
            None => {}
        }
    }
    Ok(())
}

/// Takes an eraseblock.
type Sink<'a> = dyn FnMut(Nameless) -> Result<(), RepairError> + 'a;

/// Calls `sink` with each block with data without a usable VID header.
fn each_nameless(
    work: &Work,
    attachment: &Attachment,
    sink: &mut Sink<'_>,
) -> Result<(), RepairError> {
    for finding in problems(attachment) {
        if let Location::Peb(peb, _) = finding.at
            && NAMELESS.contains(&finding.code.name())
        {
            sink(Nameless { peb: peb.get(), finding: finding.clone() })?;
        }
    }
    let garbage = problems(attachment).find(|finding| finding.code == "no-ubi-headers");
    let Some(garbage) = garbage else { return Ok(()) };
    let is_candidate = |peb: &u32| {
        let info = attachment.peb(Peb::new(*peb));
        info.is_some_and(|info| info.state == PebState::Erase && info.erase_count.is_none())
    };
    for peb in (0..attachment.peb_count).filter(is_candidate) {
        let block = work.headers(peb)?;
        let (at, vid) = (Location::peb(Peb::new(peb)), work.layout.vid_hdr_offset() as usize);
        let quality = ReadQuality::Clean;
        let is_lost = classify_ec(&block, quality, &work.layout, at).is_bad()
            && classify_vid(&block[vid..], quality, &work.layout, at).is_bad();
        if is_lost {
            let message = "the eraseblock has no readable UBI header".to_owned();
            sink(Nameless { peb, finding: Finding { at, message, ..garbage.clone() } })?;
        }
    }
    Ok(())
}

/// Writes a VID header again of which one byte is wrong. Its sequence number stays: attaching decides
/// between it and other blocks of the LEB, as before the damage.
fn by_one_byte(
    work: &mut Work,
    one: &Nameless,
    header: &VidHeader,
    attachment: &Attachment,
) -> Result<(), RepairError> {
    let volume = attachment.volume(header.volume);
    let fits = volume.is_none_or(|volume| {
        volume.kind == header.kind
            && volume.data_pad == header.data_pad
            && header.leb.get() < volume.reserved_lebs
    });
    if !fits || header.sqnum.get() > attachment.max_sqnum.get().saturating_add(NEAR) {
        return Ok(());
    }
    let why = format!(
        "{}: one byte of it is wrong, which its checksum shows: LEB {} of volume {}",
        one.finding.message, header.leb, header.volume
    );
    put(work, attachment, one, header, why)
}

fn put(
    work: &mut Work,
    attachment: &Attachment,
    one: &Nameless,
    header: &VidHeader,
    why: String,
) -> Result<(), RepairError> {
    let at = Location::peb(Peb::new(one.peb));
    let action = Action::new(Level::Safe, one.finding.code.name(), "", at, "set", why);
    work.plan.push(action.shown_by(Location::VolumeLeb(header.volume, header.leb, 0)));
    let mut block = work.block(one.peb)?;
    let is_lost = classify_ec(&block, ReadQuality::Clean, &work.layout, at);
    if !matches!(is_lost, HeaderState::Ok(_)) {
        let ec = work.ec(attachment, one.peb);
        block[..HEADER].copy_from_slice(&eraseblock_ubi_format::encode::encode_ec(&ec));
    }
    let vid = work.layout.vid_hdr_offset() as usize;
    block[vid..][..HEADER].copy_from_slice(&encode_vid(header));
    work.blocks.insert(one.peb, block);
    Ok(())
}

/// Returns the LEB of a UBIFS whose index says exactly what is in this block.
fn of_content(
    work: &Work,
    one: &Nameless,
    missing: &Missing,
) -> Result<Option<(VolumeId, Leb)>, RepairError> {
    if missing.is_empty() {
        return Ok(None);
    }
    let block = work.block(one.peb)?;
    let data = &block[work.layout.data_offset() as usize..];
    Ok(if is_erased(data) { None } else { missing.place_of(data) })
}

/// Gives a block the LEB that its content belongs to.
fn claim(
    work: &mut Work,
    attachment: &Attachment,
    one: &Nameless,
    volume: VolumeId,
    leb: Leb,
) -> Result<(), RepairError> {
    let data_pad = attachment.volume(volume).map_or(0, |volume| volume.data_pad);
    let header = VidHeader {
        kind: VolumeKind::Dynamic,
        copy_flag: false,
        compat: Compat::None,
        volume,
        leb,
        data_size: 0,
        used_lebs: 0,
        data_pad,
        data_crc: 0,
        sqnum: work.next_sqnum(attachment),
    };
    let why = format!(
        "{}: its nodes are those that the index has in LEB {leb} of volume {volume}",
        one.finding.message
    );
    put(work, attachment, one, &header, why)
}
