//! The tags of all blocks, in one pass over the flash.

use crate::medium::{Flash, Pages};
use crate::mount::Counts;
use crate::page::Tagged;
use eraseblock_base::Findings;
use eraseblock_mtd::ReadError;
use eraseblock_yaffs_format::constants::{CHECKPOINT_SEQUENCE, SEQUENCES};
use eraseblock_yaffs_format::{PackedTags, Tags, summary};

/// What the scan found in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Marked bad.
    Bad,
    /// No chunk of it counts.
    Empty,
    /// A part of a checkpoint.
    Checkpoint,
    /// Chunks of objects.
    Objects {
        /// Its sequence number.
        sequence: u32,
        /// Whether a header in it may void older data.
        has_shrink: bool,
        /// Whether its last chunks describe the others.
        has_summary: bool,
    },
    /// Tags with a sequence number of no known meaning.
    Foreign,
}

/// A block with objects.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) number: u32,
    pub(super) sequence: u32,
    pub(super) tags: Vec<Tagged>,
}

/// Reads the tags of all blocks. Those without objects are counted and left out.
pub(super) fn read(
    flash: &Flash,
    findings: &mut Findings,
) -> Result<(Vec<Block>, Counts, Vec<Status>), ReadError> {
    let (mut blocks, mut counts, mut all) = (Vec::new(), Counts::default(), Vec::new());
    for number in 0..flash.blocks {
        let pages = flash.block(number)?;
        if flash.is_bad(number, &pages)? {
            counts.bad_blocks += 1;
            all.push(Status::Bad);
            continue;
        }
        let pages_of = 0..flash.layout.pages_per_block;
        let tags: Vec<Tagged> = pages_of.map(|page| flash.layout.tags(pages.get(page))).collect();
        let used = tags.iter().filter(|tagged| **tagged != Tagged::Unused).count() as u32;
        let Some(sequence) = sequence(&tags) else {
            note_half_erased(flash, number, used, findings);
            counts.free_blocks += 1;
            all.push(Status::Empty);
            continue;
        };
        if sequence == CHECKPOINT_SEQUENCE {
            counts.checkpoint_blocks += 1;
            all.push(Status::Checkpoint);
        } else if SEQUENCES.contains(&sequence) {
            counts.used_pages += used;
            let mut block = Block { number, sequence, tags };
            let has_summary = apply_summary(flash, &pages, &mut block);
            counts.summaries += u32::from(has_summary);
            let has_shrink = block.tags.iter().any(may_shrink);
            all.push(Status::Objects { sequence, has_shrink, has_summary });
            blocks.push(block);
        } else {
            all.push(Status::Foreign);
        }
    }
    Ok((blocks, counts, all))
}

/// Returns whether a page may be a header that voids older data: one without extra information has to
/// be taken for one.
fn may_shrink(tagged: &Tagged) -> bool {
    match tagged {
        Tagged::Good(tags) => tags.chunk == 0 && tags.extra.is_none_or(|extra| extra.is_shrink),
        _ => false,
    }
}

/// The sequence number of a block: of the first page with good tags. A block whose first page is
/// blank was erased in part, and counts as erased. The reference takes a number even from damaged
/// tags, and garbage becomes the highest number (spec: yaffs2 6).
fn sequence(tags: &[Tagged]) -> Option<u32> {
    if tags.first() == Some(&Tagged::Unused) {
        return None;
    }
    tags.iter().find_map(|tagged| match tagged {
        Tagged::Good(tags) => Some(tags.sequence),
        _ => None,
    })
}

fn note_half_erased(flash: &Flash, number: u32, used: u32, findings: &mut Findings) {
    if used > 0 {
        let at = flash.location(number * flash.layout.pages_per_block);
        let message = format!("erased in part: {used} pages of old data are ignored");
        findings.note(at, "block-half-erased", message);
    }
}

/// Replaces the tags of a block by those in its summary; returns whether it has one.
fn apply_summary(flash: &Flash, pages: &Pages, block: &mut Block) -> bool {
    let layout = &flash.layout;
    let shape = summary::Shape { chunks: layout.pages_per_block, data: layout.data() };
    let first = shape.described();
    let mut chunks = Vec::new();
    for index in 0..shape.parts() {
        let Some(Tagged::Good(tags)) = block.tags.get((first + index) as usize) else {
            return false;
        };
        if !shape.has_tags(index, block.sequence, tags) {
            return false;
        }
        let Some(data) = layout.data_of(pages.get(first + index)) else { return false };
        chunks.push(data);
    }
    let parts: Vec<&[u8]> = chunks.iter().map(|chunk| &chunk[..]).collect();
    let Some(entries) = summary::decode(layout.order, shape, block.sequence, &parts) else {
        return false;
    };
    for (tagged, entry) in block.tags.iter_mut().zip(entries) {
        let is_listed = |entry: &PackedTags| entry.object != 0 && entry.object != u32::MAX;
        if let Some(tags) = Some(entry).filter(is_listed).and_then(Tags::unpack) {
            *tagged = Tagged::Good(tags);
        }
    }
    true
}
