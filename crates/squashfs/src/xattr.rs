//! Extended attributes (spec: readonly-formats C.6).

use crate::error::damaged;
use crate::limits;
use crate::meta::{Cursor, Metadata};
use crate::superblock::NONE;
use crate::tables::Table;
use eraseblock_vfs::FsError;

/// The bit of a type that marks a value as stored elsewhere.
const ELSEWHERE: u16 = 0x100;

/// An xattr.
#[derive(Debug)]
pub(crate) struct Xattr {
    /// Its name with the prefix of its namespace.
    pub(crate) name: Vec<u8>,
    /// Its value; empty if only names were wanted.
    pub(crate) value: Vec<u8>,
}

/// Which xattrs are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted<'n> {
    /// All, without their values.
    Names,
    /// The one of this name, with its value.
    Value(&'n [u8]),
}

/// Returns the xattrs of an index.
pub(crate) fn read(
    metadata: &Metadata,
    index: u32,
    wanted: Wanted<'_>,
) -> Result<Vec<Xattr>, FsError> {
    let (order, table) = (metadata.superblock().order, metadata.superblock().xattr_table);
    if index == crate::inode::NONE || table == NONE {
        return Ok(Vec::new());
    }
    let mut header = [0; 16];
    metadata.raw(table, &mut header)?;
    let pairs = order.u64_at(&header, 0);
    let count = order.u32_at(&header, 8);
    let ids = Table { array: table.saturating_add(16), count, what: "xattrs" };
    let id: [u8; 16] = ids.entry(metadata, index)?;
    let (at, count) = (order.u64_at(&id, 0), order.u32_at(&id, 8));
    if count > limits::XATTRS {
        let most = limits::XATTRS;
        return Err(damaged(table, format_args!("{count} xattrs of one inode, at most {most}")));
    }
    let mut cursor = place(metadata, pairs, at);
    let mut found = Vec::new();
    for _ in 0..count {
        let mut head = [0; 4];
        cursor.read(&mut head)?;
        let (kind, len) = (order.u16_at(&head, 0), order.u16_at(&head, 2));
        let mut name = prefix(kind, cursor.place())?.to_vec();
        name.extend(cursor.bytes(len.into())?);
        let is_wanted = matches!(wanted, Wanted::Value(this) if this == name);
        let value = value(metadata, pairs, &mut cursor, kind, is_wanted)?;
        if is_wanted || wanted == Wanted::Names {
            found.push(Xattr { name, value });
        }
    }
    Ok(found)
}

/// Where the pairs of a reference begin.
fn place(metadata: &Metadata, pairs: u64, reference: u64) -> Cursor<'_> {
    let inside = u16::try_from(reference & 0xFFFF).unwrap_or(u16::MAX);
    metadata.cursor(pairs.saturating_add(reference >> 16), inside)
}

/// Reads or skips the value after a name.
fn value(
    metadata: &Metadata,
    pairs: u64,
    cursor: &mut Cursor<'_>,
    kind: u16,
    is_wanted: bool,
) -> Result<Vec<u8>, FsError> {
    let stored = sized(cursor)?;
    if !is_wanted {
        return Ok(Vec::new());
    }
    if kind & ELSEWHERE == 0 {
        return Ok(stored);
    }
    let reference = cursor.order().u64_at(&stored, 0);
    sized(&mut place(metadata, pairs, reference))
}

fn sized(cursor: &mut Cursor<'_>) -> Result<Vec<u8>, FsError> {
    let len = cursor.u32()?;
    if len > limits::XATTR {
        let most = limits::XATTR;
        let what = format_args!("xattr of {len} bytes, at most {most}").to_string();
        return Err(damaged(cursor.place(), what));
    }
    cursor.bytes(len as usize)
}

fn prefix(kind: u16, place: u64) -> Result<&'static [u8], FsError> {
    Ok(match kind & !ELSEWHERE {
        0 => b"user.",
        1 => b"trusted.",
        2 => b"security.",
        other => {
            return Err(damaged(place, format_args!("xattr of type {other}, expected 0 to 2")));
        }
    })
}
