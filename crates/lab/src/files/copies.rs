//! What a garbage collection that keeps versions leaves on a JFFS2 medium: two copies of every node
//! of a block, and the older block whole, or erased in part.

use super::stack::Happened;
use eraseblock_base::Peb;
use eraseblock_base::align::is_erased;
use eraseblock_mtd::{Mtd, MtdError};
use eraseblock_nandsim::{Chip, Rng, Variant};

/// The names of what it counts: copies, summarised blocks whose erase was cut, all such blocks.
pub(super) const RARE: [&str; 3] =
    ["blocks copied with versions", "summarised blocks half erased", "blocks half erased"];

/// The end of a block that is closed by a summary.
const SUMMARY: [u8; 4] = [0x85, 0x18, 0x85, 0x02];

/// Copies a block to an erased one, which has its clean marker, and cuts the erase of the first one
/// in three of four cases. The chip is not mounted, so that all it holds is durable.
pub(super) fn leave(chip: &Chip) -> Result<Happened, String> {
    let mut random = Rng::new(chip.next_event(), 4);
    let mut counts = Happened::new();
    let blocks = read(chip).map_err(|error| error.to_string())?;
    let (mut full, mut free) = (Vec::new(), Vec::new());
    let (marked, page) = (marker_len(chip), chip.geometry().min_io().max(4) as usize);
    for (peb, bytes) in &blocks {
        if is_erased(&bytes[marked..]) && is_marked(chip, *peb, bytes) {
            free.push(*peb);
        } else if !is_erased(&bytes[marked..marked + page]) {
            // No driver copies a block whose own erase was cut.
            full.push((*peb, bytes));
        }
    }
    // The last free block is needed to mount.
    let (Some(to), true, false) = (free.first(), free.len() > 2, full.is_empty()) else {
        return Ok(counts);
    };
    let closed: Vec<_> = full.iter().filter(|(_, bytes)| bytes.ends_with(&SUMMARY)).collect();
    let pick =
        |random: &mut Rng, count: usize| random.below(u32::try_from(count).unwrap_or(1)) as usize;
    let (from, bytes) = match closed.len() {
        0 => full[pick(&mut random, full.len())],
        count => *closed[pick(&mut random, count)],
    };
    copy(chip, bytes, *to).map_err(|error| error.to_string())?;
    *counts.entry(RARE[0]).or_default() += 1;
    if random.below(4) != 0 && cut_erase(chip, from, &mut random)? {
        *counts.entry(RARE[2]).or_default() += 1;
        if !closed.is_empty() {
            *counts.entry(RARE[1]).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Returns the content of the blocks that are not bad.
fn read(chip: &Chip) -> Result<Vec<(Peb, Vec<u8>)>, MtdError> {
    let geometry = chip.geometry();
    let mut blocks = Vec::new();
    for peb in geometry.pebs() {
        if chip.is_bad(peb)? {
            continue;
        }
        let mut bytes = vec![0; geometry.peb_size() as usize];
        chip.read(geometry.address_of(peb), &mut bytes)?;
        blocks.push((peb, bytes));
    }
    Ok(blocks)
}

/// Returns the length of the clean marker at the start of a block; on NAND it is out of band.
fn marker_len(chip: &Chip) -> usize {
    if chip.geometry().oob_size() > 0 { 0 } else { 12 }
}

fn is_marked(chip: &Chip, peb: Peb, bytes: &[u8]) -> bool {
    let geometry = chip.geometry();
    if geometry.oob_size() == 0 {
        return !is_erased(&bytes[..marker_len(chip)]);
    }
    let mut oob = vec![0xFF; geometry.oob_size() as usize];
    chip.read_oob(geometry.address_of(peb), 0, &mut oob).is_ok() && !is_erased(&oob)
}

/// Programs all pages of `bytes` that are not erased.
fn copy(chip: &Chip, bytes: &[u8], to: Peb) -> Result<(), MtdError> {
    let geometry = chip.geometry();
    let start = geometry.address_of(to);
    let (page, marked) = (geometry.min_io().max(4) as usize, marker_len(chip));
    for (at, page) in (marked..).step_by(page).zip(bytes[marked..].chunks(page)) {
        if !is_erased(page) {
            chip.program(start + at as u64, page)?;
        }
    }
    Ok(())
}

/// Erases a block, and leaves the chip as one of the cuts of that erase that erase a part of it.
fn cut_erase(chip: &Chip, peb: Peb, random: &mut Rng) -> Result<bool, String> {
    chip.set_recording(true);
    let erased = chip.erase(peb).map_err(|error| error.to_string());
    let events = chip.take_recording();
    chip.set_recording(false);
    erased?;
    let Some(event) = events.into_iter().next() else { return Ok(false) };
    let halves: Vec<_> = event
        .variants()
        .into_iter()
        .filter(|variant| {
            variant.is_in_model() && matches!(variant, Variant::E2 { .. } | Variant::E5)
        })
        .collect();
    let Some(variant) = halves.get(random.below(2) as usize % halves.len().max(1)) else {
        return Ok(false);
    };
    let cut = event.cut(*variant, random.next_u64()).map_err(|error| error.to_string())?;
    cut.power_on();
    chip.restore(&cut.snapshot()).map_err(|error| error.to_string())?;
    Ok(true)
}
