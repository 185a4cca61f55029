//! Inodes (spec: readonly-formats C.3).

use crate::error::damaged;
use crate::limits;
use crate::meta::{Cursor, Metadata, Position};
use eraseblock_vfs::{FileKind, FsError, Ino};

/// No fragment, no xattrs.
pub(crate) const NONE: u32 = u32::MAX;

/// An inode.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    /// Permission bits.
    pub(crate) permissions: u16,
    /// Index of its owner among the ids.
    pub(crate) uid: u16,
    /// Index of its group among the ids.
    pub(crate) gid: u16,
    /// Last change in seconds since 1970.
    pub(crate) mtime: u32,
    /// Number of its names.
    pub(crate) nlink: u32,
    /// Index of its xattrs, or [`NONE`].
    pub(crate) xattrs: u32,
    /// What it is.
    pub(crate) body: Body,
}

/// What only one kind of inode has.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Directory(Directory),
    File(File),
    Symlink { len: u32, at: Position },
    Device { is_block: bool, number: u32 },
    Fifo,
    Socket,
}

/// A directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directory {
    /// Where the block with its listing begins, after the start of the directory table.
    pub(crate) block: u32,
    /// Where the listing begins in the block.
    pub(crate) inside: u16,
    /// Bytes in the listing.
    pub(crate) listing: u32,
    /// Length that stat shows.
    pub(crate) size: u32,
}

/// A regular file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    /// Where its first block is.
    pub(crate) start: u64,
    /// Its length in bytes.
    pub(crate) size: u64,
    /// The fragment block with its end, or [`NONE`].
    pub(crate) fragment: u32,
    /// Where its end begins in the fragment block.
    pub(crate) inside: u32,
    /// Where the list of its blocks is.
    pub(crate) list: Position,
}

impl Body {
    pub(crate) fn kind(&self) -> FileKind {
        match self {
            Self::Directory(_) => FileKind::Directory,
            Self::File(_) => FileKind::Regular,
            Self::Symlink { .. } => FileKind::Symlink,
            Self::Device { is_block: true, .. } => FileKind::BlockDevice,
            Self::Device { is_block: false, .. } => FileKind::CharDevice,
            Self::Fifo => FileKind::Fifo,
            Self::Socket => FileKind::Socket,
        }
    }
}

/// Returns the inode number that the interface of file systems uses: the place of the inode, plus 1, as
/// 0 is none. Names of one file lead to one place, and no table is needed to find it.
pub(crate) fn ino(place: u64) -> Ino {
    place + 1
}

/// Returns the inode of a number of the interface.
pub(crate) fn read(metadata: &Metadata, ino: Ino) -> Result<Inode, FsError> {
    let place = ino.wrapping_sub(1);
    let superblock = metadata.superblock();
    let (block, inside) = (place >> 16, place & 0xFFFF);
    let room = superblock.directory_table - superblock.inode_table;
    let inside = u16::try_from(inside).unwrap_or(u16::MAX);
    if block >= room || usize::from(inside) >= limits::METADATA {
        let what =
            format_args!("inode at {block}:{inside}, the table has {room} bytes").to_string();
        return Err(damaged(superblock.inode_table, what));
    }
    let mut cursor = metadata.cursor(superblock.inode_table + block, inside);
    decode(&mut cursor)
}

fn decode(cursor: &mut Cursor<'_>) -> Result<Inode, FsError> {
    let place = cursor.place();
    let order = cursor.order();
    let mut head = [0; 16];
    cursor.read(&mut head)?;
    let kind = order.u16_at(&head, 0);
    let (nlink, xattrs, body) = match kind {
        1 => directory(cursor)?,
        8 => long_directory(cursor)?,
        2 => file(cursor)?,
        9 => long_file(cursor)?,
        3 | 10 => symlink(cursor, kind == 10)?,
        4 | 5 | 11 | 12 => {
            let (nlink, number) = (cursor.u32()?, cursor.u32()?);
            let xattrs = if kind > 7 { cursor.u32()? } else { NONE };
            (nlink, xattrs, Body::Device { is_block: matches!(kind, 4 | 11), number })
        }
        6 | 7 | 13 | 14 => {
            let nlink = cursor.u32()?;
            let xattrs = if kind > 7 { cursor.u32()? } else { NONE };
            (nlink, xattrs, if matches!(kind, 6 | 13) { Body::Fifo } else { Body::Socket })
        }
        _ => return Err(damaged(place, format_args!("inode of type {kind}, expected 1 to 14"))),
    };
    Ok(Inode {
        permissions: order.u16_at(&head, 2) & 0o7777,
        uid: order.u16_at(&head, 4),
        gid: order.u16_at(&head, 6),
        mtime: order.u32_at(&head, 8),
        nlink,
        xattrs,
        body,
    })
}

