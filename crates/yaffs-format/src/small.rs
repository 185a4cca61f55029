//! The spare bytes of YAFFS1: tags without a sequence number (spec: yaffs2 11).

/// Bytes of data in a chunk.
pub const PAGE: usize = 512;
/// Bytes of the spare area.
pub const SPARE: usize = 16;
/// Where the tag bytes are.
const TAGS: [usize; 8] = [0, 1, 2, 3, 6, 7, 11, 12];
/// Where the page status is: programmed to 0 when the chunk is deleted.
pub const PAGE_STATUS: usize = 4;
/// Where the block status is: the bad-block marker.
pub const BLOCK_STATUS: usize = 5;
/// Where the ECC of the two halves of the data is, three bytes each.
pub const DATA_ECC: [usize; 2] = [8, 13];
/// A status byte with at least this many ones is not programmed.
const ONES: u32 = 7;

/// Bits of the fields, lowest first: chunk, serial, length, object, ECC. Two bits are left, which are
/// high bits of the length on larger pages and ones on these.
const WIDTHS: [u32; 5] = [20, 2, 10, 18, 12];
const LEFT: u64 = 3 << 62;
/// The lowest bit of the ECC.
const ECC_SHIFT: u32 = 50;
const ECC_MASK: u64 = 0xFFF << ECC_SHIFT;

/// Tags of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmallTags {
    /// Object number.
    pub object: u32,
    /// Chunk number; 0 for an object header.
    pub chunk: u32,
    /// Bytes of data, below 1024.
    pub bytes: u32,
    /// Counts the versions of a chunk, modulo 4.
    pub serial: u8,
}

/// XOR of the numbers, counted from 1, of all bits set outside the ECC.
fn ecc(word: u64) -> u64 {
    let word = word & !ECC_MASK;
    (0..64).filter(|bit| word >> bit & 1 == 1).fold(0, |ecc, bit| ecc ^ (bit + 1))
}

impl SmallTags {
    /// Decodes the tags in a spare area, with one wrong bit corrected. Returns the number of wrong
    /// bits, or `None` if there are more.
    pub fn decode(spare: &[u8; SPARE]) -> Option<(Self, u16)> {
        let mut word = u64::from_le_bytes(TAGS.map(|index| spare[index]));
        let difference = (word & ECC_MASK) >> ECC_SHIFT ^ ecc(word);
        let wrong = match difference {
            0 => 0,
            bit @ 1..=64 => {
                word ^= 1 << (bit - 1);
                1
            }
            _ => return None,
        };
        let mut rest = word;
        let [chunk, serial, bytes, object, _] = WIDTHS.map(|width| {
            let field = (rest & ((1 << width) - 1)) as u32;
            rest >>= width;
            field
        });
        Some((Self { object, chunk, bytes, serial: serial as u8 }, wrong))
    }

    /// Stores the tags in a spare area, in fields of their widths.
    pub fn encode(&self, spare: &mut [u8; SPARE]) {
        let fields = [self.chunk, self.serial.into(), self.bytes, self.object, 0];
        let (mut word, mut shift) = (LEFT, 0);
        for (field, width) in fields.into_iter().zip(WIDTHS) {
            word |= (u64::from(field) & ((1 << width) - 1)) << shift;
            shift += width;
        }
        word |= ecc(word) << ECC_SHIFT;
        for (index, byte) in TAGS.into_iter().zip(word.to_le_bytes()) {
            spare[index] = byte;
        }
    }
}

/// Returns whether a status byte is programmed: one wrong bit is tolerated.
pub fn is_programmed(status: u8) -> bool {
    status.count_ones() < ONES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_as_they_are_written() {
        let tags = SmallTags { object: 0x101, chunk: 0x1_2345, bytes: 512, serial: 2 };
        let mut spare = [0xFF; SPARE];
        tags.encode(&mut spare);
        assert_eq!(SmallTags::decode(&spare), Some((tags, 0)));
        for index in [PAGE_STATUS, BLOCK_STATUS, DATA_ECC[0], DATA_ECC[1]] {
            assert_eq!(spare[index], 0xFF);
        }
        for bit in (0..50).chain(62..64) {
            let mut flipped = spare;
            flipped[TAGS[bit / 8]] ^= 1 << (bit % 8);
            assert_eq!(SmallTags::decode(&flipped), Some((tags, 1)), "{bit}");
        }
    }

    #[test]
    fn hopeless_tags_are_refused() {
        let mut spare = [0xFF; SPARE];
        SmallTags { object: 0x101, chunk: 1, bytes: 512, serial: 0 }.encode(&mut spare);
        // The highest bit of the ECC: a difference of 2048.
        spare[TAGS[7]] ^= 1 << 5;
        assert_eq!(SmallTags::decode(&spare), None);
    }

    #[test]
    fn a_status_tolerates_one_wrong_bit() {
        assert!(!is_programmed(0xFF) && !is_programmed(0xFE));
        assert!(is_programmed(b'Y') && is_programmed(0) && is_programmed(0xFC));
    }
}
