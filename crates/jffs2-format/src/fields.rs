//! The field tables of JFFS2 in both byte orders (spec: jffs2 4, 5).

use crate::constants::{
    ACCURATE, HEADER_LEN, MAGIC, SUMMARY_LEN, SUMMARY_MARKER, SUMMARY_MARKER_LEN, node_type,
};
use crate::decode;
use crate::node::NodeKind;
use crate::order::crc32;
use crate::summary::RecordNode;
use alloc::vec::Vec;
use eraseblock_base::field::{Field, Placed, REST, Repr, Show, Structure, Structures, TailBuilder};
use eraseblock_base::{ByteOrder, Location};

const fn int(name: &'static str, offset: u32, bytes: u32) -> Field {
    Field::number(name, offset, bytes, Show::Number)
}

const fn int32(name: &'static str, offset: u32) -> Field {
    int(name, offset, 4)
}

const fn sum(name: &'static str, offset: u32) -> Field {
    Field::number(name, offset, 4, Show::Sum)
}

const fn shown(field: Field, show: Show) -> Field {
    Field { show, ..field }
}

const HEADER: [Field; 4] = [
    shown(int("magic", 0, 2), Show::Hex),
    shown(int("nodetype", 2, 2), Show::Hex),
    int32("totlen", 4),
    sum("hdr_crc", 8),
];

const INODE: [Field; 17] = [
    int32("ino", 12),
    int32("version", 16),
    shown(int32("mode", 20), Show::Octal),
    int("uid", 24, 2),
    int("gid", 26, 2),
    int32("isize", 28),
    int32("atime", 32),
    int32("mtime", 36),
    int32("ctime", 40),
    int32("offset", 44),
    int32("csize", 48),
    int32("dsize", 52),
    int("compr", 56, 1),
    int("usercompr", 57, 1),
    shown(int("flags", 58, 2), Show::Hex),
    sum("data_crc", 60),
    sum("node_crc", 64),
];

const DIRENT: [Field; 9] = [
    int32("pino", 12),
    int32("version", 16),
    int32("ino", 20),
    int32("mctime", 24),
    int("nsize", 28, 1),
    int("type", 29, 1),
    shown(int("unused", 30, 2), Show::Zero),
    sum("node_crc", 32),
    sum("name_crc", 36),
];

const XATTR: [Field; 7] = [
    int32("xid", 12),
    int32("version", 16),
    int("xprefix", 20, 1),
    int("name_len", 21, 1),
    int("value_len", 22, 2),
    sum("data_crc", 24),
    sum("node_crc", 28),
];

const XREF: [Field; 4] =
    [int32("ino", 12), int32("xid", 16), int32("xseqno", 20), sum("node_crc", 24)];

const SUMMARY: [Field; 5] = [
    int32("sum_num", 12),
    int32("cln_mkr", 16),
    int32("padded", 20),
    sum("sum_crc", 24),
    sum("node_crc", 28),
];

/// Records of a summary, each with the type of its node in the first 2 bytes.
const RECORD_INODE: [Field; 5] = [
    shown(int("nodetype", 0, 2), Show::Hex),
    int32("ino", 2),
    int32("version", 6),
    int32("offset", 10),
    int32("totlen", 14),
];
const RECORD_XATTR: [Field; 5] =
    [RECORD_INODE[0], int32("xid", 2), RECORD_INODE[2], RECORD_INODE[3], RECORD_INODE[4]];
const RECORD_XREF: [Field; 2] = [RECORD_INODE[0], int32("offset", 2)];
const RECORD_DIRENT: [Field; 9] = [
    RECORD_INODE[0],
    int32("totlen", 2),
    int32("offset", 6),
    int32("pino", 10),
    int32("version", 14),
    int32("ino", 18),
    int("nsize", 22, 1),
    int("type", 23, 1),
    Field::rest("name", 24, Show::Text),
];
const MARKER: [Field; 2] = [int32("offset", 0), shown(int32("magic", 4), Show::Hex)];

/// The structures of JFFS2 in one byte order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Jffs2Fields {
    order: ByteOrder,
    structures: Vec<Structure>,
}

