//! Checked nodes (spec: jffs2 4, 5).

use crate::constants::{ACCURATE, node_type};

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeKind {
    /// One name in one directory.
    Dirent,
    /// Attributes and data of an inode.
    Inode,
    /// The block was erased completely.
    Cleanmarker,
    /// Filler.
    Padding,
    /// The list of a block's nodes.
    Summary,
    /// Name and value of an xattr.
    Xattr,
    /// Connects an xattr to an inode.
    Xref,
    /// Content of an unknown file was lost (spec: jffs2 8.6).
    DamageMarker,
    /// None of these.
    Unknown(UnknownClass),
}

/// The handling of a node of unknown type (spec: jffs2 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnknownClass {
    /// The file system must not be mounted.
    Incompatible,
    /// It may be mounted read-only.
    ReadOnly,
    /// The node must be kept.
    Copy,
    /// The node may be dropped.
    Delete,
}

/// The common header of a node; its header CRC is valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The type as stored, ACCURATE bit included.
    pub node_type: u16,
    /// Length in bytes without alignment, at least 12.
    pub totlen: u32,
}

impl Header {
    /// Returns whether the node is valid: its ACCURATE bit is set.
    pub fn is_accurate(self) -> bool {
        self.node_type & ACCURATE != 0
    }

    /// Returns the kind of the node, valid or not.
    pub fn kind(self) -> NodeKind {
        match self.node_type | ACCURATE {
            node_type::DIRENT => NodeKind::Dirent,
            node_type::INODE => NodeKind::Inode,
            node_type::CLEANMARKER => NodeKind::Cleanmarker,
            node_type::PADDING => NodeKind::Padding,
            node_type::SUMMARY => NodeKind::Summary,
            node_type::XATTR => NodeKind::Xattr,
            node_type::XREF => NodeKind::Xref,
            node_type::DAMAGE_MARKER => NodeKind::DamageMarker,
            other => NodeKind::Unknown(match other >> 14 {
                3 => UnknownClass::Incompatible,
                2 => UnknownClass::ReadOnly,
                1 => UnknownClass::Copy,
                _ => UnknownClass::Delete,
            }),
        }
    }
}

/// An INODE node without its data (spec: jffs2 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inode {
    /// Inode number.
    pub ino: u32,
    /// Version: rises with each node of the inode.
    pub version: u32,
    /// POSIX mode: type and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u16,
    /// Group.
    pub gid: u16,
    /// File size in bytes after this node.
    pub isize: u32,
    /// Last access, seconds since 1970.
    pub atime: u32,
    /// Last change of content, seconds since 1970.
    pub mtime: u32,
    /// Last change of the inode, seconds since 1970.
    pub ctime: u32,
    /// The offset of the data in the file.
    pub offset: u32,
    /// Bytes stored.
    pub csize: u32,
    /// Bytes of data.
    pub dsize: u32,
    /// Compressor number.
    pub compression: u8,
    /// Requested compressor; written as 0 and ignored.
    pub requested: u8,
    /// Unused flags; written as 0 and ignored.
    pub flags: u16,
    /// Checksum of the stored bytes.
    pub data_crc: u32,
}

/// A DIRENT node (spec: jffs2 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dirent<'a> {
    /// Inode number of the directory.
    pub pino: u32,
    /// Version: rises with each node of the directory.
    pub version: u32,
    /// The inode it names; 0 if the name is deleted.
    pub ino: u32,
    /// New times of the directory in seconds since 1970; 0 for no change.
    pub mctime: u32,
    /// File type: type bits of the mode, shifted right by 12.
    pub file_type: u8,
    /// The name, at most 255 bytes.
    pub name: &'a [u8],
}

/// An XATTR node (spec: jffs2 5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Xattr<'a> {
    /// Number of this pair of name and value.
    pub xid: u32,
    /// Version: rises with each copy of the pair.
    pub version: u32,
    /// Name space (spec: jffs2 10).
    pub prefix: u8,
    /// Name within its name space, at most 255 bytes.
    pub name: &'a [u8],
    /// Value, at most 65535 bytes.
    pub value: &'a [u8],
}

/// An XREF node (spec: jffs2 5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Xref {
    /// The inode.
    pub ino: u32,
    /// The pair of name and value.
    pub xid: u32,
    /// Counter of the file system; an odd value deletes the reference.
    pub xseqno: u32,
}

/// Xattr name spaces by number; those of ACLs are whole names.
const PREFIXES: [(u8, &[u8], bool); 5] = [
    (1, b"user.", false),
    (2, b"security.", false),
    (3, b"system.posix_acl_access", true),
    (4, b"system.posix_acl_default", true),
    (5, b"trusted.", false),
];

/// Number of the name space of access ACLs.
pub const PREFIX_ACL_ACCESS: u8 = 3;
/// Number of the name space of default ACLs.
pub const PREFIX_ACL_DEFAULT: u8 = 4;

/// Returns the full name of an xattr, or `None` for an unknown name space (spec: jffs2 10).
pub fn full_name(prefix: u8, name: &[u8]) -> Option<Vec<u8>> {
    let (_, text, is_whole) = PREFIXES.iter().find(|row| row.0 == prefix)?;
    Some(if *is_whole { text.to_vec() } else { [*text, name].concat() })
}

/// Splits a full name into name space and stored name; returns `None` if JFFS2 has no such name
/// space.
pub fn split_name(full: &[u8]) -> Option<(u8, &[u8])> {
    PREFIXES.iter().find_map(|(prefix, text, is_whole)| {
        let rest = full.strip_prefix(*text)?;
        (rest.is_empty() == *is_whole).then_some((*prefix, rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_names_are_split_and_joined() {
        for name in
            [&b"user.a"[..], b"security.x", b"trusted.overlay.y", b"system.posix_acl_access"]
        {
            let (prefix, rest) = split_name(name).unwrap();
            assert_eq!(full_name(prefix, rest).unwrap(), name);
        }
        assert_eq!(split_name(b"user."), None);
        assert_eq!(split_name(b"system.other"), None);
        assert_eq!(full_name(9, b"x"), None);
    }
}
