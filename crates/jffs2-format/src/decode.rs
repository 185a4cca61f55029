//! Bytes to checked nodes (spec: jffs2 4, 5, 8.1).

use crate::constants::{
    ACCURATE, DIRENT_LEN, HEADER_LEN, INODE_LEN, MAGIC, MAX_NODE_DATA, XATTR_LEN, XREF_LEN,
    compression, pad,
};
use crate::error::FormatError;
use crate::node::{Dirent, Header, Inode, Xattr, Xref};
use crate::order::crc32;
use eraseblock_base::{ByteOrder, Location};

fn need<'a>(
    bytes: &'a [u8],
    len: u64,
    what: &'static str,
    at: Location,
) -> Result<&'a [u8], FormatError> {
    let short = FormatError::Short { at, what, found: bytes.len() as u64, expected: len };
    usize::try_from(len).ok().and_then(|len| bytes.get(..len)).ok_or(short)
}

fn check(at: Location, what: &'static str, stored: u32, computed: u32) -> Result<(), FormatError> {
    if stored == computed {
        return Ok(());
    }
    Err(FormatError::Crc { at, what, stored, computed })
}

fn field(
    at: Location,
    what: &'static str,
    field: &'static str,
    found: u32,
    expected: &'static str,
) -> FormatError {
    FormatError::Field { at, what, field, found: found.into(), expected }
}

/// Returns the CRC of the first `len` bytes of a node with its ACCURATE bit set (spec: jffs2 4.3).
fn crc_of_node(order: ByteOrder, bytes: &[u8], len: usize) -> u32 {
    let bytes = &bytes[..len.min(bytes.len())];
    let node_type = order.u16_at(bytes, 2);
    if node_type & ACCURATE != 0 || bytes.len() < 4 {
        return crc32(bytes);
    }
    let mut copy = bytes.to_vec();
    copy[2..4].copy_from_slice(&order.u16_bytes(node_type | ACCURATE));
    crc32(&copy)
}

/// Checks the common header at the start of `bytes`: magic, header CRC, a length of at least 12.
/// The node itself may be longer than `bytes`.
///
/// # Errors
///
/// Fails if the bytes are too short or one of these is wrong.
pub fn header(order: ByteOrder, bytes: &[u8], at: Location) -> Result<Header, FormatError> {
    let bytes = need(bytes, HEADER_LEN.into(), "node header", at)?;
    let magic = order.u16_at(bytes, 0);
    if magic != MAGIC {
        return Err(FormatError::Magic { at, found: magic });
    }
    let mut covered = [0; 8];
    covered.copy_from_slice(&bytes[..8]);
    let node_type = order.u16_at(bytes, 2);
    covered[2..4].copy_from_slice(&order.u16_bytes(node_type | ACCURATE));
    check(at, "header", order.u32_at(bytes, 8), crc32(&covered))?;
    let totlen = order.u32_at(bytes, 4);
    if totlen < HEADER_LEN {
        return Err(field(at, "node header", "length", totlen, "at least 12"));
    }
    Ok(Header { node_type, totlen })
}

/// Checks the INODE node at the start of `bytes`: node CRC, lengths (spec: jffs2 5.1, 8.1). The
/// data may be missing; [`inode_data`] checks it.
///
/// # Errors
///
/// Fails if the bytes are too short or one of these is wrong.
pub fn inode(order: ByteOrder, bytes: &[u8], at: Location) -> Result<Inode, FormatError> {
    const WHAT: &str = "inode node";
    let bytes = need(bytes, INODE_LEN.into(), WHAT, at)?;
    check(at, WHAT, order.u32_at(bytes, 64), crc_of_node(order, bytes, 60))?;
    let u32_at = |offset| order.u32_at(bytes, offset);
    let totlen = u32_at(4);
    let mut inode = Inode {
        ino: u32_at(12),
        version: u32_at(16),
        mode: u32_at(20),
        uid: order.u16_at(bytes, 24),
        gid: order.u16_at(bytes, 26),
        isize: u32_at(28),
        atime: u32_at(32),
        mtime: u32_at(36),
        ctime: u32_at(40),
        offset: u32_at(44),
        csize: u32_at(48),
        dsize: u32_at(52),
        compression: bytes[56],
        requested: bytes[57],
        flags: order.u16_at(bytes, 58),
        data_crc: u32_at(60),
    };
    if inode.compression == compression::ZERO && inode.dsize == 0 && inode.csize != 0 {
        // A bug of an old writer (spec: jffs2 8.1).
        inode.dsize = core::mem::take(&mut inode.csize);
    }
    if inode.offset > inode.isize {
        return Err(field(at, WHAT, "offset", inode.offset, "at most the file size"));
    }
    let expected = inode.csize.checked_add(INODE_LEN).and_then(pad);
    if expected.is_none() || expected != pad(totlen) {
        return Err(field(at, WHAT, "stored length", inode.csize, "the node length less 68"));
    }
    Ok(inode)
}

/// Checks that the lengths of an INODE node allow it to be decompressed: at most [`MAX_NODE_DATA`]
/// bytes from compressed data, equal lengths if stored, no payload for a hole, and an end below 4
/// GiB (spec: jffs2 9.1, 23).
///
/// # Errors
///
/// Fails if one of these rules is broken.
pub fn inode_lengths(inode: &Inode, at: Location) -> Result<(), FormatError> {
    const WHAT: &str = "inode node";
    if inode.offset.checked_add(inode.dsize).is_none() {
        return Err(field(at, WHAT, "data length", inode.dsize, "an end below 4 GiB"));
    }
    match inode.compression {
        compression::ZERO => Ok(()),
        compression::NONE if inode.csize == inode.dsize => Ok(()),
        compression::NONE => Err(field(at, WHAT, "data length", inode.dsize, "the stored length")),
        _ if inode.dsize <= MAX_NODE_DATA => Ok(()),
        _ => Err(field(at, WHAT, "data length", inode.dsize, "at most 65536")),
    }
}