type Rest = (u32, u32, Body);

fn directory(cursor: &mut Cursor<'_>) -> Result<Rest, FsError> {
    let order = cursor.order();
    let mut bytes = [0; 16];
    cursor.read(&mut bytes)?;
    let (block, nlink) = (order.u32_at(&bytes, 0), order.u32_at(&bytes, 4));
    let (size, inside) = (order.u16_at(&bytes, 8), order.u16_at(&bytes, 10));
    let body = of_directory(cursor, block, inside, size.into())?;
    Ok((nlink, NONE, body))
}

fn long_directory(cursor: &mut Cursor<'_>) -> Result<Rest, FsError> {
    let order = cursor.order();
    let mut bytes = [0; 24];
    cursor.read(&mut bytes)?;
    let (nlink, size) = (order.u32_at(&bytes, 0), order.u32_at(&bytes, 4));
    let (block, inside) = (order.u32_at(&bytes, 8), order.u16_at(&bytes, 18));
    let body = of_directory(cursor, block, inside, size)?;
    Ok((nlink, order.u32_at(&bytes, 20), body))
}

/// The size of a directory counts three bytes for `.` and `..`, which are not stored.
fn of_directory(cursor: &Cursor<'_>, block: u32, inside: u16, size: u32) -> Result<Body, FsError> {
    let listing = size.saturating_sub(3);
    if listing > limits::LISTING {
        let most = limits::LISTING;
        let what =
            format_args!("directory with a listing of {listing} bytes, at most {most}").to_string();
        return Err(damaged(cursor.place(), what));
    }
    Ok(Body::Directory(Directory { block, inside, listing, size }))
}

fn file(cursor: &mut Cursor<'_>) -> Result<Rest, FsError> {
    let order = cursor.order();
    let mut bytes = [0; 16];
    cursor.read(&mut bytes)?;
    let file = File {
        start: order.u32_at(&bytes, 0).into(),
        fragment: order.u32_at(&bytes, 4),
        inside: order.u32_at(&bytes, 8),
        size: order.u32_at(&bytes, 12).into(),
        list: cursor.position(),
    };
    Ok((1, NONE, Body::File(file)))
}

fn long_file(cursor: &mut Cursor<'_>) -> Result<Rest, FsError> {
    let order = cursor.order();
    let mut bytes = [0; 40];
    cursor.read(&mut bytes)?;
    let file = File {
        start: order.u64_at(&bytes, 0),
        size: order.u64_at(&bytes, 8),
        fragment: order.u32_at(&bytes, 28),
        inside: order.u32_at(&bytes, 32),
        list: cursor.position(),
    };
    // A file size is signed for everybody else.
    if i64::try_from(file.size).is_err() {
        return Err(damaged(cursor.place(), format_args!("file of {} bytes", file.size)));
    }
    Ok((order.u32_at(&bytes, 24), order.u32_at(&bytes, 36), Body::File(file)))
}

fn symlink(cursor: &mut Cursor<'_>, is_long: bool) -> Result<Rest, FsError> {
    let (nlink, len) = (cursor.u32()?, cursor.u32()?);
    if len > limits::TARGET {
        let most = limits::TARGET;
        let what = format_args!("symbolic link of {len} bytes, at most {most}").to_string();
        return Err(damaged(cursor.place(), what));
    }
    let at = cursor.position();
    let xattrs = if is_long {
        cursor.bytes(len as usize)?;
        cursor.u32()?
    } else {
        NONE
    };
    Ok((nlink, xattrs, Body::Symlink { len, at }))
}

/// Major and minor number of a device.
pub(crate) fn device(number: u32) -> (u32, u32) {
    ((number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xF_FF00))
}

#[cfg(test)]
mod tests {
    #[test]
    fn device_numbers_are_taken_apart() {
        assert_eq!(super::device(0x0501), (5, 1));
        assert_eq!(super::device(0x1230_8845), (0x088, 0x1_2345));
    }
}
