//! Mounts YAFFS2 from a checkpoint (spec: yaffs2 7).
//!
//! A writer erases the checkpoint before its first change, but a cut may leave an erase that shows
//! the old pages again at a later mount. So a checkpoint counts only if the flash is as it says:
//! every change programs the next page of the block that was written to, or the first page of a
//! block that was erased. Both are compared, with the header of every object.

use crate::medium::{Flash, Pages};
use crate::mount::Counts;
use crate::objects::{Object, Objects};
use crate::page::Tagged;
use crate::scan::{Status, header_on};
use eraseblock_mtd::ReadError;
use eraseblock_yaffs_format::Tags;
use eraseblock_yaffs_format::checkpoint::{
    self, BlockInfo, Checkpoint, CheckpointError, PAGE_HEADER_LEN, Shape, Sums, state,
};
use eraseblock_yaffs_format::constants::{CHECKPOINT_SEQUENCE, SEQUENCES, object};

/// What a search for a checkpoint found.
#[derive(Debug)]
pub(crate) enum Restored {
    /// There is none.
    None,
    /// There is one that cannot be used, for this reason.
    Damaged(String),
    /// The state it holds.
    State(Box<State>),
}

/// The state that a checkpoint holds.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) objects: Objects,
    pub(crate) counts: Counts,
    /// What is in each block.
    pub(crate) statuses: Vec<Status>,
    /// Blocks in which a program failed.
    pub(crate) failing: Vec<u32>,
    /// The block that was written to, and its next page.
    pub(crate) current: Option<(u32, u32)>,
}

/// The first page of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Unused,
    Damaged,
    Numbered(u32),
}

/// Finds and restores a checkpoint.
pub(crate) fn restore(flash: &Flash) -> Result<Restored, ReadError> {
    let (firsts, stream) = stream(flash)?;
    let Some(stream) = stream else { return Ok(Restored::None) };
    let checkpoint = match parse(flash, &stream) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return Ok(Restored::Damaged(error.to_string())),
    };
    let outdated = |what: String| {
        Ok(Restored::Damaged(format!("{what} is not as the checkpoint says: it is outdated")))
    };
    if let Some(block) =
        checkpoint.blocks.iter().zip(&firsts).position(|(block, first)| !fits(block, *first))
    {
        return outdated(format!("block {block}"));
    }
    let current = current(flash, &checkpoint);
    if let Some((block, next)) = current
        && flash.layout.tags(flash.page(block * flash.layout.pages_per_block + next)?.get(0))
            != Tagged::Unused
    {
        return outdated(format!("page {next} of block {block}"));
    }
    let (counts, statuses) = (counts(flash, &checkpoint, &firsts), statuses(&checkpoint, &firsts));
    let failing = (0..).zip(&checkpoint.blocks).filter(|(_, block)| block.is_failing);
    let failing = failing.map(|(number, _)| number).collect();
    match objects(flash, checkpoint)? {
        Ok(objects) => {
            let state = State { objects, counts, statuses, failing, current };
            Ok(Restored::State(Box::new(state)))
        }
        Err(id) => outdated(format!("object {id}")),
    }
}

/// Returns whether the first page of a block is as a checkpoint says.
fn fits(block: &BlockInfo, first: First) -> bool {
    match block.state {
        state::EMPTY | state::CHECKPOINT => {
            matches!(first, First::Unused | First::Numbered(CHECKPOINT_SEQUENCE))
        }
        state::ALLOCATING | state::FULL | state::DIRTY | state::COLLECTING => {
            matches!(first, First::Damaged) || first == First::Numbered(block.sequence)
        }
        _ => true,
    }
}

/// Returns the block that is written to and its next page, if that block has one.
fn current(flash: &Flash, checkpoint: &Checkpoint) -> Option<(u32, u32)> {
    let device = &checkpoint.device;
    let block = u32::try_from(device.allocation_block).ok()?.checked_sub(1)?;
    let state = checkpoint.blocks.get(block as usize)?.state;
    (state == state::ALLOCATING && device.allocation_page < flash.layout.pages_per_block)
        .then_some((block, device.allocation_page))
}

/// Returns the first pages of all blocks, and the stream if a block may have a part of it.
fn stream(flash: &Flash) -> Result<(Vec<First>, Option<Vec<u8>>), ReadError> {
    let most = flash.blocks / 16 + 2;
    let mut firsts = Vec::new();
    let (mut stream, mut sums, mut number, mut taken) = (Vec::new(), Sums::default(), 0, 0);
    for block in 0..flash.blocks {
        let page = flash.page(block * flash.layout.pages_per_block)?;
        let tagged = flash.layout.tags(page.get(0));
        firsts.push(match tagged {
            Tagged::Unused => First::Unused,
            Tagged::Damaged => First::Damaged,
            Tagged::Good(tags) => First::Numbered(tags.sequence),
        });
        let is_next = matches!(tagged, Tagged::Good(tags) if is_part(&tags, number));
        if !is_next || taken == most {
            continue;
        }
        taken += 1;
        let pages = flash.block(block)?;
        if flash.is_bad(block, &pages)? {
            continue;
        }
        for index in 0..flash.layout.pages_per_block {
            let Some(payload) = payload(flash, &pages, index, number, sums) else { break };
            sums.add(&payload);
            stream.extend(payload);
            number += 1;
        }
    }
    Ok((firsts, (taken > 0).then_some(stream)))
}

