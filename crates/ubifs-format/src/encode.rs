//! Checked nodes to bytes: common header, checksum, alignment and padding (spec: ubifs-format 3).
//!
//! # Invariants
//! 1. Appended nodes start at a multiple of 8 of the buffer; the gap before the next node is erased
//!    bytes (0xFF), as `mkfs` leaves it.
//! 2. The checksum is written last: a node is valid or, before [`seal`], has none.
//! 3. `decode` returns what was encoded, for every value within the ranges of the format.

use crate::constants::{NODE_ALIGN, NODE_MAGIC, NodeType, PADDING_BYTE, group};
use crate::key::{Key, KeyKind};
use crate::node::{
    Branch, CommitStart, Compression, Data, Dent, Inode, Master, Orphan, Reference, Superblock,
    Truncation,
};
use crate::raw::{self, CommonHeader};
use alloc::vec::Vec;
use eraseblock_base::raw::Raw;
use eraseblock_base::{align, crc};

/// A raw node with a header.
trait RawNode: Raw {
    fn header_mut(&mut self) -> &mut CommonHeader;
}

macro_rules! raw_node {
    ($($raw:ident,)*) => {$(
        impl RawNode for raw::$raw {
            fn header_mut(&mut self) -> &mut CommonHeader {
                &mut self.header
            }
        }
    )*};
}

raw_node! {
    InodeNode, DataNode, DentNode, TruncationNode, PaddingNode, SuperblockNode, MasterNode,
    ReferenceNode, IndexNode, CommitStartNode, OrphanNode,
}

/// The fields of the common header other than type and length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seal {
    /// Sequence number.
    pub sqnum: u64,
    /// [`crate::constants::group`].
    pub group: u8,
}

impl Seal {
    /// Returns a node that belongs to no group.
    pub const fn single(sqnum: u64) -> Self {
        Self { sqnum, group: group::NONE }
    }
}

/// Appends an inode node. The inline data of a deletion inode may be omitted while `data_len` keeps
/// its value (spec: ubifs-format 4.2).
pub fn inode(out: &mut Vec<u8>, node: &Inode<'_>, seal: Seal) {
    let mut raw = raw::InodeNode::zeroed();
    raw.key = key_field(Key::inode(node.ino));
    raw.creat_sqnum.set(node.creat_sqnum);
    raw.size.set(node.size);
    raw.atime_sec.set(node.atime.seconds.cast_unsigned());
    raw.atime_nsec.set(node.atime.nanoseconds);
    raw.ctime_sec.set(node.ctime.seconds.cast_unsigned());
    raw.ctime_nsec.set(node.ctime.nanoseconds);
    raw.mtime_sec.set(node.mtime.seconds.cast_unsigned());
    raw.mtime_nsec.set(node.mtime.nanoseconds);
    raw.nlink.set(node.nlink);
    raw.uid.set(node.uid);
    raw.gid.set(node.gid);
    raw.mode.set(node.mode);
    raw.flags.set(node.flags);
    raw.data_len.set(node.data_len);
    raw.xattr_cnt.set(node.xattr_cnt);
    raw.xattr_size.set(node.xattr_size);
    raw.xattr_names.set(node.xattr_names);
    raw.compr_type.set(node.compr_type.number());
    append(out, raw, NodeType::Inode, &[node.data], seal);
}

/// Appends a directory or xattr entry node, depending on the kind of its key.
pub fn dent(out: &mut Vec<u8>, node: &Dent<'_>, seal: Seal) {
    let node_type = match node.key.kind() {
        Some(KeyKind::Xent) => NodeType::Xent,
        _ => NodeType::Dent,
    };
    let mut raw = raw::DentNode::zeroed();
    raw.key = key_field(node.key);
    raw.inum.set(node.ino.into());
    raw.kind = node.kind.number();
    raw.nlen.set(node.name.len() as u16);
    raw.cookie.set(node.cookie);
    append(out, raw, node_type, &[node.name, &[0]], seal);
}

/// Appends a data node.
pub fn data(out: &mut Vec<u8>, node: &Data<'_>, seal: Seal) {
    let mut raw = raw::DataNode::zeroed();
    raw.key = key_field(node.key);
    raw.size.set(node.size);
    raw.compr_type.set(node.compression.number());
    raw.compr_size.set(node.compr_size);
    append(out, raw, NodeType::Data, &[node.payload], seal);
}

