//! The field tables of UBIFS: nodes (spec: ubifs-format 3.1, 4, 13, 14), and the bit-packed nodes of
//! the LPT (spec: ubifs-format 11), whose widths depend on the volume.

use crate::constants::{NODE_ALIGN, NODE_MAGIC, NodeType, PADDING_BYTE};
use crate::decode::{self, Limits};
use crate::lpt::LptGeometry;
use crate::raw;
use alloc::vec;
use alloc::vec::Vec;
use eraseblock_base::Location;
use eraseblock_base::align::is_erased;
use eraseblock_base::crc::{crc16, crc32};
use eraseblock_base::field::{
    Field, Placed, REST, Repr, Show, Structure, Structures, TailBuilder, number_at,
};
use eraseblock_base::raw::Raw;

/// Bytes of the common header that its checksum does not cover.
const UNCOVERED: usize = 8;

/// The nodes of UBIFS. The index of a node's structure is the number of its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UbifsFields {
    structures: Vec<Structure>,
}

impl Default for UbifsFields {
    fn default() -> Self {
        Self::new()
    }
}

impl UbifsFields {
    /// Returns the tables.
    pub fn new() -> Self {
        let node = |kind: &'static str, node_type: NodeType, fields: &[Field]| {
            let number = u64::from(node_type.number());
            let usual = [("magic", u64::from(NODE_MAGIC)), ("node_type", number)];
            Structure::new(kind, fields, &usual).aligned(NODE_ALIGN as usize, 0xFF)
        };
        let data: (_, &[Field], _) = ("data", &[Field::rest("", 0, Show::Bytes)], false);
        let name: (_, &[Field], _) = ("name", &[Field::rest("", 0, Show::Text)], false);
        let end: (_, &[Field], _) = ("nul", &[Field::number("", 0, 1, Show::Number)], false);
        let mut branch = raw::Branch::FIELDS.to_vec();
        branch.push(Field::rest("hash", raw::Branch::SIZE as u32, Show::Bytes));
        let ino: (_, &[Field], _) = ("ino", &[Field::number("", 0, 8, Show::Number)], true);
        let structures = vec![
            node("ubifs.ino", NodeType::Inode, raw::InodeNode::FIELDS).with_tail(&[data]),
            node("ubifs.data", NodeType::Data, raw::DataNode::FIELDS).with_tail(&[data]),
            node("ubifs.dent", NodeType::Dent, raw::DentNode::FIELDS).with_tail(&[name, end]),
            node("ubifs.xent", NodeType::Xent, raw::DentNode::FIELDS).with_tail(&[name, end]),
            node("ubifs.trun", NodeType::Truncation, raw::TruncationNode::FIELDS),
            node("ubifs.pad", NodeType::Padding, raw::PaddingNode::FIELDS),
            node("ubifs.sb", NodeType::Superblock, raw::SuperblockNode::FIELDS),
            node("ubifs.mst", NodeType::Master, raw::MasterNode::FIELDS),
            node("ubifs.ref", NodeType::Reference, raw::ReferenceNode::FIELDS),
            node("ubifs.idx", NodeType::Index, raw::IndexNode::FIELDS)
                .with_tail(&[("branch", &branch, true)]),
            node("ubifs.cs", NodeType::CommitStart, raw::CommitStartNode::FIELDS),
            node("ubifs.orph", NodeType::Orphan, raw::OrphanNode::FIELDS).with_tail(&[ino]),
            node("ubifs.auth", NodeType::Auth, raw::CommonHeader::FIELDS).with_tail(&[data]),
            node("ubifs.sig", NodeType::Signature, raw::SignatureNode::FIELDS).with_tail(&[data]),
        ];
        let structures = structures.into_iter().map(|node: Structure| node.with_tail(&[REST]));
        Self { structures: structures.collect() }
    }

    /// Returns whether something follows at `end` that may follow a node: another node, padding,
    /// erased flash, or the end of the block.
    fn may_end(bytes: &[u8], end: usize) -> bool {
        let next = end.next_multiple_of(NODE_ALIGN as usize);
        let Some(word) = bytes.get(next..).and_then(<[u8]>::first_chunk::<4>) else { return true };
        u32::from_le_bytes(*word) == NODE_MAGIC || is_erased(word) || *word == [PADDING_BYTE; 4]
    }
}

impl Structures for UbifsFields {
    fn structures(&self) -> &[Structure] {
        &self.structures
    }

