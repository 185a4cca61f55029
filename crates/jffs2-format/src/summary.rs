//! The SUMMARY node at the end of a full block: a list of the block's nodes (spec: jffs2 5.7, 12.4).

use crate::constants::{
    HEADER_LEN, MAGIC, SUMMARY_LEN, SUMMARY_MARKER, SUMMARY_MARKER_LEN, node_type, pad,
};
use crate::decode;
use crate::error::FormatError;
use crate::node::NodeKind;
use crate::order::crc32;
use alloc::vec::Vec;
use eraseblock_base::{ByteOrder, Location, Peb};

/// One node of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Offset of the node in its block.
    pub offset: u32,
    /// Length of the node without alignment.
    pub totlen: u32,
    /// The contents of the record.
    pub node: RecordNode,
}

/// The fields of a node that its record repeats.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordNode {
    /// An INODE node.
    Inode {
        /// Inode number.
        ino: u32,
        /// Version.
        version: u32,
    },
    /// A DIRENT node.
    Dirent {
        /// Directory.
        pino: u32,
        /// Version.
        version: u32,
        /// Inode named.
        ino: u32,
        /// File type.
        file_type: u8,
        /// Name of 1 to 255 bytes.
        name: Vec<u8>,
    },
    /// An XATTR node.
    Xattr {
        /// Pair of name and value.
        xid: u32,
        /// Version.
        version: u32,
    },
    /// An XREF node; its length is always 28.
    Xref,
}

impl RecordNode {
    /// Bytes of the record of an INODE node.
    pub const INODE_LEN: u32 = 18;
    /// Bytes of the record of an XATTR node.
    pub const XATTR_LEN: u32 = 18;
    /// Bytes of the record of an XREF node.
    pub const XREF_LEN: u32 = 6;

    /// Returns the bytes of the record of a DIRENT node whose name has `name` bytes.
    pub const fn dirent_len(name: usize) -> u32 {
        24 + name as u32
    }

    /// Returns the length of the record in bytes.
    pub fn len(&self) -> u32 {
        match self {
            Self::Inode { .. } => Self::INODE_LEN,
            Self::Dirent { name, .. } => Self::dirent_len(name.len()),
            Self::Xattr { .. } => Self::XATTR_LEN,
            Self::Xref => Self::XREF_LEN,
        }
    }

    /// Returns false: a record is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }
}

impl Record {
    /// Returns the length of the record in bytes.
    pub fn len(&self) -> u32 {
        self.node.len()
    }

    /// Returns false: a record is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the record of a scanned node, or `None` for nodes without records.
    ///
    /// # Errors
    ///
    /// Fails if the node is invalid.
    pub fn of(
        order: ByteOrder,
        kind: NodeKind,
        bytes: &[u8],
        offset: u32,
    ) -> Result<Option<Self>, FormatError> {
        let at = Location::Whole;
        let node = match kind {
            NodeKind::Inode => {
                let inode = decode::inode(order, bytes, at)?;
                RecordNode::Inode { ino: inode.ino, version: inode.version }
            }
            NodeKind::Dirent => {
                let entry = decode::dirent(order, bytes, at)?;
                RecordNode::Dirent {
                    pino: entry.pino,
                    version: entry.version,
                    ino: entry.ino,
                    file_type: entry.file_type,
                    name: entry.name.to_vec(),
                }
            }
            NodeKind::Xattr => {
                let (xid, version) = decode::xattr_head(order, bytes, at)?;
                RecordNode::Xattr { xid, version }
            }
            NodeKind::Xref => {
                decode::xref(order, bytes, at)?;
                RecordNode::Xref
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { offset, totlen: bytes.len() as u32, node }))
    }

    fn write(&self, order: ByteOrder, out: &mut Vec<u8>) {
        let mut words = |list: &[u32]| {
            for word in list {
                out.extend_from_slice(&order.u32_bytes(*word));
            }
        };
        match &self.node {
            RecordNode::Inode { ino, version } => {
                words(&[*ino, *version, self.offset, self.totlen]);
            }
            RecordNode::Xattr { xid, version } => {
                words(&[*xid, *version, self.offset, self.totlen]);
            }
            RecordNode::Dirent { pino, version, ino, file_type, name } => {
                words(&[self.totlen, self.offset, *pino, *version, *ino]);
                out.extend_from_slice(&[name.len() as u8, *file_type]);
                out.extend_from_slice(name);
            }
            RecordNode::Xref => words(&[self.offset]),
        }
    }

    fn node_type(&self) -> u16 {
        match self.node {
            RecordNode::Inode { .. } => node_type::INODE,
            RecordNode::Dirent { .. } => node_type::DIRENT,
            RecordNode::Xattr { .. } => node_type::XATTR,
            RecordNode::Xref => node_type::XREF,
        }
    }
}

/// Returns the minimum number of bytes of a summary with `records` bytes of records.
pub const fn needed(records: u32) -> u32 {
    (SUMMARY_LEN + records + SUMMARY_MARKER_LEN).next_multiple_of(4)
}

/// A checked SUMMARY node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Offset of the node in its block.
    pub offset: u32,
    /// Length of the cleanmarker at the start of the block; 0 for none.
    pub cleanmarker: u32,
    /// The nodes in flash order.
    pub records: Vec<Record>,
}

