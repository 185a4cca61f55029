//! Describes operations and attributes for violations and stories.

use eraseblock_vfs::attr::InodeFlags;
use eraseblock_vfs::{Attr, FileKind, RenameMode, XattrMode};
use eraseblock_vfs_testkit::ops::{Change, DIRS, Make, Object, Op, Place, Texture, XATTRS};

/// Describes an operation.
pub(crate) fn op(op: &Op) -> String {
    match op {
        Op::Create(at, make) => format!("make {} {}", of_make(*make), path(*at)),
        Op::Unnamed(dir, slot) => {
            let dir = brief(DIRS[usize::from(*dir) % DIRS.len()]);
            format!("make a file without a name in {dir}, open as {slot}")
        }
        Op::Link(object, at) => format!("link {} as {}", of_object(*object), path(*at)),
        Op::Unlink(at) => format!("unlink {}", path(*at)),
        Op::RemoveDir(at) => format!("rmdir {}", path(*at)),
        Op::Rename(from, to, mode) => {
            let mode = match mode {
                RenameMode::Replace => "",
                RenameMode::NoReplace => ", replacing nothing",
                RenameMode::Exchange => ", exchanging both",
                RenameMode::Whiteout => ", leaving a whiteout",
            };
            format!("rename {} to {}{mode}", path(*from), path(*to))
        }
        Op::Write { object, offset, len, texture } => {
            let (bytes, object) = (of_texture(*texture), of_object(*object));
            format!("write {len} {bytes} bytes at {offset} to {object}")
        }
        Op::Append(object, len, texture) => {
            format!("append {len} {} bytes to {}", of_texture(*texture), of_object(*object))
        }
        Op::Change(object, change) => of_change(*object, *change),
        Op::SetXattr(object, name, len, mode) => {
            let mode = match mode {
                XattrMode::Either => "",
                XattrMode::Create => ", which must be new",
                XattrMode::Replace => ", which must exist",
            };
            format!("set {} of {} to {len} bytes{mode}", of_xattr(*name), of_object(*object))
        }
        Op::RemoveXattr(object, name) => {
            format!("remove {} of {}", of_xattr(*name), of_object(*object))
        }
        Op::Open(at, slot) => format!("open {} as {slot}", path(*at)),
        Op::Release(slot) => format!("close what is open as {slot}"),
        Op::SyncFile(object) => format!("fsync {}", of_object(*object)),
        Op::Sync => "sync".to_owned(),
        Op::Step => "one step of the work in the background".to_owned(),
        Op::ReadOnlyAndBack => "remount read-only, then writable again".to_owned(),
        Op::Restart => "unmount and mount again".to_owned(),
        Op::SyncAndCut => "sync, cut the power and mount again".to_owned(),
    }
}

/// Returns a path for messages, shortened if it is long.
pub(crate) fn brief(path: &[u8]) -> String {
    match String::from_utf8_lossy(path) {
        path if path.len() > 60 => format!("/{}... ({} bytes)", &path[..20], path.len()),
        path => format!("/{path}"),
    }
}

fn path(at: Place) -> String {
    brief(&at.path())
}

fn of_make(make: Make) -> String {
    match make {
        Make::Regular => "the file".to_owned(),
        Make::Directory => "the directory".to_owned(),
        Make::Symlink(len) => format!("a symlink with a target of {len} bytes at"),
        Make::Block => "the block device".to_owned(),
        Make::Char => "the character device".to_owned(),
        Make::Fifo => "the pipe".to_owned(),
        Make::Socket => "the socket".to_owned(),
    }
}

fn of_object(object: Object) -> String {
    match object {
        Object::Root => "the root".to_owned(),
        Object::At(at) => path(at),
        Object::Slot(slot) => format!("what is open as {slot}"),
    }
}

const fn of_texture(texture: Texture) -> &'static str {
    match texture {
        Texture::Random => "random",
        Texture::Text => "compressible",
        Texture::Zeros => "zero",
    }
}

fn of_xattr(name: u8) -> String {
    String::from_utf8_lossy(XATTRS[usize::from(name) % XATTRS.len()]).into_owned()
}

fn of_change(object: Object, change: Change) -> String {
    let object = of_object(object);
    match change {
        Change::Mode(mode) => format!("chmod {object} to {mode:04o}"),
        Change::Owner(uid, gid) => format!("chown {object} to {uid}:{gid}"),
        Change::Times(atime, mtime) => format!("set atime {atime} and mtime {mtime} of {object}"),
        Change::Flags(flags) => format!("set the flags of {object} to {flags:#07b}"),
        Change::Size(size) => format!("truncate {object} to {size} bytes"),
    }
}

/// Describes a kind of inode.
pub(crate) const fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "a file",
        FileKind::Directory => "a directory",
        FileKind::Symlink => "a symlink",
        FileKind::BlockDevice => "a block device",
        FileKind::CharDevice => "a character device",
        FileKind::Fifo => "a pipe",
        FileKind::Socket => "a socket",
    }
}

/// Describes attributes.
pub(crate) fn attr(attr: &Attr) -> String {
    let flags = match of_flags(attr.flags) {
        flags if flags.is_empty() => "no flags".to_owned(),
        flags => format!("flags {flags}"),
    };
    format!(
        "mode {:04o}, owner {}:{}, {} bytes, {} links, atime {}, mtime {}, ctime {}, {flags}",
        attr.permissions,
        attr.uid,
        attr.gid,
        attr.size,
        attr.nlink,
        attr.atime.seconds,
        attr.mtime.seconds,
        attr.ctime.seconds,
    )
}

/// Returns the letters of chattr.
fn of_flags(flags: InodeFlags) -> String {
    let letters = [
        (flags.compress, 'c'),
        (flags.sync, 'S'),
        (flags.immutable, 'i'),
        (flags.append, 'a'),
        (flags.dirsync, 'D'),
        (flags.encrypted, 'E'),
    ];
    letters.into_iter().filter(|(on, _)| *on).map(|(_, letter)| letter).collect()
}