    /// Recognises a node by magic, type and length. Without a valid checksum it also has to end where
    /// something else begins.
    fn recognise(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let limits = Limits::unknown(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        let header = decode::header(bytes, &limits, Location::Whole).ok()?;
        let len = header.len as usize;
        let node = bytes.get(..len)?;
        let kind = usize::from(header.node_type.number());
        (self.sums_hold(kind, node) || Self::may_end(bytes, len)).then_some((kind, len))
    }

    fn split(&self, kind: usize, bytes: &[u8]) -> Vec<Placed> {
        let structure = &self.structures[kind];
        let mut tail = TailBuilder::new(structure, bytes.len());
        let count = |label: &str| structure.number(label, bytes) as usize;
        match structure.kind {
            "ubifs.dent" | "ubifs.xent" => {
                if tail.add("name", count("nlen")) {
                    tail.add("nul", 0);
                }
            }
            "ubifs.ino" => {
                tail.add("data", count("data_len").min(tail.left()));
            }
            "ubifs.idx" => {
                let children = count("child_cnt").max(1);
                let hash = (tail.left() / children).saturating_sub(raw::Branch::SIZE);
                for _ in 0..children {
                    tail.add("branch", hash);
                }
            }
            "ubifs.orph" => while tail.add("ino", 0) {},
            _ => {
                tail.add("data", tail.left());
            }
        }
        tail.finish()
    }

    fn sum(&self, _: usize, _: &str, bytes: &[u8]) -> u64 {
        bytes.get(UNCOVERED..).map_or(0, |covered| u64::from(crc32(covered)))
    }
}

/// The nodes of one LPT. The index of a node's structure is the number of its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LptFields {
    structures: Vec<Structure>,
    lens: [usize; 4],
}

/// Bits of checksum and type.
const LPT_HEAD: [Field; 2] = [
    Field::number("crc", 0, 2, Show::Sum),
    Field { bits: 4, ..Field::number("type", 2, 0, Show::Number) },
];

/// Where the checksum's bytes end.
const LPT_CRC: usize = 2;

impl LptFields {
    /// Returns the tables for a geometry.
    pub fn new(geometry: &LptGeometry) -> Self {
        let bits = |name, bit, bits| Field { bit, bits, ..Field::number(name, 0, 0, Show::Number) };
        let LptGeometry { space_bits, lpt_lnum_bits, lpt_offs_bits, lpt_spc_bits, .. } = *geometry;
        let number = [bits("", 0, geometry.pcnt_bits)];
        let number: &[(&str, &[Field], bool)] = if geometry.inputs.big && geometry.pcnt_bits > 0 {
            &[("number", &number, false)]
        } else {
            &[]
        };
        let leb = [
            bits("free8", 0, space_bits),
            bits("dirty8", space_bits, space_bits),
            bits("index", 2 * space_bits, 1),
        ];
        let branch = [bits("lnum", 0, lpt_lnum_bits), bits("offs", lpt_lnum_bits, lpt_offs_bits)];
        let space = [bits("free", 0, lpt_spc_bits), bits("dirty", lpt_spc_bits, lpt_spc_bits)];
        let saved = [bits("", 0, geometry.lnum_bits)];
        let node = |kind, type_number, elements: &[(&'static str, &[Field], bool)]| {
            let unused = [bits("", 0, 1)];
            Structure::new(kind, &LPT_HEAD, &[("type", type_number)])
                .with_tail(elements)
                .with_tail(&[("unused", &unused, true)])
        };
        let structures = vec![
            node("lpt.pnode", 0, &[number, &[("leb", &leb, true)]].concat()),
            node("lpt.nnode", 1, &[number, &[("branch", &branch, true)]].concat()),
            node("lpt.ltab", 2, &[("leb", &space, true)]),
            node("lpt.lsave", 3, &[("leb", &saved, true)]),
        ];
        let large = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let lens = [
            geometry.pnode_size as usize,
            geometry.nnode_size as usize,
            large(geometry.ltab_size),
            large(geometry.lsave_size),
        ];
        Self { structures, lens }
    }
}

impl Structures for LptFields {
    fn structures(&self) -> &[Structure] {
        &self.structures
    }

    /// Recognises a node by type and checksum.
    fn recognise(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let kind = number_at(bytes.get(..LPT_CRC + 1)?, 16, 4, Repr::Little);
        let kind = kind as usize;
        let len = *self.lens.get(kind)?;
        let node = bytes.get(..len)?;
        (len > LPT_CRC && self.sums_hold(kind, node)).then_some((kind, len))
    }

    fn split(&self, kind: usize, bytes: &[u8]) -> Vec<Placed> {
        let mut tail = TailBuilder::new(&self.structures[kind], bytes.len());
        tail.add("number", 0);
        let most = if kind < 2 { 4 } else { usize::MAX };
        for name in ["leb", "branch"] {
            let mut count = 0;
            while count < most && tail.add(name, 0) {
                count += 1;
            }
        }
        while tail.add("unused", 0) {}
        tail.finish()
    }

    fn sum(&self, _: usize, _: &str, bytes: &[u8]) -> u64 {
        bytes.get(LPT_CRC..).map_or(0, |covered| u64::from(crc16(covered)))
    }
}

#[cfg(test)]
mod tests;