/// Returns the stored data of the INODE node at the start of `bytes`. `inode` is the result of
/// [`inode`] for the same bytes.
///
/// # Errors
///
/// Fails if the bytes are too short or the CRC of the data is wrong.
pub fn inode_data<'a>(
    inode: &Inode,
    bytes: &'a [u8],
    at: Location,
) -> Result<&'a [u8], FormatError> {
    let all = need(bytes, u64::from(INODE_LEN) + u64::from(inode.csize), "inode data", at)?;
    let data = &all[INODE_LEN as usize..];
    if !data.is_empty() {
        check(at, "inode data", inode.data_crc, crc32(data))?;
    }
    Ok(data)
}

/// Checks the DIRENT node at the start of `bytes`: both CRCs, lengths, no NUL in the name (spec:
/// jffs2 5.2, 12.2).
///
/// # Errors
///
/// Fails if the bytes are too short or one of these is wrong.
pub fn dirent(order: ByteOrder, bytes: &[u8], at: Location) -> Result<Dirent<'_>, FormatError> {
    const WHAT: &str = "directory entry node";
    let head = need(bytes, DIRENT_LEN.into(), WHAT, at)?;
    check(at, WHAT, order.u32_at(head, 32), crc_of_node(order, head, 32))?;
    let nsize = u32::from(head[28]);
    let totlen = order.u32_at(head, 4);
    if pad(DIRENT_LEN + nsize) != pad(totlen) {
        return Err(field(at, WHAT, "name length", nsize, "the node length less 40"));
    }
    let all = need(bytes, u64::from(DIRENT_LEN + nsize), WHAT, at)?;
    let name = &all[DIRENT_LEN as usize..];
    check(at, "directory entry name", order.u32_at(head, 36), crc32(name))?;
    if name.is_empty() || name.contains(&0) {
        return Err(field(
            at,
            WHAT,
            "name length",
            nsize,
            "a name of one byte or more without NUL",
        ));
    }
    Ok(Dirent {
        pino: order.u32_at(head, 12),
        version: order.u32_at(head, 16),
        ino: order.u32_at(head, 20),
        mctime: order.u32_at(head, 24),
        file_type: head[29],
        name,
    })
}

/// Checks the XATTR node at the start of `bytes`: node CRC and lengths, but not its name and value
/// (spec: jffs2 10). Returns (xid, version).
///
/// # Errors
///
/// Fails if the bytes are too short or one of these is wrong.
pub fn xattr_head(order: ByteOrder, bytes: &[u8], at: Location) -> Result<(u32, u32), FormatError> {
    const WHAT: &str = "xattr node";
    let head = need(bytes, XATTR_LEN.into(), WHAT, at)?;
    check(at, WHAT, order.u32_at(head, 28), crc_of_node(order, head, 28))?;
    let totlen = order.u32_at(head, 4);
    let len = XATTR_LEN + u32::from(head[21]) + 1 + u32::from(order.u16_at(head, 22));
    if pad(len) != Some(totlen) {
        return Err(field(at, WHAT, "length", totlen, "that of name and value"));
    }
    Ok((order.u32_at(head, 12), order.u32_at(head, 16)))
}

/// Checks the whole XATTR node at the start of `bytes`, including name and value.
///
/// # Errors
///
/// Fails if the bytes are too short, or if a CRC or a length is wrong.
pub fn xattr(order: ByteOrder, bytes: &[u8], at: Location) -> Result<Xattr<'_>, FormatError> {
    let (xid, version) = xattr_head(order, bytes, at)?;
    let name_len = usize::from(bytes[21]);
    let value_len = usize::from(order.u16_at(bytes, 22));
    let len = name_len + 1 + value_len;
    let all = need(bytes, u64::from(XATTR_LEN) + len as u64, "xattr node", at)?;
    let data = &all[XATTR_LEN as usize..];
    check(at, "xattr data", order.u32_at(bytes, 24), crc32(data))?;
    let (name, value) = (&data[..name_len], &data[name_len + 1..]);
    Ok(Xattr { xid, version, prefix: bytes[20], name, value })
}

/// Checks the XREF node at the start of `bytes` (spec: jffs2 5.6).
///
/// # Errors
///
/// Fails if the bytes are too short or the CRC is wrong.
pub fn xref(order: ByteOrder, bytes: &[u8], at: Location) -> Result<Xref, FormatError> {
    const WHAT: &str = "xref node";
    let bytes = need(bytes, XREF_LEN.into(), WHAT, at)?;
    check(at, WHAT, order.u32_at(bytes, 24), crc_of_node(order, bytes, 24))?;
    let totlen = order.u32_at(bytes, 4);
    if totlen != XREF_LEN {
        return Err(field(at, WHAT, "length", totlen, "28"));
    }
    Ok(Xref {
        ino: order.u32_at(bytes, 12),
        xid: order.u32_at(bytes, 16),
        xseqno: order.u32_at(bytes, 20),
    })
}

#[cfg(test)]
mod tests;