/// Writes header and fixed part of a data node of group 0 before its payload: `node` is space for
/// the fixed part, followed by the payload. [`seal`] completes the node.
pub fn frame_data(node: &mut [u8], key: Key, size: u32, compression: Compression) {
    let mut raw = raw::DataNode::zeroed();
    fill_header(&mut raw.header, NodeType::Data, node.len(), group::NONE);
    raw.key = key_field(key);
    raw.size.set(size);
    raw.compr_type.set(compression.number());
    raw.put(node);
}

/// Appends a truncation node.
pub fn truncation(out: &mut Vec<u8>, node: &Truncation, seal: Seal) {
    let mut raw = raw::TruncationNode::zeroed();
    raw.inum.set(node.ino);
    raw.old_size.set(node.old_size);
    raw.new_size.set(node.new_size);
    append(out, raw, NodeType::Truncation, &[], seal);
}

/// Appends a bud reference node.
pub fn reference(out: &mut Vec<u8>, node: &Reference, seal: Seal) {
    let mut raw = raw::ReferenceNode::zeroed();
    raw.lnum.set(node.leb.get());
    raw.offs.set(node.offset);
    raw.jhead.set(node.head);
    append(out, raw, NodeType::Reference, &[], seal);
}

/// Appends a commit start node.
pub fn commit_start(out: &mut Vec<u8>, node: &CommitStart, seal: Seal) {
    let mut raw = raw::CommitStartNode::zeroed();
    raw.cmt_no.set(node.cmt_no);
    append(out, raw, NodeType::CommitStart, &[], seal);
}

/// Appends an orphan node.
pub fn orphan(out: &mut Vec<u8>, node: &Orphan, seal: Seal) {
    let mut raw = raw::OrphanNode::zeroed();
    raw.cmt_no.set(node.cmt_no | u64::from(node.is_last) << 63);
    let inos: Vec<u8> = node.inos.iter().flat_map(|ino| ino.to_le_bytes()).collect();
    append(out, raw, NodeType::Orphan, &[&inos], seal);
}

/// Returns the length of an index node with this many children, without hashes.
pub const fn index_len(children: u32) -> u32 {
    raw::IndexNode::SIZE as u32 + children * raw::Branch::SIZE as u32
}

/// Appends an index node of a volume without authentication. There are at most 65535 branches.
pub fn index(out: &mut Vec<u8>, level: u16, branches: &[Branch], seal: Seal) {
    let mut raw = raw::IndexNode::zeroed();
    raw.child_cnt.set(branches.len() as u16);
    raw.level.set(level);
    let mut tail = Vec::with_capacity(branches.len() * raw::Branch::SIZE);
    for branch in branches {
        let mut raw = raw::Branch::zeroed();
        raw.lnum.set(branch.leb.get());
        raw.offs.set(branch.offset);
        raw.len.set(branch.len);
        raw.key = branch.key.to_bytes();
        tail.extend_from_slice(&raw.to_bytes());
    }
    append(out, raw, NodeType::Index, &[&tail], seal);
}

/// Appends a superblock node; its sequence number is a field of the value.
pub fn superblock(out: &mut Vec<u8>, node: &Superblock) {
    let mut raw = raw::SuperblockNode::zeroed();
    raw.key_hash = node.key_hash as u8;
    raw.flags.set(node.flags);
    raw.min_io_size.set(node.min_io_size);
    raw.leb_size.set(node.leb_size);
    raw.leb_cnt.set(node.leb_cnt);
    raw.max_leb_cnt.set(node.max_leb_cnt);
    raw.max_bud_bytes.set(node.max_bud_bytes);
    raw.log_lebs.set(node.log_lebs);
    raw.lpt_lebs.set(node.lpt_lebs);
    raw.orph_lebs.set(node.orph_lebs);
    raw.jhead_cnt.set(node.jhead_cnt);
    raw.fanout.set(node.fanout);
    raw.lsave_cnt.set(node.lsave_cnt);
    raw.fmt_version.set(node.fmt_version);
    raw.default_compr.set(node.default_compr.number());
    raw.rp_uid.set(node.rp_uid);
    raw.rp_gid.set(node.rp_gid);
    raw.rp_size.set(node.rp_size);
    raw.time_gran.set(node.time_gran);
    raw.uuid = node.uuid;
    raw.ro_compat_version.set(node.ro_compat_version);
    raw.hmac = node.hmac;
    raw.hmac_wkm = node.hmac_wkm;
    raw.hash_algo.set(node.hash_algo);
    raw.hash_mst = node.hash_mst;
    append(out, raw, NodeType::Superblock, &[], Seal::single(node.sqnum));
}

