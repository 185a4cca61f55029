//! Checkpoints: the state in memory on flash, so that the next mount need not scan (spec: yaffs2 7).
//!
//! # Order of writes
//! 1. Every operation is on flash before a checkpoint is begun, and the device holds nothing back.
//! 2. The blocks of an older checkpoint are erased before a new one is written: pages of two never
//!    make one.
//! 3. The pages are written in order. Each states the sums of those before it, and the last one those
//!    of all, so that a cut leaves the state before: no checkpoint, and blocks to be scanned.
//! 4. Before any change, all blocks of the checkpoint are erased, the one with
//!    the first page first. A cut in that leaves a valid checkpoint of a state that is still the
//!    current one, or one without a beginning, which is none.
//! 5. Should an erase that was cut show the old pages again at a later mount, the flash contradicts
//!    them (see `restore`).
//!
//! Layer: above `core`.

use super::core::{Core, medium};
use super::log::{Block, Use};
use crate::objects::Object;
use eraseblock_vfs::FsError;
use eraseblock_yaffs_format::checkpoint::{
    self, BlockInfo, Checkpoint, Device, PAGE_HEADER_LEN, Shape, Sums, state,
};
use eraseblock_yaffs_format::constants::{CHECKPOINT_SEQUENCE, object};
use eraseblock_yaffs_format::{ObjectKind, PackedTags};

/// Bytes of a pointer of the machines that the checkpoint is for.
const POINTER: u32 = 8;

impl Core {
    /// Erases the blocks of a checkpoint: from now on the state may change.
    pub(crate) fn erase_checkpoint(&mut self) -> Result<(), FsError> {
        self.is_described = false;
        while let Some(block) = self.checkpoint.first().copied() {
            self.log.erase(block).map_err(medium)?;
            self.checkpoint.remove(0);
        }
        Ok(())
    }

    /// Writes a checkpoint of the current state, if there is none and it finds room. One that fails is
    /// left unfinished: the next mount scans.
    pub(crate) fn put_checkpoint(&mut self) -> Result<(), FsError> {
        let layout = &self.log.layout;
        let (pages, blocks) = (layout.pages_per_block, self.log.blocks.len() as u32);
        let is_wanted = self.checkpoint_from.is_some_and(|from| blocks >= from);
        if self.is_described || !is_wanted || pages > BlockInfo::MOST_CHUNKS {
            return Ok(());
        }
        self.erase_checkpoint()?;
        let shape = Shape { blocks, chunks: pages, pointer: POINTER };
        let stream = checkpoint::encode(
            self.log.layout.order,
            shape,
            self.log.capacity(),
            &self.described(),
        );
        let payload = self.data_len() as usize - PAGE_HEADER_LEN;
        let count = (stream.len().div_ceil(payload) as u32).div_ceil(pages);
        // The blocks kept for garbage collection will do: they are free again before it runs.
        if count > blocks / 16 + 2 || count > self.log.free_blocks() {
            return Ok(());
        }
        let Some(taken) = self.erased_blocks(count)? else { return Ok(()) };
        self.is_described = self.put_stream(&taken, &stream, payload)?;
        Ok(())
    }

    /// Returns erased blocks in ascending order, after the one that was opened last: so the blocks of
    /// checkpoints change as those of chunks do. `None` if one cannot be erased.
    fn erased_blocks(&mut self, count: u32) -> Result<Option<Vec<u32>>, FsError> {
        let all = self.log.blocks.len() as u32;
        let is_free = |number: &u32| {
            matches!(self.log.blocks[*number as usize].state, Use::Erased | Use::Empty)
        };
        let after = (1..=all).map(|step| (self.log.last + step) % all);
        let mut taken: Vec<u32> = after.filter(is_free).take(count as usize).collect();
        taken.sort_unstable();
        for block in &taken {
            let is_blank = self.log.blocks[*block as usize].state == Use::Erased;
            if !is_blank && !self.log.erase(*block).map_err(medium)? {
                return Ok(None);
            }
        }
        Ok(Some(taken))
    }