/// Returns the offset of the summary stated in the last 8 bytes of a block.
pub fn marked_offset(order: ByteOrder, block: &[u8]) -> Option<u32> {
    let marker = block.len().checked_sub(SUMMARY_MARKER_LEN as usize)?;
    (order.u32_at(block, marker + 4) == SUMMARY_MARKER).then(|| order.u32_at(block, marker))
}

/// Appends the summary node that fills a block of `block_size` bytes from `summary.offset`, which
/// must leave at least [`needed`] bytes.
pub fn encode(order: ByteOrder, summary: &Summary, block_size: u32, out: &mut Vec<u8>) {
    let totlen = (block_size - summary.offset) as usize;
    let mut body = Vec::with_capacity(totlen);
    for record in &summary.records {
        body.extend_from_slice(&order.u16_bytes(record.node_type()));
        record.write(order, &mut body);
    }
    body.resize(totlen - (SUMMARY_LEN + SUMMARY_MARKER_LEN) as usize, 0xFF);
    body.extend_from_slice(&order.u32_bytes(summary.offset));
    body.extend_from_slice(&order.u32_bytes(SUMMARY_MARKER));
    let start = out.len();
    out.extend_from_slice(&order.u16_bytes(MAGIC));
    out.extend_from_slice(&order.u16_bytes(node_type::SUMMARY));
    out.extend_from_slice(&order.u32_bytes(totlen as u32));
    let header_crc = crc32(&out[start..]);
    for word in [header_crc, summary.records.len() as u32, summary.cleanmarker, 0] {
        out.extend_from_slice(&order.u32_bytes(word));
    }
    let node_crc = crc32(&out[start..]);
    out.extend_from_slice(&order.u32_bytes(crc32(&body)));
    out.extend_from_slice(&order.u32_bytes(node_crc));
    out.extend_from_slice(&body);
}

/// Decodes the summary of a whole block, which must have one. Checks the checksums, and that its
/// records are ascending, inside the block and exactly as many as stated (spec: jffs2 12.4).
///
/// # Errors
///
/// Fails if one of these checks fails.
pub fn decode(order: ByteOrder, block: &[u8], peb: Peb) -> Result<Summary, FormatError> {
    const WHAT: &str = "summary node";
    let offset = marked_offset(order, block).unwrap_or(0);
    let at = Location::Peb(peb, offset);
    let wrong = |field, found: u32, expected| FormatError::Field {
        at,
        what: WHAT,
        field,
        found: found.into(),
        expected,
    };
    let bytes = block.get(offset as usize..).unwrap_or_default();
    let header = decode::header(order, bytes, at)?;
    if header.kind() != NodeKind::Summary || !offset.is_multiple_of(4) {
        return Err(wrong("node type", header.node_type.into(), "0x2006 at a multiple of 4"));
    }
    if header.totlen as usize != bytes.len() || bytes.len() < needed(0) as usize {
        return Err(wrong("length", header.totlen, "the rest of the block"));
    }
    let crc = |what, stored, computed| {
        if stored == computed {
            return Ok(());
        }
        Err(FormatError::Crc { at, what, stored, computed })
    };
    crc(WHAT, order.u32_at(bytes, 28), crc32(&bytes[..24]))?;
    crc("summary records", order.u32_at(bytes, 24), crc32(&bytes[SUMMARY_LEN as usize..]))?;
    let cleanmarker = order.u32_at(bytes, 16);
    let count = order.u32_at(bytes, 12);
    let mut rest = &bytes[SUMMARY_LEN as usize..bytes.len() - SUMMARY_MARKER_LEN as usize];
    let mut records: Vec<Record> = Vec::new();
    let mut end = pad(cleanmarker).filter(|end| *end <= offset);
    for number in 0..count {
        let bad = || wrong("record", number, "a record of a node that fits");
        let record = record(order, &mut rest).ok_or_else(bad)?;
        let free = end.is_some_and(|end| record.offset >= end && record.offset.is_multiple_of(4));
        end = record.offset.checked_add(record.totlen).and_then(pad).filter(|end| *end <= offset);
        if !free || end.is_none() || record.totlen < HEADER_LEN {
            return Err(bad());
        }
        records.push(record);
    }
    Ok(Summary { offset, cleanmarker, records })
}

/// Splits one record off `rest`.
fn record(order: ByteOrder, rest: &mut &[u8]) -> Option<Record> {
    let bytes = *rest;
    let word = |offset| order.u32_at(bytes, offset);
    let (record, len) = match order.u16_at(bytes, 0) {
        node_type::INODE => {
            let node = RecordNode::Inode { ino: word(2), version: word(6) };
            (Record { offset: word(10), totlen: word(14), node }, 18)
        }
        node_type::XATTR => {
            let node = RecordNode::Xattr { xid: word(2), version: word(6) };
            (Record { offset: word(10), totlen: word(14), node }, 18)
        }
        node_type::XREF => (Record { offset: word(2), totlen: 28, node: RecordNode::Xref }, 6),
        node_type::DIRENT => {
            let nsize = usize::from(*bytes.get(22)?);
            let node = RecordNode::Dirent {
                pino: word(10),
                version: word(14),
                ino: word(18),
                file_type: *bytes.get(23)?,
                name: bytes.get(24..24 + nsize)?.to_vec(),
            };
            (Record { offset: word(6), totlen: word(2), node }, 24 + nsize)
        }
        _ => return None,
    };
    *rest = bytes.get(len..)?;
    Some(record)
}

#[cfg(test)]
mod tests;
