//! The number of pages in a block: sequence numbers change where blocks begin.

use super::sample::is_plausible;
use crate::layout::{Layout, Version};
use crate::medium::Source;
use crate::page::Tagged;
use eraseblock_mtd::ReadError;
use eraseblock_yaffs_format::constants::{CHECKPOINT_SEQUENCE, SEQUENCES};

/// Pages in use after which the evidence is enough.
const ENOUGH: u32 = 8192;
/// Pages read at a time.
const RUN: u32 = 256;
/// Pages in a block: what chips have, the likelier ones first.
const USUAL: [u32; 5] = [64, 32, 128, 256, 16];

/// What speaks against a number of pages in a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Objections {
    /// Sequence numbers that change inside of a block, or that two blocks have.
    sequences: u32,
    /// Pages in use after one that is not, or an incomplete block at the end.
    gaps: u32,
}

/// Returns the number of pages in a block that contradicts the fewest sequence numbers.
pub(super) fn pages_per_block(
    source: &Source,
    layout: &Layout,
    size: u64,
) -> Result<u32, ReadError> {
    let count = (size / u64::from(layout.raw())) as u32;
    if layout.version == Version::Yaffs1 {
        return Ok(Layout::small().pages_per_block);
    }
    let mut objections = USUAL
        .map(|pages| Objections { sequences: 0, gaps: u32::from(!count.is_multiple_of(pages)) });
    let (mut last, mut first_sequence, mut used, mut changes) = (None, None, 0, 0_u32);
    for first in (0..count).step_by(RUN as usize) {
        let len = RUN.min(count - first);
        let pages = source.pages(layout.page, layout.spare, first, len)?;
        for index in 0..len {
            let sequence = match layout.tags(pages.get(index)) {
                Tagged::Good(tags) if is_plausible(layout, &tags) => Some(tags.sequence),
                Tagged::Unused => None,
                // It may belong to either block.
                _ => continue,
            };
            first_sequence = first_sequence.or(sequence);
            used += u32::from(sequence.is_some());
            changes += u32::from(sequence.is_some() && last.is_some() && sequence != last);
            for (objection, pages) in objections.iter_mut().zip(USUAL) {
                let is_start = (first + index).is_multiple_of(pages);
                match (last, sequence) {
                    // All blocks of a checkpoint have one number.
                    (Some(CHECKPOINT_SEQUENCE), Some(CHECKPOINT_SEQUENCE)) | (_, None) => {}
                    (Some(last), Some(next)) => {
                        objection.sequences += u32::from((last == next) == is_start);
                    }
                    (None, Some(_)) => objection.gaps += u32::from(!is_start),
                }
            }
            last = sequence;
        }
        if used >= ENOUGH {
            break;
        }
    }
    // The image tool gives all blocks the lowest number, which no mount gives to any: then nothing
    // depends on where they begin.
    if changes == 0 && first_sequence == Some(*SEQUENCES.start()) {
        return Ok(USUAL[0]);
    }
    let best = objections.iter().zip(USUAL).min_by_key(|(objection, _)| **objection);
    Ok(best.map_or(USUAL[0], |(_, pages)| pages))
}