/// Returns whether tags are those of the page with this number of a checkpoint.
fn is_part(tags: &Tags, number: u32) -> bool {
    (tags.sequence, tags.chunk) == (CHECKPOINT_SEQUENCE, number + 1)
}

/// Returns the part of the stream in a page, if it is the page with this number.
fn payload(flash: &Flash, pages: &Pages, index: u32, number: u32, sums: Sums) -> Option<Vec<u8>> {
    let (layout, page) = (&flash.layout, pages.get(index));
    let is_next = matches!(layout.tags(page), Tagged::Good(tags) if is_part(&tags, number));
    let data = layout.data_of(page).filter(|_| is_next)?;
    let data = &data[..layout.data() as usize];
    sums.fit(layout.order, number, data).then(|| data[PAGE_HEADER_LEN..].to_vec())
}

/// Parses the stream of a writer with pointers of either size.
fn parse(flash: &Flash, stream: &[u8]) -> Result<Checkpoint, CheckpointError> {
    let (blocks, chunks) = (flash.blocks, flash.layout.pages_per_block);
    let of =
        |pointer| checkpoint::parse(flash.layout.order, Shape { blocks, chunks, pointer }, stream);
    of(8).or_else(|error| of(4).map_err(|_| error))
}

fn counts(flash: &Flash, checkpoint: &Checkpoint, firsts: &[First]) -> Counts {
    let in_state = |state| checkpoint.blocks.iter().filter(|it| it.state == state).count() as u32;
    let of_checkpoint = |first: &&First| **first == First::Numbered(CHECKPOINT_SEQUENCE);
    let checkpoint_blocks = firsts.iter().filter(of_checkpoint).count() as u32;
    let is_used = |block: &&BlockInfo| ![state::EMPTY, state::DEAD].contains(&block.state);
    let used = checkpoint.blocks.iter().filter(is_used).count() as u32;
    let sequences = checkpoint.blocks.iter().map(|block| block.sequence);
    Counts {
        bad_blocks: in_state(state::DEAD),
        // The blocks of the checkpoint itself still count as empty in it.
        free_blocks: in_state(state::EMPTY).saturating_sub(checkpoint_blocks),
        checkpoint_blocks,
        used_pages: used * flash.layout.pages_per_block,
        // The device record has the byte order of the writer's processor, blocks that of the flash.
        sequence: sequences.filter(|it| SEQUENCES.contains(it)).max().unwrap_or(0),
        summaries: 0,
    }
}

fn statuses(checkpoint: &Checkpoint, firsts: &[First]) -> Vec<Status> {
    let status = |(block, first): (&BlockInfo, &First)| match block.state {
        _ if *first == First::Numbered(CHECKPOINT_SEQUENCE) => Status::Checkpoint,
        state::EMPTY | state::CHECKPOINT => Status::Empty,
        state::ALLOCATING | state::FULL | state::DIRTY | state::COLLECTING => {
            let BlockInfo { sequence, has_shrink, has_summary, .. } = *block;
            Status::Objects { sequence, has_shrink, has_summary }
        }
        state::DEAD => Status::Bad,
        _ => Status::Foreign,
    };
    checkpoint.blocks.iter().zip(firsts).map(status).collect()
}

/// The objects of a checkpoint, or the number of the first one that is not where it should be.
fn objects(flash: &Flash, checkpoint: Checkpoint) -> Result<Result<Objects, u32>, ReadError> {
    let mut objects = Objects::new(flash.layout.data());
    let per_block = flash.layout.pages_per_block;
    // Blocks are counted from 1.
    let place =
        |chunk: u32| chunk.checked_sub(per_block).filter(|page| *page < flash.blocks * per_block);
    for (rank, stored) in (1..).zip(checkpoint.objects) {
        let mut object = Object::unknown(stored.kind);
        object.is_settled = true;
        object.rank = rank;
        object.parent = stored.parent;
        object.equivalent = stored.value as u32;
        object.size = stored.value;
        if stored.header != 0 {
            let Some(page) = place(stored.header) else { return Ok(Err(stored.id)) };
            let pages = flash.page(page)?;
            if !has_header(flash, &pages, stored.id) {
                return Ok(Err(stored.id));
            }
            object.header = header_on(flash, page, &pages).map(|header| (page, header));
        }
        for (chunk, at) in stored.map {
            let Some(page) = place(at) else { return Ok(Err(stored.id)) };
            objects.chunks.insert((stored.id, chunk), page);
        }
        if stored.id > object::DELETED {
            objects.all.insert(stored.id, object);
        } else if let Some(own) = objects.all.get_mut(&stored.id) {
            own.header = object.header;
        }
    }
    Ok(Ok(objects))
}

/// Returns whether the tags of a page are those of an object's header, or damaged.
fn has_header(flash: &Flash, pages: &Pages, id: u32) -> bool {
    match flash.layout.tags(pages.get(0)) {
        Tagged::Good(tags) => (tags.object, tags.chunk) == (id, 0),
        Tagged::Damaged => true,
        Tagged::Unused => false,
    }
}