/// The index of each kind of node.
const KINDS: [NodeKind; 7] = [
    NodeKind::Inode,
    NodeKind::Dirent,
    NodeKind::Cleanmarker,
    NodeKind::Padding,
    NodeKind::Summary,
    NodeKind::Xattr,
    NodeKind::Xref,
];

impl Jffs2Fields {
    /// Returns the tables.
    pub fn new(order: ByteOrder) -> Self {
        let repr = match order {
            ByteOrder::Little => Repr::Little,
            ByteOrder::Big => Repr::Big,
        };
        let read = |fields: &[Field]| -> Vec<Field> {
            fields.iter().map(|field| field.read_as(repr)).collect()
        };
        let node = |kind, node_type: Option<u16>, fields: &[Field]| {
            let fields = read(&[&HEADER, fields].concat());
            let magic = ("magic", u64::from(MAGIC));
            let usual: Vec<_> = node_type
                .map(|number| ("nodetype", u64::from(number)))
                .into_iter()
                .chain([magic])
                .collect();
            Structure::new(kind, &fields, &usual).aligned(4, 0xFF)
        };
        let data: (_, &[Field], _) = ("data", &[Field::rest("", 0, Show::Bytes)], false);
        let name: (_, &[Field], _) = ("name", &[Field::rest("", 0, Show::Text)], false);
        let value: (_, &[Field], _) = ("value", &[Field::rest("", 0, Show::Bytes)], false);
        let end: (_, &[Field], _) = ("nul", &[int("", 0, 1)], false);
        let records = [RECORD_INODE, RECORD_XATTR].map(|fields| read(&fields));
        let (dirent, xref, marker) = (read(&RECORD_DIRENT), read(&RECORD_XREF), read(&MARKER));
        let summary: [(_, &[Field], _); 6] = [
            ("inode", &records[0], true),
            ("xattr", &records[1], true),
            ("dirent", &dirent, true),
            ("xref", &xref, true),
            ("padding", &[Field::rest("", 0, Show::Bytes)], false),
            ("marker", &marker, false),
        ];
        let structures = [
            node("jffs2.inode", Some(node_type::INODE), &INODE).with_tail(&[data, REST]),
            node("jffs2.dirent", Some(node_type::DIRENT), &DIRENT).with_tail(&[name, REST]),
            node("jffs2.cleanmarker", Some(node_type::CLEANMARKER), &[]).with_tail(&[REST]),
            node("jffs2.padding", Some(node_type::PADDING), &[]).with_tail(&[REST]),
            node("jffs2.summary", Some(node_type::SUMMARY), &SUMMARY)
                .with_tail(&summary)
                .with_tail(&[REST]),
            node("jffs2.xattr", Some(node_type::XATTR), &XATTR)
                .with_tail(&[name, end, value, REST]),
            node("jffs2.xref", Some(node_type::XREF), &XREF).with_tail(&[REST]),
            node("jffs2.unknown", None, &[]).with_tail(&[data, REST]),
        ];
        Self { order, structures: structures.into() }
    }

    /// Returns the byte order.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Adds the records of a summary, which each name their kind.
    fn records(&self, bytes: &[u8], tail: &mut TailBuilder<'_>) {
        let count = self.order.u32_at(bytes, HEADER_LEN as usize);
        for _ in 0..count {
            let at = tail.position();
            let record = bytes.get(at..).unwrap_or_default();
            let name = match self.order.u16_at(record, 0) {
                node_type::INODE => "inode",
                node_type::XATTR => "xattr",
                node_type::XREF => "xref",
                node_type::DIRENT => "dirent",
                _ => break,
            };
            let name_at = RecordNode::dirent_len(0) as usize - 2;
            let more = if name == "dirent" { record.get(name_at).copied().unwrap_or(0) } else { 0 };
            if !tail.add(name, usize::from(more)) {
                break;
            }
        }
        let marker = SUMMARY_MARKER_LEN as usize;
        let len = bytes.len();
        if tail.left() >= marker && self.order.u32_at(bytes, len - 4) == SUMMARY_MARKER {
            tail.add("padding", tail.left() - marker);
            tail.add("marker", 0);
        }
    }
}

