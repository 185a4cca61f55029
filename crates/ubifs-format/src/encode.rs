//! Nodes to bytes: common header, checksum, alignment and padding (spec: ubifs-format 3).
//!
//! # Invariants
//! 1. What is appended starts at a multiple of 8 of the buffer; the gap before the next node is
//!    erased bytes (0xFF), as `mkfs` leaves it.
//! 2. The checksum is the last thing written: a node is valid or, before [`seal`], has none.

use crate::constants::{NODE_ALIGN, NODE_MAGIC, NodeType, PADDING_BYTE, group};
use crate::key::Key;
use crate::raw::{self, CommonHeader};
use eraseblock_base::{align, crc};
use zerocopy::{FromZeros, Immutable, IntoBytes};

/// A raw node that can be written: it knows its type and has a header.
pub trait RawNode: IntoBytes + Immutable {
    /// The type in its header.
    const TYPE: NodeType;

    /// Its header.
    fn header_mut(&mut self) -> &mut CommonHeader;
}

macro_rules! raw_node {
    ($($raw:ident is $kind:ident,)*) => {$(
        impl RawNode for raw::$raw {
            const TYPE: NodeType = NodeType::$kind;

            fn header_mut(&mut self) -> &mut CommonHeader {
                &mut self.header
            }
        }
    )*};
}

raw_node! {
    InodeNode is Inode,
    DataNode is Data,
    TruncationNode is Truncation,
    PaddingNode is Padding,
    SuperblockNode is Superblock,
    MasterNode is Master,
    ReferenceNode is Reference,
    IndexNode is Index,
    CommitStartNode is CommitStart,
    OrphanNode is Orphan,
    SignatureNode is Signature,
}

/// The 16 bytes of a key field.
pub fn key_field(key: Key) -> [u8; 16] {
    let mut field = [0; 16];
    field[..8].copy_from_slice(&key.to_bytes());
    field
}

/// Appends a node of a type that is written with one meaning only. `tail` is what follows the
/// fixed part. Header and checksum are filled in; the rest of `node` is as it shall be on flash.
pub fn append<N: RawNode>(out: &mut Vec<u8>, mut node: N, tail: &[u8], sqnum: u64, group: u8) {
    let at = start(out);
    fill_header(node.header_mut(), N::TYPE, size_of::<N>() + tail.len(), group);
    out.extend_from_slice(node.as_bytes());
    out.extend_from_slice(tail);
    seal(&mut out[at..], sqnum);
}

/// Appends a directory or xattr entry; the key of `node` says which. `name` is at most 255 bytes.
pub fn append_entry(
    out: &mut Vec<u8>,
    mut node: raw::DentNode,
    kind: NodeType,
    name: &[u8],
    sqnum: u64,
    group: u8,
) {
    debug_assert!(matches!(kind, NodeType::Dent | NodeType::Xent));
    let at = start(out);
    fill_header(&mut node.header, kind, raw::DentNode::SIZE + name.len() + 1, group);
    node.nlen.set(name.len() as u16);
    out.extend_from_slice(node.as_bytes());
    out.extend_from_slice(name);
    out.push(0);
    seal(&mut out[at..], sqnum);
}

/// Appends a data node that still lacks sequence number and checksum: [`seal`] it where it ends
/// up. `size` is the length of the block's content, 1 to 4096.
pub fn append_unsealed_data(
    out: &mut Vec<u8>,
    key: Key,
    size: u32,
    compr_type: u16,
    payload: &[u8],
) {
    start(out);
    let mut node = raw::DataNode::new_zeroed();
    fill_header(&mut node.header, NodeType::Data, raw::DataNode::SIZE + payload.len(), group::NONE);
    node.key = key_field(key);
    node.size.set(size);
    node.compr_type.set(compr_type);
    out.extend_from_slice(node.as_bytes());
    out.extend_from_slice(payload);
}

/// Writes sequence number and checksum into a complete node.
pub fn seal(node: &mut [u8], sqnum: u64) {
    node[8..16].copy_from_slice(&sqnum.to_le_bytes());
    let crc = crc::crc32(&node[8..]);
    node[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Fills up to the next multiple of `min_io` with a padding node or padding bytes
/// (spec: ubifs-format 3.5).
pub fn pad(out: &mut Vec<u8>, min_io: u32) {
    start(out);
    let end = align::align_up_usize(out.len(), min_io.max(NODE_ALIGN) as usize);
    let pad = end - out.len();
    if pad >= raw::PaddingNode::SIZE {
        let mut node = raw::PaddingNode::new_zeroed();
        node.pad_len.set((pad - raw::PaddingNode::SIZE) as u32);
        append(out, node, &[], 0, group::NONE);
        out.resize(end, 0);
    } else {
        out.resize(end, PADDING_BYTE);
    }
}

/// Goes to the next multiple of 8 and says where that is.
fn start(out: &mut Vec<u8>) -> usize {
    let at = align::align_up_usize(out.len(), NODE_ALIGN as usize);
    out.resize(at, 0xFF);
    at
}

fn fill_header(header: &mut CommonHeader, kind: NodeType, len: usize, group: u8) {
    header.magic.set(NODE_MAGIC);
    header.len.set(len as u32);
    header.node_type = kind.number();
    header.group_type = group;
}

#[cfg(test)]
mod tests;
