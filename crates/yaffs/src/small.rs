//! Mounts YAFFS1 by scanning: pages in ascending order, conflicts decided by serial numbers (spec:
//! yaffs2 11).

use crate::codes;
use crate::medium::{Flash, RawPage};
use crate::mount::Counts;
use crate::objects::{Objects, Stated};
use crate::scan::read_header;
use eraseblock_base::Findings;
use eraseblock_base::align::is_erased;
use eraseblock_mtd::ReadError;
use eraseblock_yaffs_format::constants::object;
use eraseblock_yaffs_format::small::{PAGE_STATUS, SPARE, SmallTags, is_programmed};
use std::collections::BTreeMap;

/// The chunk that is in use of an object and a number.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    page: u32,
    serial: u8,
    /// The most bytes that any version of it has: a truncation that was cut short does not count,
    /// as in the reference.
    bytes: u32,
}

/// The tags of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SmallTagged {
    Unused,
    Deleted,
    Damaged,
    Good(SmallTags),
}

fn tags(page: RawPage<'_>) -> SmallTagged {
    let Some(spare) = page.spare.first_chunk::<SPARE>() else { return SmallTagged::Damaged };
    if is_erased(spare) {
        return SmallTagged::Unused;
    }
    if is_programmed(spare[PAGE_STATUS]) {
        return SmallTagged::Deleted;
    }
    match SmallTags::decode(spare) {
        Some((tags, _)) if (1..=object::MAX).contains(&tags.object) => SmallTagged::Good(tags),
        _ => SmallTagged::Damaged,
    }
}

/// Returns the number of valid bytes that the tags of a page state.
pub(crate) fn bytes_of(page: RawPage<'_>, id: u32, chunk: u32) -> Option<u32> {
    match tags(page) {
        SmallTagged::Good(tags) => ((tags.object, tags.chunk) == (id, chunk)).then_some(tags.bytes),
        _ => Some(u32::MAX),
    }
}

/// Scans all blocks.
pub(crate) fn scan(flash: &Flash, findings: &mut Findings) -> Result<(Objects, Counts), ReadError> {
    let (mut chunks, mut counts) = (BTreeMap::new(), Counts::default());
    for block in 0..flash.blocks {
        let pages = flash.block(block)?;
        if flash.is_bad(block, &pages)? {
            counts.bad_blocks += 1;
            continue;
        }
        let first = block * flash.layout.pages_per_block;
        let mut used = 0;
        for index in 0..flash.layout.pages_per_block {
            match tags(pages.get(index)) {
                SmallTagged::Unused => break,
                SmallTagged::Deleted => {}
                SmallTagged::Damaged => {
                    let message = "tags with more wrong bits than their ECC corrects: the page is \
                                   ignored";
                    findings.warn(flash.location(first + index), codes::TAGS_DAMAGED, message);
                }
                SmallTagged::Good(tags) => add(&mut chunks, flash, tags, first + index),
            }
            used += 1;
        }
        counts.used_pages += used;
        counts.free_blocks += u32::from(used == 0);
    }
    Ok((objects(flash, chunks, findings)?, counts))
}

/// Takes a chunk unless the one before it is newer. Serial numbers of some writers are garbage; if
/// they do not decide, the later page of one block is newer.
fn add(chunks: &mut BTreeMap<(u32, u32), Chunk>, flash: &Flash, tags: SmallTags, page: u32) {
    let mut next = Chunk { page, serial: tags.serial, bytes: tags.bytes };
    let block = |chunk: &Chunk| chunk.page / flash.layout.pages_per_block;
    let is_newer = |last: &Chunk| match next.serial.wrapping_sub(last.serial) & 3 {
        1 => true,
        3 => false,
        _ => block(last) == block(&next),
    };
    let key = (tags.object, tags.chunk);
    if let Some(last) = chunks.get_mut(&key) {
        let bytes = last.bytes.max(next.bytes);
        if !is_newer(last) {
            next = *last;
        }
        *last = Chunk { bytes, ..next };
    } else {
        chunks.insert(key, next);
    }
}

/// Puts the objects together: headers first, then data, which alone decides on sizes.
fn objects(
    flash: &Flash,
    chunks: BTreeMap<(u32, u32), Chunk>,
    findings: &mut Findings,
) -> Result<Objects, ReadError> {
    let mut objects = Objects::new(flash.layout.data());
    let mut replaced = Vec::new();
    for ((id, _), Chunk { page, .. }) in chunks.iter().filter(|((_, chunk), _)| *chunk == 0) {
        let header = read_header(flash, *page)?.filter(|header| header.parent <= object::MAX);
        let Some(header) = header else {
            let message = format!("damaged header of object {id}: it is ignored");
            findings.warn(flash.location(*page), codes::HEADER_DAMAGED, message);
            continue;
        };
        let stated = Stated {
            kind: header.kind,
            parent: header.parent,
            size: 0,
            equivalent: header.equivalent,
            is_shrink: false,
        };
        replaced.extend(Some(header.shadows).filter(|id| *id > object::DELETED));
        objects.header(*id, &stated, Some((*page, header)));
    }
    for id in replaced {
        if let Some(object) = objects.all.get_mut(&id) {
            object.parent = object::DELETED;
        }
    }
    for ((id, chunk), Chunk { page, bytes, .. }) in chunks {
        if chunk > 0 {
            objects.furthest(id, chunk, bytes.min(flash.layout.data()), page);
        }
    }
    Ok(objects)
}