impl Structures for Jffs2Fields {
    fn structures(&self) -> &[Structure] {
        &self.structures
    }

    /// Recognises a node by its header, whose checksum must be right, as Linux does. Of nodes that
    /// only fill space, just the header belongs to the structure.
    fn recognise(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let header = decode::header(self.order, bytes, Location::Whole).ok()?;
        let len = header.totlen as usize;
        let own = header.kind();
        let kind = KINDS.iter().position(|kind| *kind == own).unwrap_or(KINDS.len());
        if own == NodeKind::Padding && header.is_accurate() {
            return Some((kind, HEADER_LEN as usize));
        }
        let head = self.structures[kind].head_len();
        if len < head {
            return (len <= bytes.len()).then_some((KINDS.len(), len));
        }
        (len <= bytes.len()).then_some((kind, len))
    }

    fn split(&self, kind: usize, bytes: &[u8]) -> Vec<Placed> {
        let structure = &self.structures[kind];
        let mut tail = TailBuilder::new(structure, bytes.len());
        let count = |label: &str| structure.number(label, bytes) as usize;
        match structure.kind {
            "jffs2.inode" => {
                tail.add("data", count("csize"));
            }
            "jffs2.dirent" => {
                tail.add("name", count("nsize"));
            }
            "jffs2.xattr" => {
                let has_name = tail.add("name", count("name_len")) && tail.add("nul", 0);
                let _ = has_name && tail.add("value", count("value_len"));
            }
            "jffs2.summary" => self.records(bytes, &mut tail),
            "jffs2.unknown" => {
                tail.add("data", tail.left());
            }
            _ => {}
        }
        tail.finish()
    }

    /// A node that became obsolete has lost a bit of its type, which its checksums still count.
    fn sum(&self, kind: usize, label: &str, bytes: &[u8]) -> u64 {
        let structure = &self.structures[kind];
        let head = structure.head_len();
        let count = |label: &str| structure.number(label, bytes) as usize;
        let tail = bytes.get(head..).unwrap_or_default();
        let first = |len: usize| &tail[..len.min(tail.len())];
        let crc = match (structure.kind, label) {
            (_, "hdr_crc") => self.sum_of_start(bytes, 8),
            ("jffs2.inode", "node_crc") => self.sum_of_start(bytes, 60),
            ("jffs2.dirent", "node_crc") => self.sum_of_start(bytes, 32),
            ("jffs2.xattr", "node_crc") => self.sum_of_start(bytes, 28),
            ("jffs2.xref" | "jffs2.summary", "node_crc") => self.sum_of_start(bytes, 24),
            ("jffs2.inode", _) => crc32(first(count("csize"))),
            ("jffs2.dirent", _) => crc32(first(count("nsize"))),
            ("jffs2.xattr", _) => crc32(first(count("name_len") + 1 + count("value_len"))),
            _ => crc32(tail),
        };
        crc.into()
    }
}

impl Jffs2Fields {
    fn sum_of_start(&self, bytes: &[u8], len: usize) -> u32 {
        let mut start = [0; 64];
        let len = len.min(bytes.len());
        start[..len].copy_from_slice(&bytes[..len]);
        let node_type = self.order.u16_at(bytes, 2) | ACCURATE;
        start[2..4].copy_from_slice(&self.order.u16_bytes(node_type));
        crc32(&start[..len])
    }
}

