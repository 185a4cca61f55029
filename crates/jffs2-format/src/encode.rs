//! Checked nodes to bytes: the inverse of [`crate::decode`] (spec: jffs2 4, 5). Every function
//! appends one node to `out`, padded with 0xFF to a multiple of 4 bytes.

use crate::constants::{DIRENT_LEN, HEADER_LEN, INODE_LEN, MAGIC, XATTR_LEN, XREF_LEN, node_type};
use crate::node::{Dirent, Inode, Xattr, Xref};
use crate::order::crc32;
use alloc::vec::Vec;
use eraseblock_base::ByteOrder;

struct Writer<'a> {
    order: ByteOrder,
    start: usize,
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(order: ByteOrder, node_type: u16, totlen: u32, out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        let mut writer = Self { order, start, out };
        writer.u16(MAGIC);
        writer.u16(node_type);
        writer.u32(totlen);
        writer.crc();
        writer
    }

    fn u16(&mut self, value: u16) {
        self.out.extend_from_slice(&self.order.u16_bytes(value));
    }

    fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&self.order.u32_bytes(value));
    }

    /// Appends the CRC of everything so far.
    fn crc(&mut self) {
        let crc = crc32(&self.out[self.start..]);
        self.u32(crc);
    }

    fn fill(self) {
        let len = (self.out.len() - self.start).next_multiple_of(4);
        self.out.resize(self.start + len, 0xFF);
    }
}

/// Appends a CLEANMARKER node of `totlen` bytes, at least 12 (spec: jffs2 5.3).
pub fn cleanmarker(order: ByteOrder, totlen: u32, out: &mut Vec<u8>) {
    let writer = Writer::new(order, node_type::CLEANMARKER, totlen, out);
    let end = writer.start + (totlen.max(HEADER_LEN) as usize).next_multiple_of(4);
    out.resize(end, 0xFF);
}

/// Appends a PADDING node of `totlen` bytes, at least 12, filled with zeros (spec: jffs2 5.4).
pub fn padding(order: ByteOrder, totlen: u32, out: &mut Vec<u8>) {
    let writer = Writer::new(order, node_type::PADDING, totlen, out);
    let end = writer.start + totlen.max(HEADER_LEN) as usize;
    writer.out.resize(end, 0);
    writer.fill();
}

/// Appends a DAMAGE_MARKER node: a header alone (spec: jffs2 8.6).
pub fn damage_marker(order: ByteOrder, out: &mut Vec<u8>) {
    Writer::new(order, node_type::DAMAGE_MARKER, HEADER_LEN, out);
}

/// Appends an INODE node. Length and checksum of the stored data are computed from `data`, not
/// taken from `inode`.
pub fn inode(order: ByteOrder, inode: &Inode, data: &[u8], out: &mut Vec<u8>) {
    let csize = data.len() as u32;
    let mut writer = Writer::new(order, node_type::INODE, INODE_LEN + csize, out);
    writer.u32(inode.ino);
    writer.u32(inode.version);
    writer.u32(inode.mode);
    writer.u16(inode.uid);
    writer.u16(inode.gid);
    for word in
        [inode.isize, inode.atime, inode.mtime, inode.ctime, inode.offset, csize, inode.dsize]
    {
        writer.u32(word);
    }
    writer.out.extend_from_slice(&[inode.compression, inode.requested]);
    writer.u16(inode.flags);
    let node_crc = crc32(&writer.out[writer.start..]);
    writer.u32(crc32(data));
    writer.u32(node_crc);
    writer.out.extend_from_slice(data);
    writer.fill();
}

/// Appends a DIRENT node; the name has 1 to 255 bytes.
pub fn dirent(order: ByteOrder, dirent: &Dirent<'_>, out: &mut Vec<u8>) {
    let nsize = dirent.name.len() as u32;
    let mut writer = Writer::new(order, node_type::DIRENT, DIRENT_LEN + nsize, out);
    for word in [dirent.pino, dirent.version, dirent.ino, dirent.mctime] {
        writer.u32(word);
    }
    writer.out.extend_from_slice(&[nsize as u8, dirent.file_type, 0, 0]);
    writer.crc();
    writer.u32(crc32(dirent.name));
    writer.out.extend_from_slice(dirent.name);
    writer.fill();
}

/// Appends an XATTR node; the name has at most 255 bytes, the value at most 65535.
pub fn xattr(order: ByteOrder, xattr: &Xattr<'_>, out: &mut Vec<u8>) {
    let len = xattr_len(xattr.name.len(), xattr.value.len());
    let mut data = xattr.name.to_vec();
    data.push(0);
    data.extend_from_slice(xattr.value);
    let mut writer = Writer::new(order, node_type::XATTR, len, out);
    writer.u32(xattr.xid);
    writer.u32(xattr.version);
    writer.out.extend_from_slice(&[xattr.prefix, xattr.name.len() as u8]);
    writer.u16(xattr.value.len() as u16);
    writer.u32(crc32(&data));
    writer.crc();
    writer.out.extend_from_slice(&data);
    writer.fill();
}

/// Returns the length of an XATTR node with a name and a value of these lengths.
pub const fn xattr_len(name: usize, value: usize) -> u32 {
    (XATTR_LEN as usize + name + 1 + value).next_multiple_of(4) as u32
}

/// Appends an XREF node.
pub fn xref(order: ByteOrder, xref: &Xref, out: &mut Vec<u8>) {
    let mut writer = Writer::new(order, node_type::XREF, XREF_LEN, out);
    for word in [xref.ino, xref.xid, xref.xseqno] {
        writer.u32(word);
    }
    writer.crc();
}
