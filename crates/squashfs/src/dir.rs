//! Directories (spec: readonly-formats C.4).

use crate::error::damaged;
use crate::inode::{self, Directory};
use crate::meta::Metadata;
use eraseblock_vfs::{DirEntry, FileKind, FsError};
use std::ops::ControlFlow;

/// Entries after one header.
const MOST: u32 = 256;

/// Calls `sink` with each entry in order.
pub(crate) fn list(
    metadata: &Metadata,
    directory: &Directory,
    sink: &mut dyn FnMut(DirEntry) -> Result<ControlFlow<()>, FsError>,
) -> Result<(), FsError> {
    if directory.listing == 0 {
        return Ok(());
    }
    let start = metadata.superblock().directory_table.saturating_add(directory.block.into());
    let mut cursor = metadata.cursor(start, directory.inside);
    let (order, mut left, mut cookie) = (cursor.order(), directory.listing, 0);
    while left > 0 {
        let mut header = [0; 12];
        let place = cursor.place();
        take(&mut left, 12, place)?;
        cursor.read(&mut header)?;
        let count = order.u32_at(&header, 0).saturating_add(1);
        if count > MOST {
            return Err(damaged(
                place,
                format_args!("{count} entries after a header, at most {MOST}"),
            ));
        }
        let block = order.u32_at(&header, 4);
        for _ in 0..count {
            let mut entry = [0; 8];
            take(&mut left, 8, place)?;
            cursor.read(&mut entry)?;
            let len = u32::from(order.u16_at(&entry, 6)) + 1;
            take(&mut left, len, place)?;
            if len > 256 {
                return Err(damaged(place, format_args!("name of {len} bytes, at most 256")));
            }
            let name = cursor.bytes(len as usize)?;
            check_name(&name, place)?;
            let kind = kind(order.u16_at(&entry, 4), place)?;
            cookie += 1;
            let at = u64::from(block) << 16 | u64::from(order.u16_at(&entry, 0));
            if sink(DirEntry { name, ino: inode::ino(at), kind, cookie })?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Takes bytes off those that are left of a listing.
fn take(left: &mut u32, len: u32, place: u64) -> Result<(), FsError> {
    *left = left
        .checked_sub(len)
        .ok_or_else(|| damaged(place, "a directory entry after the end of its listing"))?;
    Ok(())
}

/// Names that lead elsewhere are none.
fn check_name(name: &[u8], place: u64) -> Result<(), FsError> {
    if matches!(name, b"." | b"..") || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        let name = String::from_utf8_lossy(name).escape_debug().to_string();
        return Err(damaged(place, format_args!("a directory entry named `{name}`")));
    }
    Ok(())
}

fn kind(number: u16, place: u64) -> Result<FileKind, FsError> {
    Ok(match number {
        1 => FileKind::Directory,
        2 => FileKind::Regular,
        3 => FileKind::Symlink,
        4 => FileKind::BlockDevice,
        5 => FileKind::CharDevice,
        6 => FileKind::Fifo,
        7 => FileKind::Socket,
        _ => return Err(damaged(place, format_args!("entry of type {number}, expected 1 to 7"))),
    })
}