/// Appends a master node; its sequence number is a field of the value.
pub fn master(out: &mut Vec<u8>, node: &Master) {
    let mut raw = raw::MasterNode::zeroed();
    raw.highest_inum.set(node.highest_inum);
    raw.cmt_no.set(node.cmt_no);
    raw.flags.set(node.flags);
    raw.log_lnum.set(node.log_lnum);
    raw.root_lnum.set(node.root_lnum);
    raw.root_offs.set(node.root_offs);
    raw.root_len.set(node.root_len);
    raw.gc_lnum.set(node.gc_lnum);
    raw.ihead_lnum.set(node.ihead_lnum);
    raw.ihead_offs.set(node.ihead_offs);
    raw.index_size.set(node.index_size);
    raw.total_free.set(node.total_free);
    raw.total_dirty.set(node.total_dirty);
    raw.total_used.set(node.total_used);
    raw.total_dead.set(node.total_dead);
    raw.total_dark.set(node.total_dark);
    raw.lpt_lnum.set(node.lpt_lnum);
    raw.lpt_offs.set(node.lpt_offs);
    raw.nhead_lnum.set(node.nhead_lnum);
    raw.nhead_offs.set(node.nhead_offs);
    raw.ltab_lnum.set(node.ltab_lnum);
    raw.ltab_offs.set(node.ltab_offs);
    raw.lsave_lnum.set(node.lsave_lnum);
    raw.lsave_offs.set(node.lsave_offs);
    raw.lscan_lnum.set(node.lscan_lnum);
    raw.empty_lebs.set(node.empty_lebs);
    raw.idx_lebs.set(node.idx_lebs);
    raw.leb_cnt.set(node.leb_cnt);
    raw.hash_root_idx = node.hash_root_idx;
    raw.hash_lpt = node.hash_lpt;
    raw.hmac = node.hmac;
    append(out, raw, NodeType::Master, &[], Seal::single(node.sqnum));
}

/// Pads to the next multiple of `min_io` with a padding node or padding bytes (spec: ubifs-format
/// 3.5).
pub fn pad(out: &mut Vec<u8>, min_io: u32) {
    start(out);
    let end = align::align_up_usize(out.len(), min_io.max(NODE_ALIGN) as usize);
    let pad = end - out.len();
    pad_by(out, pad);
}

/// Appends `pad` bytes of padding, a multiple of 8, at a multiple of 8 (spec: ubifs-format 3.5).
pub fn pad_by(out: &mut Vec<u8>, pad: usize) {
    let end = out.len() + pad;
    if pad >= raw::PaddingNode::SIZE {
        let mut raw = raw::PaddingNode::zeroed();
        raw.pad_len.set((pad - raw::PaddingNode::SIZE) as u32);
        append(out, raw, NodeType::Padding, &[], Seal::single(0));
        out.resize(end, 0);
    } else {
        out.resize(end, PADDING_BYTE);
    }
}

/// Writes sequence number and checksum of an otherwise complete node.
pub fn seal(node: &mut [u8], sqnum: u64) {
    node[8..16].copy_from_slice(&sqnum.to_le_bytes());
    let crc = crc::crc32(&node[8..]);
    node[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Changes the size in a complete inode node and updates sequence number and checksum.
pub fn set_inode_size(node: &mut [u8], size: u64, sqnum: u64) {
    const SIZE: usize = core::mem::offset_of!(raw::InodeNode, size);
    node[SIZE..SIZE + 8].copy_from_slice(&size.to_le_bytes());
    seal(node, sqnum);
}

/// Appends erased bytes up to the next multiple of 8 and returns its offset.
pub fn start(out: &mut Vec<u8>) -> usize {
    let at = align::align_up_usize(out.len(), NODE_ALIGN as usize);
    out.resize(at, 0xFF);
    at
}

fn key_field(key: Key) -> [u8; 16] {
    let mut field = [0; 16];
    field[..8].copy_from_slice(&key.to_bytes());
    field
}

fn append<N: RawNode>(
    out: &mut Vec<u8>,
    mut raw: N,
    node_type: NodeType,
    tail: &[&[u8]],
    with: Seal,
) {
    let at = start(out);
    let len = N::SIZE + tail.iter().map(|part| part.len()).sum::<usize>();
    fill_header(raw.header_mut(), node_type, len, with.group);
    out.resize(at + N::SIZE, 0);
    raw.put(&mut out[at..]);
    for part in tail {
        out.extend_from_slice(part);
    }
    seal(&mut out[at..], with.sqnum);
}

fn fill_header(header: &mut CommonHeader, node_type: NodeType, len: usize, group: u8) {
    header.magic.set(NODE_MAGIC);
    header.len.set(len as u32);
    header.node_type = node_type.number();
    header.group_type = group;
}

#[cfg(test)]
mod tests;
