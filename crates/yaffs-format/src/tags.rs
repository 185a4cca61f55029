//! The tags of a YAFFS2 chunk (spec: yaffs2 3).

use crate::constants::{TAGS_ECC_LEN, TAGS_LEN};
use crate::ecc::TagsEcc;
use crate::header::ObjectKind;
use eraseblock_base::ByteOrder;

/// Bit of the chunk number: the fields hold information of the object header.
const EXTRA: u32 = 1 << 31;
/// The header states a size that voids older data beyond it.
const SHRINK: u32 = 1 << 30;
/// The header replaces another object.
const SHADOWS: u32 = 1 << 29;
/// Bits of an object number next to the type.
const LOW_28: u32 = (1 << 28) - 1;

/// Tags as stored: four words, which may have any value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedTags {
    /// Sequence number of the block.
    pub sequence: u32,
    /// Object number; in headers with extra information also the type.
    pub object: u32,
    /// Chunk number, or parent and flags.
    pub chunk: u32,
    /// Bytes of data, or what the header says about the size.
    pub bytes: u32,
}

impl PackedTags {
    /// Decodes 16 bytes.
    pub fn decode(order: ByteOrder, bytes: &[u8; TAGS_LEN]) -> Self {
        Self {
            sequence: order.u32_at(bytes, 0),
            object: order.u32_at(bytes, 4),
            chunk: order.u32_at(bytes, 8),
            bytes: order.u32_at(bytes, 12),
        }
    }

    /// Returns the 16 bytes.
    pub fn encode(self, order: ByteOrder) -> [u8; TAGS_LEN] {
        let mut bytes = [0; TAGS_LEN];
        let words = [self.sequence, self.object, self.chunk, self.bytes];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&order.u32_bytes(word));
        }
        bytes
    }

    /// Decodes tags and the ECC that follows them, with one wrong bit corrected. Returns the number
    /// of wrong bits, or `None` if there are more. The words of the ECC may have the other byte
    /// order: those of a writer that swaps only the rest (spec: yaffs2 1).
    pub fn decode_with_ecc(
        order: ByteOrder,
        bytes: &[u8; TAGS_LEN],
        ecc: &[u8; TAGS_ECC_LEN],
    ) -> Option<(Self, u16)> {
        let computed = TagsEcc::of(bytes);
        if ByteOrder::ALL.iter().any(|it| TagsEcc::decode(*it, ecc) == computed) {
            return Some((Self::decode(order, bytes), 0));
        }
        ByteOrder::ALL.into_iter().find_map(|ecc_order| {
            let mut tags = *bytes;
            let wrong = TagsEcc::decode(ecc_order, ecc).correct(&mut tags)?;
            Some((Self::decode(order, &tags), wrong))
        })
    }
}

/// What a header's tags repeat of it, so that a scan need not read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extra {
    /// Type of the object.
    pub kind: ObjectKind,
    /// Number of the parent directory.
    pub parent: u32,
    /// Whether older data beyond the size is void.
    pub is_shrink: bool,
    /// Whether the header replaces another object, which only the header itself names.
    pub shadows: bool,
    /// Size of a file, or the object that a hard link names; otherwise 0.
    pub value: u32,
}

/// The checked tags of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tags {
    /// Sequence number of the block.
    pub sequence: u32,
    /// Object number.
    pub object: u32,
    /// Chunk number; 0 for an object header.
    pub chunk: u32,
    /// Bytes of data; of no meaning in headers.
    pub bytes: u32,
    /// Information about the header, if this is one that has it.
    pub extra: Option<Extra>,
}

impl Tags {
    /// Checks tags; returns `None` for an unknown type of object.
    pub fn unpack(packed: PackedTags) -> Option<Self> {
        let PackedTags { sequence, object, chunk, bytes } = packed;
        if chunk & EXTRA == 0 {
            return Some(Self { sequence, object, chunk, bytes, extra: None });
        }
        let extra = Extra {
            kind: ObjectKind::from_number(object >> 28)?,
            parent: chunk & LOW_28,
            is_shrink: chunk & SHRINK != 0,
            shadows: chunk & SHADOWS != 0,
            value: bytes,
        };
        Some(Self { sequence, object: object & LOW_28, chunk: 0, bytes: 0, extra: Some(extra) })
    }

    /// Returns the words to store.
    pub fn pack(&self) -> PackedTags {
        let Self { sequence, object, chunk, bytes, extra } = *self;
        let Some(extra) = extra else { return PackedTags { sequence, object, chunk, bytes } };
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let flags = EXTRA | flag(extra.is_shrink, SHRINK) | flag(extra.shadows, SHADOWS);
        PackedTags {
            sequence,
            object: object | extra.kind.number() << 28,
            chunk: extra.parent | flags,
            bytes: extra.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(bytes: [u8; 16]) -> Tags {
        let packed = PackedTags::decode(ByteOrder::Little, &bytes);
        let tags = Tags::unpack(packed).unwrap();
        assert_eq!((tags.pack(), packed.encode(ByteOrder::Little)), (packed, bytes));
        let big = PackedTags::decode(ByteOrder::Big, &packed.encode(ByteOrder::Big));
        assert_eq!(big, packed);
        tags
    }

    #[test]
    fn tags_of_the_specification() {
        let header = tags([1, 0x10, 0, 0, 1, 1, 0, 0x10, 1, 0, 0, 0x80, 5, 0, 0, 0]);
        let extra =
            Extra { kind: ObjectKind::File, parent: 1, is_shrink: false, shadows: false, value: 5 };
        let of =
            |chunk, bytes, extra| Tags { sequence: 0x1001, object: 0x101, chunk, bytes, extra };
        assert_eq!(header, of(0, 0, Some(extra)));
        let data = tags([1, 0x10, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0]);
        assert_eq!(data, of(1, 5, None));
        let shrink = tags([2, 0x10, 0, 0, 7, 1, 0, 0x10, 1, 0, 0, 0xC0, 0, 0, 0, 0]);
        assert_eq!(shrink.extra, Some(Extra { is_shrink: true, value: 0, ..extra }));
        let rename = tags([2, 0x10, 0, 0, 9, 1, 0, 0x10, 1, 0, 0, 0xA0, 0, 0, 0, 0]);
        assert_eq!(rename.extra, Some(Extra { shadows: true, value: 0, ..extra }));
    }

    #[test]
    fn types_that_do_not_exist_are_refused() {
        let packed = |kind: u32| PackedTags {
            sequence: 0x1000,
            object: kind << 28 | 0x101,
            chunk: EXTRA | 1,
            bytes: 0,
        };
        assert_eq!((0..16).filter(|kind| Tags::unpack(packed(*kind)).is_some()).count(), 5);
    }

    #[test]
    fn words_of_the_ecc_may_have_the_other_byte_order() {
        let packed = PackedTags { sequence: 0x1001, object: 0x101, chunk: 1, bytes: 5 };
        for order in ByteOrder::ALL {
            let bytes = packed.encode(order);
            for ecc_order in ByteOrder::ALL {
                let ecc = TagsEcc::of(&bytes).encode(ecc_order);
                let found = PackedTags::decode_with_ecc(order, &bytes, &ecc);
                assert_eq!(found, Some((packed, 0)));
            }
        }
    }
}
