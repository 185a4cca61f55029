//! A checkpoint to its stream.

use super::{
    Checkpoint, DEVICE_LEN, END, MAP_ENTRIES, OBJECT_LEN, Object, Shape, Sums, VALIDITY_LEN,
    VERSION,
};
use crate::constants::{MAGIC, object};
use crate::header::ObjectKind;
use alloc::vec::Vec;
use eraseblock_base::ByteOrder;

/// Bits of an object record after the type.
const UNLINKED: u32 = 1 << 5;
const FAKE: u32 = 1 << 6;
const MAY_BE_RENAMED_AND_REMOVED: u32 = 3 << 7;

/// Returns the stream of a checkpoint: what its pages hold after their headers. The chunks in use
/// are those of the objects, and the chunks after `described` of each block with a summary.
///
/// The blocks must be as many as the shape states, and the chunks of a block at most
/// [`BlockInfo::MOST_CHUNKS`](super::BlockInfo::MOST_CHUNKS).
pub fn encode(order: ByteOrder, shape: Shape, described: u32, it: &Checkpoint) -> Vec<u8> {
    let mut writer = Writer { order, bytes: Vec::new() };
    writer.put_words(&[VALIDITY_LEN, MAGIC, VERSION, 1]);
    let device = &it.device;
    let block = device.allocation_block.cast_unsigned();
    writer.put_words(&[DEVICE_LEN, device.erased_blocks, block, device.allocation_page]);
    writer.put_words(&[device.free_chunks, 0, device.unlinked_files, 0, device.sequence]);
    for block in &it.blocks {
        writer.put_words(&block.pack());
    }
    writer.bytes.extend(chunks_in_use(shape, described, it));
    for object in &it.objects {
        writer.put_object(shape, object);
    }
    writer.put_words(&[OBJECT_LEN, END, END, END, END, END, END, END]);
    writer.put_words(&[VALIDITY_LEN, MAGIC, VERSION, 0]);
    let mut sums = Sums::default();
    sums.add(&writer.bytes);
    writer.put_words(&[sums.word()]);
    writer.bytes
}

/// Returns a bit for each chunk, those of a block in whole bytes.
fn chunks_in_use(shape: Shape, described: u32, it: &Checkpoint) -> Vec<u8> {
    let per_block = shape.chunks.div_ceil(8) as usize;
    let mut bits = alloc::vec![0; per_block * shape.blocks as usize];
    let mut set = |block: u32, index: u32| {
        if let Some(byte) = bits.get_mut(block as usize * per_block + index as usize / 8) {
            *byte |= 1 << (index % 8);
        }
    };
    for object in &it.objects {
        let places = object.map.iter().map(|(_, place)| *place).chain([object.header]);
        for place in places.filter(|place| *place >= shape.chunks) {
            set(place / shape.chunks - 1, place % shape.chunks);
        }
    }
    for (number, _) in (0..).zip(&it.blocks).filter(|(_, block)| block.has_summary) {
        (described..shape.chunks).for_each(|index| set(number, index));
    }
    bits
}

struct Writer {
    order: ByteOrder,
    bytes: Vec<u8>,
}

impl Writer {
    fn put_words(&mut self, words: &[u32]) {
        let order = self.order;
        self.bytes.extend(words.iter().flat_map(|word| order.u32_bytes(*word)));
    }

    fn put_object(&mut self, shape: Shape, it: &Object) {
        let is_removed = it.parent == object::UNLINKED;
        let bits = it.kind.number()
            | if is_removed { UNLINKED } else { 0 }
            | if it.is_fake { FAKE } else { MAY_BE_RENAMED_AND_REMOVED };
        self.put_words(&[OBJECT_LEN, it.id, it.parent, it.header, bits, it.map.len() as u32]);
        let (low, high) = (it.value as u32, (it.value >> 32) as u32);
        self.put_words(&match self.order {
            ByteOrder::Little => [low, high],
            ByteOrder::Big => [high, low],
        });
        if it.kind == ObjectKind::File {
            self.put_map(shape, &it.map);
        }
    }

    /// Writes the parts of a chunk map that have entries, in the order of their chunks.
    fn put_map(&mut self, shape: Shape, map: &[(u32, u32)]) {
        let bits = shape.map_bits();
        for part in map.chunk_by(|(one, _), (other, _)| one / MAP_ENTRIES == other / MAP_ENTRIES) {
            let mut words = alloc::vec![0; shape.map_len() as usize / 4];
            for (chunk, place) in part {
                put_entry(&mut words, chunk % MAP_ENTRIES * bits, *place);
            }
            let first = part.first().map_or(0, |(chunk, _)| chunk - chunk % MAP_ENTRIES);
            self.put_words(&[first]);
            self.put_words(&words);
        }
        self.put_words(&[END]);
    }
}

/// Puts an entry into a bit stream in words, which is zero there.
fn put_entry(words: &mut [u32], start: u32, value: u32) {
    let index = start as usize / 32;
    let both = u64::from(value) << (start % 32);
    for (word, part) in words[index..].iter_mut().zip([both as u32, (both >> 32) as u32]) {
        *word |= part;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockInfo, Device, parse, state};
    use super::*;

    fn checkpoint(blocks: u32) -> Checkpoint {
        let full =
            BlockInfo { in_use: 9, state: state::FULL, sequence: 0x1001, ..BlockInfo::default() };
        let current = BlockInfo { state: state::ALLOCATING, has_shrink: true, ..full };
        let mut infos = alloc::vec![BlockInfo { has_summary: true, ..full }, current];
        infos.resize(blocks as usize, BlockInfo { state: state::DEAD, is_failing: true, ..full });
        let file = Object {
            id: 0x101,
            parent: 1,
            header: 17,
            kind: ObjectKind::File,
            is_fake: false,
            value: 3 << 32 | 4096,
            map: [(1, 18), (15, 19), (16, 33), (47, 34), (5000, blocks * 16 + 15)].to_vec(),
        };
        let kind = ObjectKind::HardLink;
        let link =
            Object { id: 0x102, header: 20, kind, value: 0x101, map: Vec::new(), ..file.clone() };
        let kind = ObjectKind::Directory;
        let root = Object { id: 1, parent: 0, kind, is_fake: true, value: 0, ..link.clone() };
        let device = Device {
            erased_blocks: 5,
            allocation_block: -1,
            allocation_page: 3,
            free_chunks: 77,
            unlinked_files: 1,
            sequence: 0x1001,
        };
        Checkpoint { device, blocks: infos, objects: [file, link, root].to_vec() }
    }

    #[test]
    fn streams_are_read_as_they_are_written() {
        for order in ByteOrder::ALL {
            for (blocks, pointer) in [(4, 8), (4, 4), (5000, 8), (70_000, 4)] {
                let shape = Shape { blocks, chunks: 16, pointer };
                let it = checkpoint(blocks);
                assert_eq!(parse(order, shape, &encode(order, shape, 15, &it)), Ok(it));
            }
        }
    }

    #[test]
    fn chunks_in_use_are_marked() {
        let shape = Shape { blocks: 4, chunks: 16, pointer: 8 };
        let bits = chunks_in_use(shape, 15, &checkpoint(4));
        // Block 0 has chunks 1 to 4 of objects and its summary, block 1 chunks 1 and 2.
        assert_eq!(bits, [0x1E, 0x80, 6, 0, 0, 0, 0, 0x80]);
    }
}