const _: () = assert!(SUMMARY_LEN == 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;
    use crate::node::{Dirent, Inode, Xref};
    use crate::summary::{self, Record, Summary};
    use alloc::string::String;
    use alloc::vec;
    use eraseblock_base::Peb;
    use eraseblock_base::field::put_number;

    fn assert_tiles(fields: &Jffs2Fields, kind: usize, bytes: &[u8]) {
        let structure = &fields.structures()[kind];
        let mut owners = vec![0_u8; bytes.len()];
        let tail = fields.split(kind, bytes);
        let head = structure.head.iter().map(|part| part.field);
        for field in head.chain(tail.iter().map(|one| one.field)) {
            for byte in field.bit / 8..(field.bit + field.bits) / 8 {
                owners[byte as usize] += 1;
            }
        }
        assert!(owners.iter().all(|owner| *owner == 1), "{}", structure.kind);
    }

    #[test]
    fn fields_tile_nodes_whatever_their_counts_say() {
        let mut state = 3_u64;
        for order in ByteOrder::ALL {
            let fields = Jffs2Fields::new(order);
            for kind in 0..fields.structures().len() {
                let head = fields.structures()[kind].head_len();
                for len in [head, head + 1, head + 40, head + 300] {
                    let bytes: Vec<u8> = (0..len)
                        .map(|_| {
                            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            (state >> 60) as u8
                        })
                        .collect();
                    assert_tiles(&fields, kind, &bytes);
                }
            }
        }
    }

    #[test]
    fn heads_have_the_sizes_of_the_format() {
        let fields = Jffs2Fields::new(ByteOrder::Big);
        let lens: Vec<usize> = fields.structures().iter().map(Structure::head_len).collect();
        assert_eq!(lens, [68, 40, 12, 12, 32, 32, 28, 12]);
    }

    fn set(fields: &Jffs2Fields, kind: usize, bytes: &mut [u8], label: &str, value: u64) {
        let field = fields.structures()[kind].part(label).unwrap().field;
        put_number(bytes, field.bit as usize, field.bits as usize, field.repr, value);
        assert!(!fields.sums_hold(kind, bytes));
        fields.seal(kind, bytes, &|_| false);
    }

    #[test]
    fn tables_agree_with_the_decoders() {
        for order in ByteOrder::ALL {
            let fields = Jffs2Fields::new(order);
            let at = Location::Whole;
            let mut bytes = Vec::new();
            let inode =
                Inode { ino: 7, version: 2, csize: 3, dsize: 3, isize: 9, ..Inode::default() };
            encode::inode(order, &inode, b"abc", &mut bytes);
            bytes.truncate(71);
            assert_eq!(fields.recognise(&bytes), Some((0, 71)));
            assert_tiles(&fields, 0, &bytes);
            set(&fields, 0, &mut bytes, "uid", 77);
            assert_eq!(decode::inode(order, &bytes, at).unwrap().uid, 77);
            let entry =
                Dirent { pino: 1, version: 4, ino: 7, mctime: 0, file_type: 8, name: b"name" };
            let mut bytes = Vec::new();
            encode::dirent(order, &entry, &mut bytes);
            set(&fields, 1, &mut bytes, "ino", 8);
            assert_eq!(decode::dirent(order, &bytes, at).unwrap().ino, 8);
            let mut bytes = Vec::new();
            encode::xref(order, &Xref { ino: 1, xid: 2, xseqno: 4 }, &mut bytes);
            set(&fields, 6, &mut bytes, "xid", 3);
            assert_eq!(decode::xref(order, &bytes, at).unwrap().xid, 3);
        }
    }

    #[test]
    fn a_summary_is_split_into_its_records() {
        for order in ByteOrder::ALL {
            let node = RecordNode::Inode { ino: 7, version: 2 };
            let inode = Record { offset: 12, totlen: 68, node };
            let (pino, version, ino, file_type) = (1, 2, 7, 8);
            let node = RecordNode::Dirent { pino, version, ino, file_type, name: b"ab".to_vec() };
            let entry = Record { offset: 80, totlen: 42, node };
            let sum = Summary { offset: 200, cleanmarker: 12, records: vec![inode, entry] };
            let mut block = vec![0xFF; 200];
            summary::encode(order, &sum, 1024, &mut block);
            assert!(summary::decode(order, &block, Peb::new(0)).is_ok());
            let fields = Jffs2Fields::new(order);
            let bytes = &block[200..];
            assert_eq!(fields.recognise(bytes), Some((4, 824)));
            assert!(fields.sums_hold(4, bytes));
            assert_tiles(&fields, 4, bytes);
            let structure = &fields.structures()[4];
            let labels: Vec<String> =
                fields.split(4, bytes).iter().map(|one| one.label(structure)).collect();
            assert_eq!(labels.len(), 5 + 9 + 1 + 2);
            assert!(labels.contains(&String::from("dirent[0].name")));
            assert!(labels.contains(&String::from("marker.magic")));
        }
    }
}
