//! The field tables of UBI (spec: ubi 4, 5, 6.3, 16).
//!
//! Headers and records of the volume table are recognised by magic and place; the fastmap by the
//! magic numbers of its parts.

use crate::constants::{EC_MAGIC, HEADER_CRC_SPAN, HEADER_SIZE, RECORD_CRC_SPAN, VID_MAGIC};
use crate::fastmap::{EBA_MAGIC, HEADER_MAGIC, POOL_MAGIC, SUPER_MAGIC, VOLUME_MAGIC};
use crate::raw::{RawEcHeader, RawVidHeader, RawVolumeRecord};
use alloc::vec;
use alloc::vec::Vec;
use eraseblock_base::crc::crc32;
use eraseblock_base::field::{Field, Placed, REST, Repr, Show, Structure, Structures, TailBuilder};
use eraseblock_base::raw::Raw;

/// The index of the erase-counter header among the structures.
pub const EC: usize = 0;
/// The index of the volume identifier header.
pub const VID: usize = 1;
/// The index of a record of the volume table.
pub const RECORD: usize = 2;
/// The index of the first structure of the fastmap.
const FASTMAP: usize = 3;
/// The index of the list of eraseblocks of a fastmap.
pub const FASTMAP_LIST: usize = 8;

const fn int32(name: &'static str, offset: u32) -> Field {
    Field { repr: Repr::Big, ..Field::number(name, offset, 4, Show::Number) }
}

const fn hex(name: &'static str, offset: u32) -> Field {
    Field { show: Show::Hex, ..int32(name, offset) }
}

const fn zeros(name: &'static str, offset: u32, len: u32) -> Field {
    Field { bits: len * 8, ..Field::rest(name, offset, Show::Zero) }
}

/// The fastmap's first part (spec: ubi 16.2). Its checksum covers all blocks of the fastmap, so no
/// single structure determines it.
const SUPER: [Field; 7] = [
    hex("magic", 0),
    hex("version", 4),
    hex("data_crc", 8),
    int32("used_blocks", 12),
    Field { bits: 128 * 8, ..Field::rest("pebs", 16, Show::Bytes) },
    Field { bits: 128 * 8, ..Field::rest("counters", 144, Show::Bytes) },
    Field { bits: 40 * 8, ..Field::rest("sqnum_and_padding", 272, Show::Bytes) },
];

const HEADER: [Field; 8] = [
    hex("magic", 0),
    int32("free_count", 4),
    int32("used_count", 8),
    int32("scrub_count", 12),
    int32("bad_count", 16),
    int32("erase_count", 20),
    int32("volume_count", 24),
    zeros("padding", 28, 4),
];

const POOL: [Field; 5] = [
    hex("magic", 0),
    Field { bits: 16, ..int32("size", 4) },
    Field { bits: 16, ..int32("max_size", 6) },
    Field { bits: 1024 * 8, ..Field::rest("pebs", 8, Show::Bytes) },
    zeros("padding", 1032, 16),
];

const VOLUME: [Field; 8] = [
    hex("magic", 0),
    int32("vol_id", 4),
    Field { bits: 8, ..int32("vol_type", 8) },
    zeros("padding1", 9, 3),
    int32("data_pad", 12),
    int32("used_ebs", 16),
    int32("last_eb_bytes", 20),
    zeros("padding2", 24, 8),
];

const MAP: [Field; 2] = [hex("magic", 0), int32("reserved_pebs", 4)];

/// The structures of UBI.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UbiFields {
    structures: Vec<Structure>,
}

impl Default for UbiFields {
    fn default() -> Self {
        Self::new()
    }
}

impl UbiFields {
    /// Returns the tables.
    pub fn new() -> Self {
        let magic = |number: u32| [("magic", u64::from(number))];
        let header = |number: u32| [("magic", u64::from(number)), ("version", 1)];
        let entry: &[Field] = &[int32("pnum", 0), int32("ec", 4)];
        let peb: &[Field] = &[int32("", 0)];
        let structures = vec![
            Structure::new("ubi.ec", RawEcHeader::FIELDS, &header(EC_MAGIC)),
            Structure::new("ubi.vid", RawVidHeader::FIELDS, &header(VID_MAGIC)),
            Structure::new("ubi.volume", RawVolumeRecord::FIELDS, &[]),
            Structure::new("fastmap.super", &SUPER, &magic(SUPER_MAGIC)),
            Structure::new("fastmap.header", &HEADER, &magic(HEADER_MAGIC)),
            Structure::new("fastmap.pool", &POOL, &magic(POOL_MAGIC)),
            Structure::new("fastmap.volume", &VOLUME, &magic(VOLUME_MAGIC)),
            Structure::new("fastmap.map", &MAP, &magic(EBA_MAGIC))
                .with_tail(&[("peb", peb, true), REST]),
            Structure::new("fastmap.list", &[], &[]).with_tail(&[("peb", entry, true), REST]),
        ];
        Self { structures }
    }

    /// Returns the length of the list of eraseblocks that starts the bytes: it ends before the first
    /// volume of the fastmap, or before zeros.
    pub fn list_len(bytes: &[u8]) -> usize {
        let entries = bytes.chunks_exact(8);
        let in_list = |entry: &&[u8]| entry[..4] != VOLUME_MAGIC.to_be_bytes() && **entry != [0; 8];
        entries.take_while(in_list).count() * 8
    }
}

impl Structures for UbiFields {
    fn structures(&self) -> &[Structure] {
        &self.structures
    }

