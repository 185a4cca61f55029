//! Mounts YAFFS2 from a checkpoint (spec: yaffs2 7).
//!
//! Nothing on flash says that a checkpoint is still valid, so the header of every object is compared
//! with it: one that does not match voids it, and the blocks are scanned.

use crate::medium::Flash;
use crate::mount::Counts;
use crate::objects::{Object, Objects};
use crate::page::Tagged;
use crate::scan::read_header;
use eraseblock_mtd::ReadError;
use eraseblock_yaffs_format::Tags;
use eraseblock_yaffs_format::checkpoint::{
    self, Checkpoint, CheckpointError, PAGE_HEADER_LEN, Shape, Sums,
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
    Objects(Objects, Counts),
}

/// Block states.
const EMPTY: u32 = 3;
const DEAD: u32 = 9;

/// Finds and restores a checkpoint.
pub(crate) fn restore(flash: &Flash) -> Result<Restored, ReadError> {
    let Some((stream, blocks)) = stream(flash)? else { return Ok(Restored::None) };
    let checkpoint = match parse(flash, &stream) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return Ok(Restored::Damaged(error.to_string())),
    };
    let counts = counts(flash, &checkpoint, blocks);
    match objects(flash, checkpoint)? {
        Ok(objects) => Ok(Restored::Objects(objects, counts)),
        Err(id) => {
            let why = format!("object {id} is not where the checkpoint says: it is outdated");
            Ok(Restored::Damaged(why))
        }
    }
}

/// Reads the stream, and returns it with the number of blocks that it takes.
fn stream(flash: &Flash) -> Result<Option<(Vec<u8>, u32)>, ReadError> {
    let most = flash.blocks / 16 + 2;
    let (mut stream, mut sums, mut number, mut taken) = (Vec::new(), Sums::default(), 0, 0);
    for block in 0..flash.blocks {
        let first = flash.page(block * flash.layout.pages_per_block)?;
        let starts = |tagged| match tagged {
            Tagged::Good(Tags { sequence, chunk, .. }) => {
                sequence == CHECKPOINT_SEQUENCE && chunk == number + 1
            }
            _ => false,
        };
        if !starts(flash.layout.tags(first.get(0))) {
            continue;
        }
        if taken == most {
            break;
        }
        taken += 1;
        let pages = flash.block(block)?;
        if flash.is_bad(block, &pages)? {
            continue;
        }
        for index in 0..flash.layout.pages_per_block {
            let page = pages.get(index);
            let Tagged::Good(tags) = flash.layout.tags(page) else { break };
            if (tags.sequence, tags.chunk) != (CHECKPOINT_SEQUENCE, number + 1) {
                break;
            }
            let Some(data) = flash.layout.data_of(page) else { break };
            let data = &data[..flash.layout.data() as usize];
            if !sums.fit(flash.layout.order, number, data) {
                break;
            }
            let payload = &data[PAGE_HEADER_LEN..];
            sums.add(payload);
            stream.extend_from_slice(payload);
            number += 1;
        }
    }
    Ok((taken > 0).then_some((stream, taken)))
}

/// Parses the stream of a writer with pointers of either size.
fn parse(flash: &Flash, stream: &[u8]) -> Result<Checkpoint, CheckpointError> {
    let (blocks, chunks) = (flash.blocks, flash.layout.pages_per_block);
    let of =
        |pointer| checkpoint::parse(flash.layout.order, Shape { blocks, chunks, pointer }, stream);
    of(8).or_else(|error| of(4).map_err(|_| error))
}

fn counts(flash: &Flash, checkpoint: &Checkpoint, checkpoint_blocks: u32) -> Counts {
    let in_state = |state| checkpoint.blocks.iter().filter(|it| it.state == state).count() as u32;
    let free = in_state(EMPTY);
    let is_used = |block: &&checkpoint::BlockInfo| ![EMPTY, DEAD].contains(&block.state);
    let used = checkpoint.blocks.iter().filter(is_used).count() as u32;
    let sequences = checkpoint.blocks.iter().map(|block| block.sequence);
    Counts {
        bad_blocks: in_state(DEAD),
        // The blocks of the checkpoint itself still count as empty in it.
        free_blocks: free.saturating_sub(checkpoint_blocks),
        checkpoint_blocks,
        used_pages: used * flash.layout.pages_per_block,
        // The device record has the byte order of the writer's processor, blocks that of the flash.
        sequence: sequences.filter(|it| SEQUENCES.contains(it)).max().unwrap_or(0),
        summaries: 0,
    }
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
            if !has_header(flash, page, stored.id)? {
                return Ok(Err(stored.id));
            }
            object.header = read_header(flash, page)?.map(|header| (page, header));
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
fn has_header(flash: &Flash, page: u32, id: u32) -> Result<bool, ReadError> {
    Ok(match flash.layout.tags(flash.page(page)?.get(0)) {
        Tagged::Good(tags) => (tags.object, tags.chunk) == (id, 0),
        Tagged::Damaged => true,
        Tagged::Unused => false,
    })
}
