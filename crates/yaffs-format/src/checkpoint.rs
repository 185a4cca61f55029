//! Checkpoints: the state of a mounted file system, written when it is unmounted (spec: yaffs2 7).

mod encode;
mod parse;

use crate::header::ObjectKind;
use alloc::vec::Vec;
pub use encode::encode;
use eraseblock_base::ByteOrder;
pub use parse::{CheckpointError, parse};

/// Bytes at the start of each page, before its part of the stream.
pub const PAGE_HEADER_LEN: usize = 16;
/// The only version, of pages and of the stream.
const VERSION: u32 = 8;
/// Bytes of a validity record.
const VALIDITY_LEN: u32 = 16;
/// Bytes of the device record.
const DEVICE_LEN: u32 = 36;
/// Bytes of an object record.
const OBJECT_LEN: u32 = 32;
/// Ends lists.
const END: u32 = u32::MAX;
/// Entries in a part of a chunk map.
const MAP_ENTRIES: u32 = 16;

/// States of blocks.
pub mod state {
    /// Nothing in it is needed, and it is erased before it is used; also a block of the checkpoint.
    pub const EMPTY: u32 = 3;
    /// The block that is written to.
    pub const ALLOCATING: u32 = 4;
    /// No chunk is added to it.
    pub const FULL: u32 = 5;
    /// Full, and no chunk of it is needed.
    pub const DIRTY: u32 = 6;
    /// Part of a checkpoint.
    pub const CHECKPOINT: u32 = 7;
    /// Full, and its chunks are being moved.
    pub const COLLECTING: u32 = 8;
    /// Bad.
    pub const DEAD: u32 = 9;
}

/// The running sums of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// Sum of all bytes.
    pub sum: u32,
    /// XOR of all bytes.
    pub xor: u8,
}

impl Sums {
    /// Adds bytes of the stream.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.sum = self.sum.wrapping_add((*byte).into());
            self.xor ^= byte;
        }
    }

    /// Returns the word at the end of the stream.
    pub fn word(self) -> u32 {
        self.sum << 8 | u32::from(self.xor)
    }

    /// Returns whether a page starts with the header that the page of this number, with these sums
    /// of the pages before it, has.
    pub fn fit(self, order: ByteOrder, number: u32, page: &[u8]) -> bool {
        let header = [VERSION, number, self.sum, self.xor.into()];
        page.len() >= PAGE_HEADER_LEN
            && (0..).zip(header).all(|(index, word)| order.u32_at(page, index * 4) == word)
    }

    /// Returns the header of the page of this number.
    pub fn header(self, order: ByteOrder, number: u32) -> [u8; PAGE_HEADER_LEN] {
        let mut bytes = [0; PAGE_HEADER_LEN];
        let words = [VERSION, number, self.sum, self.xor.into()];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&order.u32_bytes(word));
        }
        bytes
    }
}

/// The sizes that the stream depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Blocks of the device.
    pub blocks: u32,
    /// Chunks in a block.
    pub chunks: u32,
    /// Bytes of a pointer of the writer's processor: 4 or 8.
    pub pointer: u32,
}

impl Shape {
    /// Returns the number of bits of an entry in a chunk map.
    pub(crate) fn map_bits(self) -> u32 {
        let chunks = u64::from(self.chunks) * (u64::from(self.blocks) + 1);
        let bits = u64::BITS - chunks.saturating_sub(1).leading_zeros();
        bits.next_multiple_of(2).max(16)
    }

    /// Returns the bytes of a part of a chunk map, with 16 entries.
    pub(crate) fn map_len(self) -> u32 {
        (2 * self.map_bits()).max(8 * self.pointer)
    }
}

/// Counters of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// Blocks that are erased.
    pub erased_blocks: u32,
    /// The block that is written to, counted from 1, or -1.
    pub allocation_block: i32,
    /// The next page of it.
    pub allocation_page: u32,
    /// Chunks without data that is needed.
    pub free_chunks: u32,
    /// Files that are open without a name.
    pub unlinked_files: u32,
    /// The highest sequence number, in either byte order.
    pub sequence: u32,
}

/// The state of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockInfo {
    /// Chunks in use, with those of a summary; at most [`BlockInfo::MOST_CHUNKS`].
    pub in_use: u32,
    /// One of [`state`].
    pub state: u32,
    /// Sequence number.
    pub sequence: u32,
    /// Whether a program failed: it will be marked bad.
    pub is_failing: bool,
    /// Whether its last chunks describe the others.
    pub has_summary: bool,
    /// Whether a header in it voids older data.
    pub has_shrink: bool,
}

impl BlockInfo {
    /// The most chunks that a record can count.
    pub const MOST_CHUNKS: u32 = 0x3FF;
    const FAILING: u32 = 1 << 24;
    const SUMMARY: u32 = 1 << 30;
    const SHRINK: u32 = 1 << 31;

    fn unpack(word: u32, sequence: u32) -> Self {
        Self {
            in_use: word >> 10 & Self::MOST_CHUNKS,
            state: word >> 20 & 15,
            sequence,
            is_failing: word & Self::FAILING != 0,
            has_summary: word & Self::SUMMARY != 0,
            has_shrink: word & Self::SHRINK != 0,
        }
    }

    fn pack(self) -> [u32; 2] {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let flags = flag(self.is_failing, Self::FAILING)
            | flag(self.has_summary, Self::SUMMARY)
            | flag(self.has_shrink, Self::SHRINK);
        [self.in_use << 10 | self.state << 20 | flags, self.sequence]
    }
}

/// An object with the places of its chunks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Number.
    pub id: u32,
    /// Number of the parent directory.
    pub parent: u32,
    /// The chunk of its header, counted from the block before the first; 0 if there is none.
    pub header: u32,
    /// Type.
    pub kind: ObjectKind,
    /// Whether it exists only in memory.
    pub is_fake: bool,
    /// Size of a file, or the object that a hard link names.
    pub value: u64,
    /// Chunk numbers of a file, and where the chunks are, counted as for `header`.
    pub map: Vec<(u32, u32)>,
}

/// A checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// Counters.
    pub device: Device,
    /// State of each block.
    pub blocks: Vec<BlockInfo>,
    /// All objects.
    pub objects: Vec<Object>,
}
