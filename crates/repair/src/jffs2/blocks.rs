//! Eraseblocks: damaged places become padding, and new nodes get a block of their own.

use super::Work;
use super::model::Bad;
use crate::error::RepairError;
use crate::flash::{Blocks, read_block};
use crate::plan::{Action, Level, Loss, Part, without_place};
use crate::rules::Quarantined;
use eraseblock_base::{ByteOrder, Location, Peb};
use eraseblock_jffs2::Source;
use eraseblock_jffs2_format::constants::{ACCURATE, HEADER_LEN};
use eraseblock_jffs2_format::{NodeKind, encode, summary};
use std::collections::BTreeSet;

/// Marks what cannot be used, in memory: Linux leaves such places alone.
pub(super) fn without_damage(work: &mut Work<'_>, source: &Source) -> Result<Blocks, RepairError> {
    let mut blocks = Blocks::new();
    let bad = work.model.bad.clone();
    let changed: BTreeSet<u32> =
        bad.iter().map(|bad| bad.peb).chain(work.model.summaries.keys().copied()).collect();
    for peb in changed {
        let shape = work.model.shape;
        let Some(mut block) = read_block(source, shape.start, shape.erase_size, peb)? else {
            continue;
        };
        for bad in bad.iter().filter(|bad| bad.peb == peb) {
            mark(work, bad, &mut block);
        }
        drop_summary(work, peb, &mut block);
        blocks.insert(peb, block);
    }
    Ok(blocks)
}

fn mark(work: &mut Work<'_>, bad: &Bad, block: &mut [u8]) {
    let order = work.model.shape.order;
    let at = Location::Peb(Peb::new(bad.peb), bad.offset);
    let start = bad.offset as usize;
    let end = (start + bad.len as usize).min(block.len());
    let place = &mut block[start..end];
    let what = if bad.is_node {
        // The header stays: its checksum counts the bit as set.
        let kind = order.u16_at(place, 2) & !ACCURATE;
        place[2..4].copy_from_slice(&order.u16_bytes(kind));
        "marked as obsolete"
    } else {
        fill(order, place);
        "becomes padding"
    };
    let why = format!("{}: {what}", bad.why);
    let mut action = Action::new(Level::Safe, bad.code, "", at, "remove", why);
    if bad.kind == Some(NodeKind::Xattr) {
        action = without_xattr(work, bad, action);
    }
    work.plan.push(action);
    let bytes = bad.bytes.clone();
    work.quarantine.push(Quarantined { at, why: bad.why.clone(), bytes });
}

/// Names the xattrs that a damaged node held.
fn without_xattr(work: &Work<'_>, bad: &Bad, mut action: Action) -> Action {
    if bad.bytes.len() < 16 {
        return action;
    }
    let xid = work.model.shape.order.u32_at(&bad.bytes, 12);
    for (ino, _) in work.model.xrefs.iter().filter(|(_, pair)| *pair == xid) {
        let path = work.paths.get(&u64::from(*ino)).cloned();
        action.level = Level::Drop;
        action = action.losing(Loss { path, ino: *ino, part: Part::Xattr { name: None } });
    }
    action
}

/// Puts padding into a place: a node, if one fits.
fn fill(order: ByteOrder, place: &mut [u8]) {
    place.fill(0);
    if place.len() >= HEADER_LEN as usize {
        let mut node = Vec::new();
        encode::padding(order, (place.len() & !3) as u32, &mut node);
        let len = node.len().min(place.len());
        place[..len].copy_from_slice(&node[..len]);
    }
}

/// Removes the summary of a block that changes: Linux scans the block then.
fn drop_summary(work: &mut Work<'_>, peb: u32, block: &mut [u8]) {
    let order = work.model.shape.order;
    let Some(offset) = summary::marked_offset(order, block) else { return };
    let tail = block.len() - HEADER_LEN as usize;
    let start =
        if (offset as usize) < tail && offset.is_multiple_of(4) { offset as usize } else { tail };
    if let Some(why) = work.model.summaries.get(&peb) {
        let at = Location::Peb(Peb::new(peb), offset);
        let why = without_place(at, why);
        let why = format!("{why}: the summary is dropped, mounts scan the block");
        work.plan.push(Action::new(Level::Safe, "summary-damaged", "", at, "remove", why));
    }
    fill(order, &mut block[start..]);
}

/// Puts the new nodes into blocks that hold nothing or, of a file, after its end.
pub(super) fn place(
    work: &Work<'_>,
    source: &Source,
    blocks: &mut Blocks,
) -> Result<(), RepairError> {
    let shape = work.model.shape;
    let mut free = work.model.free.iter().copied();
    let can_grow = matches!(source, Source::Image(_)) && !work.model.is_followed;
    let mut behind = work.model.blocks..u32::MAX;
    let mut nodes = work.nodes.iter().peekable();
    while nodes.peek().is_some() {
        let grown = if can_grow { behind.next() } else { None };
        let peb = free.next().or(grown).ok_or(RepairError::NoBlock)?;
        let mut block = Vec::new();
        if shape.cleanmarker > 0 {
            encode::cleanmarker(shape.order, shape.cleanmarker, &mut block);
        }
        let start = block.len();
        while let Some(node) =
            nodes.next_if(|node| block.len() + node.len() <= shape.erase_size as usize)
        {
            block.extend_from_slice(node);
        }
        if block.len() == start {
            return Err(RepairError::NoBlock);
        }
        if let Source::Device(device) = source {
            pad_page(shape.order, device.geometry().min_io() as usize, &mut block);
        }
        blocks.insert(peb, block);
    }
    Ok(())
}

/// Fills the last page: a page is programmed once.
fn pad_page(order: ByteOrder, page: usize, block: &mut Vec<u8>) {
    let start = block.len();
    block.resize(start.next_multiple_of(page.max(1)), 0);
    fill(order, &mut block[start..]);
}
