//! The stream of a checkpoint to its checked form.

use super::{
    BlockInfo, Checkpoint, DEVICE_LEN, Device, END, MAP_ENTRIES, OBJECT_LEN, Object, Shape, Sums,
    VALIDITY_LEN, VERSION,
};
use crate::constants::{MAGIC, MAX_CHUNK, object};
use crate::header::ObjectKind;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use eraseblock_base::ByteOrder;

/// A stream that is not a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointError {
    /// The wrong part.
    pub what: &'static str,
    /// Where the reader was, in bytes.
    pub offset: usize,
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, offset } = self;
        write!(f, "checkpoint: {what} is wrong at byte {offset} of the stream")
    }
}

impl Error for CheckpointError {}

struct Stream<'a> {
    order: ByteOrder,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Stream<'a> {
    fn fail<T>(&self, what: &'static str) -> Result<T, CheckpointError> {
        Err(CheckpointError { what, offset: self.position })
    }

    fn take(&mut self, len: u32, what: &'static str) -> Result<&'a [u8], CheckpointError> {
        let part = self.bytes[self.position..].get(..len as usize);
        let Some(part) = part else { return self.fail(what) };
        self.position += part.len();
        Ok(part)
    }

    fn word(&mut self, what: &'static str) -> Result<u32, CheckpointError> {
        let order = self.order;
        self.take(4, what).map(|bytes| order.u32_at(bytes, 0))
    }

    fn expect(&mut self, word: u32, what: &'static str) -> Result<(), CheckpointError> {
        if self.word(what)? == word { Ok(()) } else { self.fail(what) }
    }

    fn validity(&mut self, last: u32) -> Result<(), CheckpointError> {
        for word in [VALIDITY_LEN, MAGIC, VERSION, last] {
            self.expect(word, "validity record")?;
        }
        Ok(())
    }

    fn device(&mut self) -> Result<Device, CheckpointError> {
        const WHAT: &str = "device record";
        self.expect(DEVICE_LEN, WHAT)?;
        let mut words = [0; 8];
        for word in &mut words {
            *word = self.word(WHAT)?;
        }
        let [erased_blocks, block, allocation_page, free_chunks, _, unlinked_files, _, sequence] =
            words;
        let allocation_block = block.cast_signed();
        Ok(Device {
            erased_blocks,
            allocation_block,
            allocation_page,
            free_chunks,
            unlinked_files,
            sequence,
        })
    }

    fn block(&mut self) -> Result<BlockInfo, CheckpointError> {
        let (word, sequence) = (self.word("block record")?, self.word("block record")?);
        Ok(BlockInfo::unpack(word, sequence))
    }

    /// Reads an object; `None` at the end of the list.
    fn object(&mut self, shape: Shape) -> Result<Option<Object>, CheckpointError> {
        const WHAT: &str = "object record";
        self.expect(OBJECT_LEN, WHAT)?;
        let mut words = [0; 7];
        for word in &mut words {
            *word = self.word(WHAT)?;
        }
        if words == [END; 7] {
            return Ok(None);
        }
        let [id, parent, header, bits, _, one, two] = words;
        let Some(kind) = ObjectKind::from_number(bits & 7) else { return self.fail(WHAT) };
        if id == 0 || id > object::MAX {
            return self.fail(WHAT);
        }
        let (low, high) = match self.order {
            ByteOrder::Little => (one, two),
            ByteOrder::Big => (two, one),
        };
        let value = match kind {
            ObjectKind::File => u64::from(high) << 32 | u64::from(low),
            // 32 bits; a writer that swaps swaps 64.
            ObjectKind::HardLink if self.order == ByteOrder::Big && one == 0 => two.into(),
            _ => one.into(),
        };
        let map = if kind == ObjectKind::File { self.map(shape)? } else { Vec::new() };
        let is_fake = bits >> 6 & 1 == 1;
        Ok(Some(Object { id, parent, header, kind, is_fake, value, map }))
    }

    fn map(&mut self, shape: Shape) -> Result<Vec<(u32, u32)>, CheckpointError> {
        const WHAT: &str = "chunk map";
        let (bits, mut map) = (shape.map_bits(), Vec::new());
        loop {
            let first = self.word(WHAT)?;
            if first == END {
                return Ok(map);
            }
            if first > MAX_CHUNK {
                return self.fail(WHAT);
            }
            let order = self.order;
            let part = self.take(shape.map_len(), WHAT)?;
            for index in 0..MAP_ENTRIES {
                let place = entry(order, part, index * bits, bits);
                // Entry 0 of the first part stands for the header.
                if place != 0 && first + index != 0 {
                    map.push((first + index, place));
                }
            }
        }
    }
}

