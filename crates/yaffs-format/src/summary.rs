//! Block summaries: the tags of a full block, in its last chunks (spec: yaffs2 8).

use crate::constants::object;
use crate::tags::{PackedTags, Tags};
use alloc::vec::Vec;
use eraseblock_base::ByteOrder;

/// Bytes before the entries of each chunk.
pub const HEADER_LEN: usize = 16;
/// Bytes of an entry.
const ENTRY_LEN: usize = 12;
const VERSION: u32 = 1;

/// The sizes that a summary depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Chunks in a block.
    pub chunks: u32,
    /// Bytes of data in a chunk, above 16.
    pub data: u32,
}

impl Shape {
    /// Returns the number of chunks that a summary describes: those before the ones kept for it.
    pub fn described(self) -> u32 {
        let bytes = ENTRY_LEN as u32 * self.chunks;
        let kept = (bytes + self.data - 1) / (self.data - HEADER_LEN as u32);
        self.chunks.saturating_sub(kept)
    }

    /// Returns the number of chunks that a summary takes; the formula of the reference may keep one
    /// more free for it.
    pub fn parts(self) -> u32 {
        (ENTRY_LEN as u32 * self.described()).div_ceil(self.data - HEADER_LEN as u32)
    }

    /// Returns the bytes of entries in the chunk of this index.
    fn payload(self, index: u32) -> usize {
        let room = self.data as usize - HEADER_LEN;
        let all = ENTRY_LEN * self.described() as usize;
        all.saturating_sub(room * index as usize).min(room)
    }

    /// Returns whether tags are those of a summary's chunk of this index in a block with this
    /// sequence number.
    pub fn has_tags(self, index: u32, sequence: u32, tags: &Tags) -> bool {
        let bytes = (HEADER_LEN + self.payload(index)) as u32;
        tags.object == object::SUMMARY
            && (tags.sequence, tags.chunk, tags.bytes) == (sequence, index + 1, bytes)
            && tags.extra.is_none()
    }
}

/// Puts the tags together that the chunks of a summary list; `None` if it is damaged or that of
/// another block. For a chunk without an object in its entry, read its own tags.
pub fn decode(
    order: ByteOrder,
    shape: Shape,
    sequence: u32,
    chunks: &[&[u8]],
) -> Option<Vec<PackedTags>> {
    let mut entries = Vec::new();
    let mut stated = None;
    for (index, chunk) in (0..shape.parts()).zip(chunks) {
        let (header, rest) = chunk.split_at_checked(HEADER_LEN)?;
        stated = Some(sum_in(header, sequence)?);
        entries.extend_from_slice(rest.get(..shape.payload(index))?);
    }
    let sum = entries.iter().fold(0_u32, |sum, byte| sum.wrapping_add((*byte).into()));
    let is_whole = entries.len() == ENTRY_LEN * shape.described() as usize;
    (is_whole && stated == Some(sum)).then(|| {
        let word = |entry: &[u8], offset| order.u32_at(entry, offset);
        let tags = |entry: &[u8]| PackedTags {
            sequence,
            object: word(entry, 0),
            chunk: word(entry, 4),
            bytes: word(entry, 8),
        };
        entries.chunks_exact(ENTRY_LEN).map(tags).collect()
    })
}

/// The sum that a header states, if the rest of it is right. Its byte order is that of the writer's
/// processor, which may differ from that of the flash.
fn sum_in(header: &[u8], sequence: u32) -> Option<u32> {
    ByteOrder::ALL.into_iter().find_map(|order| {
        let fits = (order.u32_at(header, 0), order.u32_at(header, 8)) == (VERSION, sequence);
        fits.then(|| order.u32_at(header, 12))
    })
}

/// Returns the chunks of a summary: the data of each, without what follows its entries. `block` is
/// the number of the block, counted from 1.
pub fn encode(
    order: ByteOrder,
    shape: Shape,
    block: u32,
    sequence: u32,
    tags: &[PackedTags],
) -> Vec<Vec<u8>> {
    let words = tags.iter().flat_map(|tags| [tags.object, tags.chunk, tags.bytes]);
    let entries: Vec<u8> = words.flat_map(|word| order.u32_bytes(word)).collect();
    let sum = entries.iter().fold(0_u32, |sum, byte| sum.wrapping_add((*byte).into()));
    let header = [VERSION, block, sequence, sum].map(|word| order.u32_bytes(word)).concat();
    let parts = entries.chunks(shape.data as usize - HEADER_LEN);
    parts.map(|part| [&header, part].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(count: u32) -> Vec<PackedTags> {
        (0..count)
            .map(|n| PackedTags { sequence: 0x1001, object: 0x101 + n, chunk: n, bytes: 2048 - n })
            .collect()
    }

    #[test]
    fn sizes_are_those_of_the_specification() {
        for (chunks, data, described, parts) in
            [(64, 2048, 63, 1), (32, 1024, 31, 1), (128, 1024, 126, 2), (256, 1024, 252, 3)]
        {
            let shape = Shape { chunks, data };
            assert_eq!((shape.described(), shape.parts()), (described, parts));
        }
        let shape = Shape { chunks: 64, data: 2048 };
        let tags = Tags { sequence: 5, object: 0x10, chunk: 1, bytes: 0x304, extra: None };
        assert!(shape.has_tags(0, 5, &tags));
        assert!(!shape.has_tags(0, 6, &tags) && !shape.has_tags(1, 5, &tags));
    }

    #[test]
    fn summaries_are_read_as_they_are_written() {
        for order in ByteOrder::ALL {
            for shape in [Shape { chunks: 64, data: 2048 }, Shape { chunks: 256, data: 1024 }] {
                let tags = tags(shape.described());
                let chunks = encode(order, shape, 3, 0x1001, &tags);
                assert_eq!(chunks.len(), shape.parts() as usize);
                let parts: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
                assert_eq!(decode(order, shape, 0x1001, &parts), Some(tags));
                assert_eq!(decode(order, shape, 0x1002, &parts), None);
                assert_eq!(decode(order, shape, 0x1001, &parts[1..]), None);
                let mut damaged = chunks.clone();
                damaged[0][20] ^= 1;
                let parts: Vec<&[u8]> = damaged.iter().map(Vec::as_slice).collect();
                assert_eq!(decode(order, shape, 0x1001, &parts), None);
            }
        }
    }
}