    /// Recognises headers and parts of a fastmap; records of the volume table have no magic number.
    fn recognise(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let (word, _) = bytes.split_first_chunk::<4>()?;
        let kind = match u32::from_be_bytes(*word) {
            EC_MAGIC => EC,
            VID_MAGIC => VID,
            SUPER_MAGIC => FASTMAP,
            HEADER_MAGIC => FASTMAP + 1,
            POOL_MAGIC => FASTMAP + 2,
            VOLUME_MAGIC => FASTMAP + 3,
            EBA_MAGIC => FASTMAP + 4,
            _ => return None,
        };
        let structure = &self.structures[kind];
        let is_map = structure.kind == "fastmap.map";
        let more = if is_map { 4 * structure.number("reserved_pebs", bytes) } else { 0 };
        let len = usize::try_from(more).ok()?.checked_add(structure.head_len())?;
        (len <= bytes.len()).then_some((kind, len))
    }

    fn split(&self, kind: usize, bytes: &[u8]) -> Vec<Placed> {
        let mut tail = TailBuilder::new(&self.structures[kind], bytes.len());
        while TailBuilder::add(&mut tail, "peb", 0) {}
        TailBuilder::finish(tail)
    }

    fn sum(&self, kind: usize, _: &str, bytes: &[u8]) -> u64 {
        let span = if kind == RECORD { RECORD_CRC_SPAN } else { HEADER_CRC_SPAN };
        bytes.get(..span).map_or(0, |covered| u64::from(crc32(covered)))
    }
}

const _: () = assert!(RawEcHeader::SIZE == HEADER_SIZE as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{decode_ec, decode_vid};
    use crate::encode::encode_ec;
    use crate::fastmap::{Fastmap, FastmapPool, SuperBlock};
    use crate::layout::HeaderLayout;
    use crate::types::{EcHeader, EraseCount};
    use alloc::string::String;
    use eraseblock_base::field::put_number;
    use eraseblock_base::{Location, Peb};

    #[test]
    fn sizes_are_those_of_the_structures() {
        let lens: Vec<usize> =
            UbiFields::new().structures.iter().map(Structure::head_len).collect();
        assert_eq!(lens, [64, 64, 172, 312, 32, 1048, 32, 8, 0]);
    }

    /// Every byte that a field owns, and no other, changes the number that the field has.
    #[test]
    fn each_byte_belongs_to_one_field() {
        let fields = UbiFields::new();
        for structure in fields.structures() {
            let bytes = vec![0x5A; structure.head_len()];
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 0xFF;
                let value = |part: &eraseblock_base::field::Part, bytes: &[u8]| {
                    bytes[part.field.bit as usize / 8..][..part.field.bits as usize / 8].to_vec()
                };
                let changed =
                    structure.head.iter().filter(|part| value(part, &bytes) != value(part, &other));
                assert_eq!(changed.count(), 1, "{} byte {at}", structure.kind);
            }
        }
    }

    #[test]
    fn the_table_agrees_with_the_decoder() {
        let fields = UbiFields::new();
        let header = EcHeader {
            erase_count: EraseCount::new(77).unwrap(),
            vid_hdr_offset: 512,
            data_offset: 2048,
            image_seq: 9,
            end_mark: false,
        };
        let mut bytes = encode_ec(&header);
        assert_eq!(fields.recognise(&bytes), Some((EC, 64)));
        assert!(fields.sums_hold(EC, &bytes));
        let ec = fields.structures()[EC].part("ec").unwrap().field;
        put_number(&mut bytes, ec.bit as usize, ec.bits as usize, ec.repr, 78);
        assert!(!fields.sums_hold(EC, &bytes));
        fields.seal(EC, &mut bytes, &|_| false);
        assert_eq!(decode_ec(&bytes, Location::Whole).unwrap().erase_count.get(), 78);
        let layout = HeaderLayout::new(131_072, 2048, 512, None).unwrap();
        let mut vid = [0; 64];
        for (label, value) in
            [("magic", u64::from(VID_MAGIC)), ("version", 1), ("vol_type", 1), ("lnum", 5)]
        {
            let field = fields.structures()[VID].part(label).unwrap().field;
            put_number(&mut vid, field.bit as usize, field.bits as usize, field.repr, value);
        }
        fields.seal(VID, &mut vid, &|_| false);
        assert_eq!(decode_vid(&vid, &layout, Location::Whole).unwrap().leb.get(), 5);
    }

    #[test]
    fn the_parts_of_a_fastmap_follow_each_other() {
        let count = |number| EraseCount::new(number).unwrap();
        let map = Fastmap {
            blocks: vec![(Peb::new(3), count(1))],
            user_pool: FastmapPool { max: 8, pebs: vec![Peb::new(7)] },
            used: vec![(Peb::new(4), count(2)), (Peb::new(5), count(2))],
            ..Fastmap::default()
        };
        let bytes = map.encode(8192).unwrap();
        assert_eq!(SuperBlock::decode(&bytes, Location::Whole).unwrap().blocks, map.blocks);
        let fields = UbiFields::new();
        let (mut at, mut kinds) = (0, Vec::new());
        while let Some((kind, len)) = fields.recognise(&bytes[at..]) {
            let structure = &fields.structures()[kind];
            kinds.push(String::from(structure.kind));
            at += len;
        }
        assert_eq!(kinds, ["fastmap.super", "fastmap.header", "fastmap.pool", "fastmap.pool"]);
        let list = UbiFields::list_len(&bytes[at..]);
        assert_eq!(list, 16);
        let placed = fields.split(FASTMAP_LIST, &bytes[at..at + list]);
        let labels: Vec<String> =
            placed.iter().map(|one| one.label(&fields.structures()[FASTMAP_LIST])).collect();
        assert_eq!(labels, ["peb[0].pnum", "peb[0].ec", "peb[1].pnum", "peb[1].ec"]);
    }
}