/// Returns `count` bits of a bit stream in words.
fn entry(order: ByteOrder, words: &[u8], start: u32, count: u32) -> u32 {
    let word = |index: u32| u64::from(order.u32_at(words, index as usize * 4));
    let index = start / 32;
    let both = word(index) | word(index + 1) << 32;
    (both >> (start % 32) & ((1 << count) - 1)) as u32
}

/// Parses the stream of a checkpoint: the parts of its pages after their headers.
///
/// # Errors
///
/// Fails if a record is not as expected, or if the sums do not match.
pub fn parse(order: ByteOrder, shape: Shape, bytes: &[u8]) -> Result<Checkpoint, CheckpointError> {
    let mut stream = Stream { order, bytes, position: 0 };
    stream.validity(1)?;
    let device = stream.device()?;
    // A stream without that many records must not cost memory for them.
    let blocks = (0..shape.blocks).map(|_| stream.block()).collect::<Result<_, _>>()?;
    let bitmap = u64::from(shape.blocks) * u64::from(shape.chunks.div_ceil(8));
    let Ok(bitmap) = u32::try_from(bitmap) else { return stream.fail("chunk bitmap") };
    stream.take(bitmap, "chunk bitmap")?;
    let mut objects = Vec::new();
    while let Some(object) = stream.object(shape)? {
        objects.push(object);
    }
    stream.validity(0)?;
    let mut sums = Sums::default();
    sums.add(&bytes[..stream.position]);
    stream.expect(sums.word(), "sum")?;
    Ok(Checkpoint { device, blocks, objects })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { blocks: 2, chunks: 16, pointer: 8 };

    fn stream(order: ByteOrder) -> Vec<u8> {
        let mut words = alloc::vec![16, MAGIC, 8, 1];
        words.extend([36, 1, 2, 5, 20, 0, 0, 0, 0x1003]);
        words.extend([2 << 10 | 5 << 20, 0x1001, 3 << 20, 0]);
        let mut bytes: Vec<u8> = words.drain(..).flat_map(|word| order.u32_bytes(word)).collect();
        bytes.extend([0xFF, 0, 3, 0]);
        words.extend([32, 0x101, 1, 17, 1 | 1 << 9, 2]);
        words.extend(if order == ByteOrder::Little { [4096, 3] } else { [3, 4096] });
        words.push(0);
        words.extend([18 << 16, 19, 0, 0, 0, 0, 0, 0]);
        words.extend([0; 8]);
        words.push(END);
        words.extend([32, 1, 0, 0, 3 | 1 << 6, 0, 7, 7]);
        words.push(32);
        words.extend([END; 7]);
        words.extend([16, MAGIC, 8, 0]);
        bytes.extend(words.into_iter().flat_map(|word| order.u32_bytes(word)));
        let mut sums = Sums::default();
        sums.add(&bytes);
        bytes.extend(order.u32_bytes(sums.word()));
        bytes.extend([0; 40]);
        bytes
    }

    #[test]
    fn records_are_read_in_both_byte_orders() {
        for order in ByteOrder::ALL {
            let read = parse(order, SHAPE, &stream(order)).unwrap();
            assert_eq!((read.device.allocation_block, read.device.allocation_page), (2, 5));
            assert_eq!(
                read.blocks[0],
                BlockInfo { in_use: 2, state: 5, sequence: 0x1001, ..Default::default() }
            );
            let [file, root] = &read.objects[..] else { panic!("two objects") };
            assert_eq!((file.id, file.header, file.value), (0x101, 17, 3 << 32 | 4096));
            assert_eq!(file.map, [(1, 18), (2, 19)]);
            assert_eq!((root.kind, root.is_fake), (ObjectKind::Directory, true));
        }
    }

    #[test]
    fn every_flip_and_every_end_is_noticed() {
        let order = ByteOrder::Little;
        let bytes = stream(order);
        let end = bytes.len() - 40;
        for bit in 0..end * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(order, SHAPE, &damaged).is_err(), "{bit}");
        }
        for len in 0..end {
            assert!(parse(order, SHAPE, &bytes[..len]).is_err(), "{len}");
        }
        assert!(parse(order, Shape { pointer: 4, ..SHAPE }, &bytes).is_err());
    }

    #[test]
    fn entries_of_any_width_are_found() {
        let words = [0x1234_5678_u32, 0x9ABC_DEF0].map(u32::to_le_bytes).concat();
        assert_eq!(entry(ByteOrder::Little, &words, 16, 16), 0x1234);
        assert_eq!(entry(ByteOrder::Little, &words, 18, 18), 0x48D);
        let shape = |blocks| Shape { blocks, chunks: 64, pointer: 8 };
        assert_eq!(
            [1, 1022, 1023, 1024, 4096].map(|it| shape(it).map_bits()),
            [16, 16, 16, 18, 20]
        );
        assert_eq!((shape(1).map_len(), shape(1 << 20).map_len()), (64, 64));
    }
}
