//! What differs between the trees of two file systems.
//!
//! # Invariants
//! 1. A pair of directories is compared once, so damage that makes circles ends.

use eraseblock_vfs::{Attr, DirEntry, FileKind, FileSystem, FsError, Ino, Timestamp};
use std::collections::{BTreeMap, HashSet};
use std::io;

/// Bytes of a file that are compared at a time.
const CHUNK: usize = 128 << 10;

/// What happened to a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreeChange {
    /// Only the second tree has it.
    Added(Vec<u8>),
    /// Only the first tree has it.
    Gone(Vec<u8>),
    /// It differs.
    Changed(Vec<u8>, Vec<Difference>),
}

/// One thing that differs: its name, and what it is in the first and in the second tree.
pub type Difference = (&'static str, String, String);

/// Receives changes.
pub type Sink<'a> = dyn FnMut(TreeChange) -> io::Result<()> + 'a;

/// Hands the differences between two trees to `sink`; returns whether there are none. Of something
/// that only one tree has, the content is not listed.
///
/// # Errors
///
/// Fails with an error of `sink`. What cannot be read is a difference, unless it cannot be read in
/// either tree.
pub fn by_tree(
    first: &dyn FileSystem,
    second: &dyn FileSystem,
    sink: &mut Sink<'_>,
) -> io::Result<bool> {
    let roots = (first.root(), second.root());
    let (mut open, mut seen, mut same) = (vec![(Vec::new(), roots)], HashSet::new(), true);
    let found = differences(first, second, roots);
    if !found.is_empty() {
        same = false;
        sink(TreeChange::Changed(b"/".to_vec(), found))?;
    }
    while let Some((path, dirs)) = open.pop() {
        if !seen.insert(dirs) {
            continue;
        }
        let (old, mut new) = (names(first, dirs.0), names(second, dirs.1));
        let below = |name: &[u8]| [&path[..], b"/", name].concat();
        let mut deeper = Vec::new();
        for (name, entry) in &old {
            let Some(other) = new.remove(name) else {
                same = false;
                sink(TreeChange::Gone(below(name)))?;
                continue;
            };
            let pair = (entry.ino, other.ino);
            let found = differences(first, second, pair);
            if !found.is_empty() {
                same = false;
                sink(TreeChange::Changed(below(name), found))?;
            }
            if entry.kind == FileKind::Directory && other.kind == FileKind::Directory {
                deeper.push((below(name), pair));
            }
        }
        for name in new.keys() {
            same = false;
            sink(TreeChange::Added(below(name)))?;
        }
        open.extend(deeper.into_iter().rev());
    }
    Ok(same)
}

fn names(fs: &dyn FileSystem, dir: Ino) -> BTreeMap<Vec<u8>, DirEntry> {
    let entries = fs.entries(dir).unwrap_or_default();
    entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect()
}

/// Returns what differs between two inodes.
fn differences(
    first: &dyn FileSystem,
    second: &dyn FileSystem,
    pair: (Ino, Ino),
) -> Vec<Difference> {
    let (old, new) = match (first.attr(pair.0), second.attr(pair.1)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(_), Err(_)) => return Vec::new(),
        (old, new) => {
            let text = |attr: Result<Attr, FsError>| {
                attr.map_or_else(|error| error.to_string(), |_| "readable".to_owned())
            };
            return vec![("inode", text(old), text(new))];
        }
    };
    let mut found: Vec<Difference> = facts(&old)
        .into_iter()
        .zip(facts(&new))
        .filter(|(old, new)| old.1 != new.1)
        .map(|((what, old), (_, new))| (what, old, new))
        .collect();
    if old.kind != new.kind {
        return found;
    }
    let xattrs = (xattrs(first, pair.0), xattrs(second, pair.1));
    if xattrs.0 != xattrs.1 {
        found.push(("xattrs", xattrs.0, xattrs.1));
    }
    match old.kind {
        FileKind::Symlink => {
            let target = |fs: &dyn FileSystem, ino| match fs.read_link(ino) {
                Ok(target) => crate::value::quoted(&target),
                Err(error) => error.to_string(),
            };
            let (old, new) = (target(first, pair.0), target(second, pair.1));
            if old != new {
                found.push(("target", old, new));
            }
        }
        FileKind::Regular => found.extend(content(first, second, pair, old.size.min(new.size))),
        _ => {}
    }
    found
}

/// Returns what the attributes say, always in the same order.
fn facts(attr: &Attr) -> [(&'static str, String); 10] {
    let time = |time: Timestamp| format!("{}.{:09}", time.seconds, time.nanoseconds);
    // The size of a directory is how a file system counts its entries.
    let size = if attr.kind == FileKind::Directory { 0 } else { attr.size };
    [
        ("kind", attr.kind.letter().to_string()),
        ("permissions", format!("{:04o}", attr.permissions)),
        ("uid", attr.uid.to_string()),
        ("gid", attr.gid.to_string()),
        ("nlink", attr.nlink.to_string()),
        ("size", size.to_string()),
        ("atime", time(attr.atime)),
        ("mtime", time(attr.mtime)),
        ("ctime", time(attr.ctime)),
        ("device", format!("{}:{}", attr.rdev.0, attr.rdev.1)),
    ]
}

fn xattrs(fs: &dyn FileSystem, ino: Ino) -> String {
    let mut names = fs.list_xattrs(ino).unwrap_or_default();
    names.sort();
    let one = |name: &Vec<u8>| {
        let value = fs.xattr(ino, name).unwrap_or_default();
        format!("{}={}", crate::value::quoted(name), crate::value::bytes(&value))
    };
    names.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Compares the content that both files have, then where they have holes.
fn content(
    first: &dyn FileSystem,
    second: &dyn FileSystem,
    pair: (Ino, Ino),
    len: u64,
) -> Option<Difference> {
    let (mut old, mut new) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    while at < len {
        let read = (first.read(pair.0, at, &mut old), second.read(pair.1, at, &mut new));
        let count = match read {
            (Ok(one), Ok(other)) => one.min(other),
            (Err(_), Err(_)) => return None,
            (one, other) => {
                let text = |read: Result<usize, FsError>| {
                    read.map_or_else(|error| error.to_string(), |_| "readable".to_owned())
                };
                return Some(("content", text(one), text(other)));
            }
        };
        let differs = old[..count].iter().zip(&new[..count]).position(|(one, other)| one != other);
        if let Some(differs) = differs {
            let byte =
                |bytes: &[u8]| format!("{:#04x} at byte {}", bytes[differs], at + differs as u64);
            return Some(("content", byte(&old), byte(&new)));
        }
        if count == 0 {
            break;
        }
        at += count as u64;
    }
    let holes = (data(first, pair.0), data(second, pair.1));
    (holes.0 != holes.1).then_some(("data", holes.0, holes.1))
}

/// Ranges of data that are listed.
const RANGES: usize = 64;

/// Returns the ranges of a file that are no holes.
fn data(fs: &dyn FileSystem, ino: Ino) -> String {
    let (mut at, mut ranges) = (0, Vec::new());
    while let Ok(Some(start)) = fs.seek_data(ino, at) {
        let Ok(end) = fs.seek_hole(ino, start) else { break };
        if end <= start || ranges.len() == RANGES {
            break;
        }
        ranges.push(format!("{start}..{end}"));
        at = end;
    }
    ranges.join(" ")
}
