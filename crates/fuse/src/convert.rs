//! Conversion of attributes, times and device numbers to and from the protocol.

use crate::ids::IdMaps;
use eraseblock_vfs::{Attr, FileKind, Ino, NewKind, Timestamp};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The unit in which regular files occupy space.
const BLOCK: u64 = 4096;

/// Returns the current time of the host.
pub(crate) fn now() -> Timestamp {
    let now = SystemTime::now();
    match now.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        },
        Err(_) => Timestamp::default(),
    }
}

/// Returns a time for the kernel.
pub(crate) fn system_time(time: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    let nanoseconds = Duration::from_nanos(time.nanoseconds.into());
    whole.and_then(|whole| whole.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}

/// Returns a time from the kernel. Before 1970, fuser subtracts seconds and nanoseconds alike,
/// while the kernel counts nanoseconds forward from the second: corrected here.
pub(crate) fn timestamp(time: TimeOrNow) -> Timestamp {
    let time = match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => return now(),
    };
    let (sign, distance) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (1, since),
        Err(before) => (-1, before.duration()),
    };
    let seconds = i64::try_from(distance.as_secs()).unwrap_or(i64::MAX);
    Timestamp { seconds: sign * seconds, nanoseconds: distance.subsec_nanos() }
}

/// Returns the file type of the protocol.
pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

/// Returns the node to create for a mode of mknod(2), or `None` for unsupported kinds.
pub(crate) fn new_node(mode: u32, rdev: u32) -> Option<NewKind<'static>> {
    let (major, minor) = device(rdev);
    match FileKind::from_mode(mode)? {
        FileKind::Regular => Some(NewKind::Regular),
        FileKind::BlockDevice => Some(NewKind::BlockDevice(major, minor)),
        FileKind::CharDevice => Some(NewKind::CharDevice(major, minor)),
        FileKind::Fifo => Some(NewKind::Fifo),
        FileKind::Socket => Some(NewKind::Socket),
        FileKind::Directory | FileKind::Symlink => None,
    }
}

/// Linux's 32-bit device number as (major, minor): 12 bits of major between 8 and 12 bits of minor.
fn device(rdev: u32) -> (u32, u32) {
    ((rdev >> 8) & 0xFFF, (rdev & 0xFF) | ((rdev >> 12) & 0xF_FF00))
}

fn device_number((major, minor): (u32, u32)) -> u32 {
    (minor & 0xFF) | ((major & 0xFFF) << 8) | ((minor & 0xF_FF00) << 12)
}

/// Attributes for the kernel. Blocks are what the content takes uncompressed, as Linux's UBIFS
/// reports them.
pub(crate) fn file_attr(ino: INodeNo, attr: &Attr, ids: &IdMaps) -> FileAttr {
    let blocks = match attr.kind {
        FileKind::Regular => attr.size.div_ceil(BLOCK).saturating_mul(BLOCK / 512),
        _ => 0,
    };
    FileAttr {
        ino,
        size: attr.size,
        blocks,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(attr.kind),
        perm: (attr.permissions & 0o7777) as u16,
        nlink: attr.nlink,
        uid: ids.uid.shown(attr.uid),
        gid: ids.gid.shown(attr.gid),
        rdev: device_number(attr.rdev),
        blksize: 4096,
        flags: 0,
    }
}

/// Returns the protocol's number of an inode: its root is always 1, so the two numbers change
/// places.
pub(crate) fn node_number(ino: Ino, root: Ino) -> INodeNo {
    INodeNo(exchanged(ino, root))
}

/// Returns the inode of a protocol's number.
pub(crate) fn inode_number(node: INodeNo, root: Ino) -> Ino {
    exchanged(node.0, root)
}

fn exchanged(number: u64, root: Ino) -> u64 {
    match number {
        1 => root,
        number if number == root => 1,
        number => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_go_both_ways() {
        for pair in [(0, 0), (1, 3), (0xFFF, 0xF_FFFF), (8, 257), (4095, 0)] {
            assert_eq!(device(device_number(pair)), pair);
        }
        assert_eq!(device(0x0010_0103), (1, 0x103));
    }

    #[test]
    fn times_before_1970_have_nanoseconds_past_the_second() {
        let time = Timestamp { seconds: -2, nanoseconds: 800_000_000 };
        assert_eq!(system_time(time), UNIX_EPOCH - Duration::new(1, 200_000_000));
        // What fuser makes of the same two numbers.
        let from_fuser = UNIX_EPOCH - Duration::new(2, 800_000_000);
        assert_eq!(timestamp(TimeOrNow::SpecificTime(from_fuser)), time);
        let later = Timestamp { seconds: 7, nanoseconds: 5 };
        assert_eq!(timestamp(TimeOrNow::SpecificTime(system_time(later))), later);
        let extreme = Timestamp { seconds: i64::MIN, nanoseconds: 0 };
        let _ = system_time(extreme);
    }

    #[test]
    fn the_root_is_1_whatever_its_inode_number() {
        assert_eq!(node_number(5, 5), INodeNo(1));
        assert_eq!(node_number(1, 5), INodeNo(5));
        assert_eq!(inode_number(INodeNo(1), 5), 5);
        assert_eq!(inode_number(INodeNo(5), 5), 1);
        assert_eq!(inode_number(INodeNo(9), 5), 9);
    }
}
