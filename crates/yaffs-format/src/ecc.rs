//! The ECC of tags: corrects one wrong bit, detects two (spec: yaffs2 3.1).

use crate::constants::{TAGS_ECC_LEN, TAGS_LEN};
use eraseblock_base::ByteOrder;

/// Parities of the 16 bytes of tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagsEcc {
    /// Parities over bit numbers, 6 bits.
    pub column: u8,
    /// Parity over byte numbers.
    pub line: u32,
    /// Parity over complemented byte numbers.
    pub complement: u32,
}

/// Masks of the bits of a byte whose parities are bits 5 to 0 of the column parity.
const COLUMNS: [u8; 6] = [0xF0, 0x0F, 0xCC, 0x33, 0xAA, 0x55];

impl TagsEcc {
    /// Returns the ECC of tags as they are stored.
    pub fn of(tags: &[u8; TAGS_LEN]) -> Self {
        let (mut line, mut complement) = (0, 0);
        for (index, byte) in (0_u32..).zip(tags) {
            if byte.count_ones() & 1 == 1 {
                line ^= index;
                complement ^= !index;
            }
        }
        // Parities are linear: those of all bytes are those of their sum.
        let sum = tags.iter().fold(0, |sum, byte| sum ^ byte);
        let parity = |mask: u8| (sum & mask).count_ones() as u8 & 1;
        let column = COLUMNS.iter().fold(0, |bits, mask| bits << 1 | parity(*mask));
        Self { column, line, complement }
    }

    /// Decodes the bytes that follow the tags. Three of them are padding with any content.
    pub fn decode(order: ByteOrder, bytes: &[u8; TAGS_ECC_LEN]) -> Self {
        let [column, ..] = *bytes;
        let (line, complement) = (order.u32_at(bytes, 4), order.u32_at(bytes, 8));
        Self { column: column & 0x3F, line, complement }
    }

    /// Returns the bytes that follow the tags, with zeros as padding.
    pub fn encode(self, order: ByteOrder) -> [u8; TAGS_ECC_LEN] {
        let mut bytes = [0; TAGS_ECC_LEN];
        bytes[0] = self.column;
        bytes[4..8].copy_from_slice(&order.u32_bytes(self.line));
        bytes[8..].copy_from_slice(&order.u32_bytes(self.complement));
        bytes
    }

    /// Corrects tags in place by their stored ECC. Returns the number of wrong bits, 0 or 1, or
    /// `None` if there are more; then nothing is changed.
    pub fn correct(self, tags: &mut [u8; TAGS_LEN]) -> Option<u16> {
        let computed = Self::of(tags);
        let column = self.column ^ computed.column;
        let (line, complement) = (self.line ^ computed.line, self.complement ^ computed.complement);
        let wrong = column.count_ones() + line.count_ones() + complement.count_ones();
        if wrong == 0 {
            return Some(0);
        }
        let is_each_pair_odd = (column ^ column >> 1) & 0x15 == 0x15;
        if line == !complement && is_each_pair_odd {
            let bit = column >> 3 & 4 | column >> 2 & 2 | column >> 1 & 1;
            *tags.get_mut(line as usize)? ^= 1 << bit;
            return Some(1);
        }
        // One wrong bit in the ECC itself.
        (wrong == 1).then_some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tags and the ECC that the reference stored for them, without padding.
    const EXAMPLES: [([u8; 16], u8, u32, u32); 3] = [
        ([1, 0x10, 0, 0, 1, 1, 0, 0x10, 1, 0, 0, 0x80, 5, 0, 0, 0], 0x26, 4, !4),
        ([1, 0x10, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0], 0x29, 8, !8),
        ([2, 0x10, 0, 0, 7, 1, 0, 0x10, 1, 0, 0, 0xC0, 0, 0, 0, 0], 0x0F, 15, 15),
    ];

    #[test]
    fn parities_are_those_of_the_specification() {
        for (tags, column, line, complement) in EXAMPLES {
            assert_eq!(TagsEcc::of(&tags), TagsEcc { column, line, complement });
        }
    }

    #[test]
    fn every_single_flip_is_corrected_and_no_double_flip_of_tags_is_accepted() {
        for (tags, ..) in EXAMPLES {
            let ecc = TagsEcc::of(&tags);
            for bit in 0..128 {
                let mut one = tags;
                one[bit / 8] ^= 1 << (bit % 8);
                for other in (0..128).filter(|other| *other != bit) {
                    let mut two = one;
                    two[other / 8] ^= 1 << (other % 8);
                    let before = two;
                    assert_eq!(ecc.correct(&mut two), None, "{bit} {other}");
                    assert_eq!(two, before);
                }
                assert_eq!(ecc.correct(&mut one), Some(1));
                assert_eq!(one, tags, "{bit}");
            }
        }
    }

    #[test]
    fn flips_of_the_ecc_leave_the_tags() {
        let (tags, ..) = EXAMPLES[0];
        for order in ByteOrder::ALL {
            let stored = TagsEcc::of(&tags).encode(order);
            assert_eq!(TagsEcc::decode(order, &stored), TagsEcc::of(&tags));
            for bit in (0..6).chain(32..96) {
                let mut flipped = stored;
                flipped[bit / 8] ^= 1 << (bit % 8);
                let mut same = tags;
                assert_eq!(TagsEcc::decode(order, &flipped).correct(&mut same), Some(1));
                assert_eq!(same, tags);
            }
        }
    }
}
