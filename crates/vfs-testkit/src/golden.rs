//! The tree of a file system in the form of the manifests that come with golden images of YAFFS, AXFS
//! and LogFS: one line a path, `path|type|mode|uid|gid|size|mtime|nlink|rdev|target|sha256|xattrs`.

use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{FileKind, FileSystem, Ino};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The field of a line with the time of the last change.
pub const MTIME: usize = 6;
/// The field with the hash of the content.
pub const SHA256: usize = 10;

/// Lines by path.
pub type Manifest = BTreeMap<String, Vec<String>>;

fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_graphic() && !b"|\\".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "\\x{byte:02x}");
        }
        text
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The hash of a file's content, or the error that reading it ends with.
fn content(fs: &dyn FileSystem, ino: Ino, size: u64) -> String {
    assert!(size < 1 << 30, "{size} bytes: no image has such files");
    let (mut hash, mut offset) = (Sha256::new(), 0);
    let mut buffer = vec![0; 100_000];
    while offset < size {
        match fs.read(ino, offset, &mut buffer) {
            Ok(0) => return "short".to_owned(),
            Ok(len) => {
                hash.update(&buffer[..len]);
                offset += len as u64;
            }
            Err(error) => return format!("error: {error}"),
        }
    }
    hex(&hash.finalize())
}

fn line(fs: &dyn FileSystem, path: &str, ino: Ino) -> Vec<String> {
    let attr = fs.attr(ino).expect("an inode of the tree can be read");
    let kind = match attr.kind {
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::BlockDevice => "block special file",
        FileKind::CharDevice => "character special file",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    };
    let has_size = matches!(attr.kind, FileKind::Regular | FileKind::Symlink);
    let is_device = matches!(attr.kind, FileKind::BlockDevice | FileKind::CharDevice);
    let names = fs.list_xattrs(ino).expect("xattrs can be listed");
    let pair = |name: &Vec<u8>| {
        let value = fs.xattr(ino, name).expect("a listed xattr can be read");
        format!("{}=0x{}", escape(name), hex(&value))
    };
    let xattrs: Vec<String> = names.iter().map(pair).collect();
    let text = |is: bool, text: String| if is { text } else { String::new() };
    let target = match attr.kind {
        FileKind::Symlink => escape(&fs.read_link(ino).expect("a link can be read")),
        _ => String::new(),
    };
    let sha256 = match attr.kind {
        FileKind::Regular => content(fs, ino, attr.size),
        _ => String::new(),
    };
    vec![
        path.to_owned(),
        kind.to_owned(),
        format!("{:o}", attr.permissions),
        attr.uid.to_string(),
        attr.gid.to_string(),
        text(has_size, attr.size.to_string()),
        attr.mtime.seconds.to_string(),
        attr.nlink.to_string(),
        text(is_device, format!("{:x}:{:x}", attr.rdev.0, attr.rdev.1)),
        target,
        sha256,
        xattrs.join(" "),
    ]
}

/// The manifest of a file system.
pub fn of(fs: &dyn FileSystem) -> Manifest {
    let mut lines = BTreeMap::new();
    lines.insert(".".to_owned(), line(fs, ".", fs.root()));
    walk::<eraseblock_vfs::FsError>(fs, fs.root(), &mut |visit| {
        if let Visit::Entry { path, entry } = visit {
            let path = format!(
                "./{}",
                path.split(|byte| *byte == b'/').map(escape).collect::<Vec<_>>().join("/")
            );
            lines.insert(path.clone(), line(fs, &path, entry.ino));
        }
        Ok(Descend::Yes)
    })
    .expect("the visitor does not fail");
    lines
}

/// Parses a manifest.
pub fn parse(text: &str) -> Manifest {
    let fields = |line: &str| line.split('|').map(str::to_owned).collect::<Vec<_>>();
    text.lines().map(fields).map(|fields| (fields[0].clone(), fields)).collect()
}

/// The differences of two manifests: the path, what was expected, what was found. What has no header
/// has the time of the mount in the reference, and none here.
pub fn differences(expected: &Manifest, found: &Manifest) -> Vec<String> {
    let is_same = |one: &Vec<String>, two: &Vec<String>| {
        (0..one.len().max(two.len())).all(|index| {
            let (one, two) = (one.get(index), two.get(index));
            let no_time = index == MTIME
                && two.is_some_and(|time| time == "0")
                && one.is_some_and(|time| time == "-" || time == "1700000000");
            one == two || no_time
        })
    };
    let paths = expected.keys().chain(found.keys().filter(|path| !expected.contains_key(*path)));
    let differing = paths.filter(|path| match (expected.get(*path), found.get(*path)) {
        (Some(one), Some(two)) => !is_same(one, two),
        _ => true,
    });
    let show = |line: Option<&Vec<String>>| line.map_or("nothing".to_owned(), |it| it.join("|"));
    differing
        .map(|path| {
            format!("expected {}\n   found {}", show(expected.get(path)), show(found.get(path)))
        })
        .collect()
}