    /// Writes the pages of a checkpoint. Returns whether all succeeded.
    fn put_stream(
        &mut self,
        blocks: &[u32],
        stream: &[u8],
        payload: usize,
    ) -> Result<bool, FsError> {
        let (order, pages) = (self.log.layout.order, self.log.layout.pages_per_block);
        let mut sums = Sums::default();
        for (number, part) in (0..).zip(stream.chunks(payload)) {
            let block = blocks[number as usize / pages as usize];
            if number % pages == 0 {
                self.log.blocks[block as usize].state = Use::Checkpoint;
                self.checkpoint.push(block);
            }
            let mut data = sums.header(order, number).to_vec();
            data.extend(part);
            data.resize(PAGE_HEADER_LEN + payload, 0);
            // Where a reader searches on; blocks are counted from 1.
            let next = if block + 1 < self.log.blocks.len() as u32 { block + 2 } else { u32::MAX };
            let tags = PackedTags {
                sequence: CHECKPOINT_SEQUENCE,
                object: next,
                chunk: number + 1,
                bytes: data.len() as u32,
            };
            let page = block * pages + number % pages;
            if !self.log.program(page, tags, &data).map_err(medium)? {
                return Ok(false);
            }
            sums.add(part);
        }
        Ok(true)
    }

    /// Returns the current state in the form of a checkpoint.
    fn described(&self) -> Checkpoint {
        let per_block = self.log.layout.pages_per_block;
        let current = self.log.current.filter(|(_, next)| *next < self.log.capacity());
        let blocks: Vec<BlockInfo> =
            (0..).zip(&self.log.blocks).map(|it| self.block_info(it, current)).collect();
        let usable = blocks.iter().filter(|block| block.state != state::DEAD);
        let is_unlinked = |it: &&Object| it.parent == object::UNLINKED;
        let device = Device {
            erased_blocks: self.log.free_blocks(),
            allocation_block: current.map_or(-1, |(block, _)| (block + 1).cast_signed()),
            allocation_page: current.map_or(0, |(_, next)| next),
            free_chunks: usable.map(|block| per_block - block.in_use).sum(),
            unlinked_files: self.fs.objects.all.values().filter(is_unlinked).count() as u32,
            sequence: self.log.sequence,
        };
        let objects = self.fs.objects.all.iter().map(|(id, it)| self.stored(*id, it)).collect();
        Checkpoint { device, blocks, objects }
    }

    fn block_info(&self, (number, block): (u32, &Block), current: Option<(u32, u32)>) -> BlockInfo {
        let per_block = self.log.layout.pages_per_block;
        let is_current = current.is_some_and(|(current, _)| current == number);
        let of_summary = if block.has_summary { per_block - self.log.capacity() } else { 0 };
        let state = match block.state {
            Use::Erased | Use::Empty | Use::Checkpoint => state::EMPTY,
            Use::Full if is_current => state::ALLOCATING,
            Use::Full => state::FULL,
            Use::Unusable => state::DEAD,
        };
        BlockInfo {
            in_use: block.live + of_summary,
            state,
            sequence: block.sequence,
            is_failing: block.is_failing,
            has_summary: block.has_summary,
            has_shrink: block.has_shrink,
        }
    }

    fn stored(&self, id: u32, object: &Object) -> checkpoint::Object {
        // Blocks are counted from 1.
        let place = |page: u32| page + self.log.layout.pages_per_block;
        let chunks = self.fs.objects.chunks.range((id, 0)..=(id, u32::MAX));
        checkpoint::Object {
            id,
            parent: object.parent,
            header: object.header.as_ref().map_or(0, |(page, _)| place(*page)),
            kind: object.kind,
            is_fake: id <= object::DELETED,
            value: match object.kind {
                ObjectKind::File => object.size,
                ObjectKind::HardLink => object.equivalent.into(),
                _ => 0,
            },
            map: chunks.map(|((_, chunk), page)| (*chunk, place(*page))).collect(),
        }
    }
}
