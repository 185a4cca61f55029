//! Compares the trees of two file systems.

use eraseblock_vfs::attr::{Attr, FileKind};
use eraseblock_vfs::error::FsError;
use eraseblock_vfs::fs::{DirEntry, FileSystem, Ino};
use std::collections::BTreeMap;
use std::fmt::{self, Debug};

/// What a comparison covers in addition to names, kinds, owners, modes, link counts, sizes,
/// contents, xattrs and device numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools)] // each is looked at by itself
pub struct CompareOptions {
    /// mtime and atime.
    pub times: bool,
    /// ctime.
    pub ctime: bool,
    /// Positions of the holes of regular files.
    pub holes: bool,
    /// Sizes of directories.
    pub directory_sizes: bool,
    /// Flags of chattr.
    pub flags: bool,
}

impl CompareOptions {
    /// Everything.
    pub const ALL: Self =
        Self { times: true, ctime: true, holes: true, directory_sizes: true, flags: true };

    /// Values that every file system preserves.
    pub const BASIC: Self =
        Self { times: false, ctime: false, holes: false, directory_sizes: false, flags: false };
}

/// One difference between two trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Path from the root, without leading slash.
    pub path: Vec<u8>,
    /// What differs.
    pub what: &'static str,
    /// The value in the first file system.
    pub left: String,
    /// The value in the second one.
    pub right: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = String::from_utf8_lossy(&self.path);
        write!(f, "/{path}: {}: {} against {}", self.what, self.left, self.right)
    }
}

/// Returns the differences between two trees, at most a hundred; none if they are equal. Inode
/// numbers may differ, but not which names share an inode.
pub fn same_tree(
    left: &dyn FileSystem,
    right: &dyn FileSystem,
    options: &CompareOptions,
) -> Vec<Difference> {
    let mut run = Run { left, right, options, pairs: BTreeMap::new(), found: Vec::new() };
    run.inode(b"", left.root(), right.root());
    run.found
}

const MOST: usize = 100;

struct Run<'a> {
    left: &'a dyn FileSystem,
    right: &'a dyn FileSystem,
    options: &'a CompareOptions,
    /// Inodes already compared, and their counterparts.
    pairs: BTreeMap<Ino, Ino>,
    found: Vec<Difference>,
}

fn text<T: Debug>(result: &Result<T, FsError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

impl Run<'_> {
    fn note<T: Debug>(
        &mut self,
        path: &[u8],
        what: &'static str,
        left: &Result<T, FsError>,
        right: &Result<T, FsError>,
    ) {
        if self.found.len() < MOST {
            let (left, right) = (text(left), text(right));
            self.found.push(Difference { path: path.to_vec(), what, left, right });
        }
    }

    /// Records two values unless they are equal.
    #[allow(clippy::needless_pass_by_value)] // made for this call, everywhere
    fn value<T: Debug + PartialEq>(
        &mut self,
        path: &[u8],
        what: &'static str,
        left: Result<T, FsError>,
        right: Result<T, FsError>,
    ) {
        if !matches!((&left, &right), (Ok(one), Ok(two)) if one == two) {
            self.note(path, what, &left, &right);
        }
    }

    fn inode(&mut self, path: &[u8], left: Ino, right: Ino) {
        if let Some(known) = self.pairs.insert(left, right) {
            self.value(path, "inode shared with another name", Ok(known), Ok(right));
            return;
        }
        let (one, two) = (self.left.attr(left), self.right.attr(right));
        let (Ok(one), Ok(two)) = (&one, &two) else {
            self.note(path, "attributes", &one, &two);
            return;
        };
        self.attributes(path, one, two);
        self.xattrs(path, left, right);
        if one.kind != two.kind {
            return;
        }
        match one.kind {
            FileKind::Directory => self.directory(path, left, right),
            FileKind::Regular if one.size == two.size => {
                self.content(path, left, right, one.size);
            }
            FileKind::Symlink => {
                self.value(path, "target", self.left.read_link(left), self.right.read_link(right));
            }
            _ => {}
        }
    }

    fn attributes(&mut self, path: &[u8], left: &Attr, right: &Attr) {
        let options = *self.options;
        self.value(path, "kind", Ok(left.kind), Ok(right.kind));
        self.value(path, "permissions", Ok(left.permissions), Ok(right.permissions));
        self.value(path, "links", Ok(left.nlink), Ok(right.nlink));
        self.value(path, "owner", Ok((left.uid, left.gid)), Ok((right.uid, right.gid)));
        self.value(path, "device", Ok(left.rdev), Ok(right.rdev));
        if left.kind != FileKind::Directory || options.directory_sizes {
            self.value(path, "size", Ok(left.size), Ok(right.size));
        }
        if options.times {
            self.value(path, "mtime", Ok(left.mtime), Ok(right.mtime));
            self.value(path, "atime", Ok(left.atime), Ok(right.atime));
        }
        if options.ctime {
            self.value(path, "ctime", Ok(left.ctime), Ok(right.ctime));
        }
        if options.flags {
            self.value(path, "flags", Ok(left.flags), Ok(right.flags));
        }
    }

    fn xattrs(&mut self, path: &[u8], left: Ino, right: Ino) {
        let all = |fs: &dyn FileSystem, ino| {
            let names = fs.list_xattrs(ino)?;
            let pair = |name: Vec<u8>| Ok((name.clone(), fs.xattr(ino, &name)?));
            names.into_iter().map(pair).collect::<Result<BTreeMap<_, _>, FsError>>()
        };
        self.value(path, "extended attributes", all(self.left, left), all(self.right, right));
    }

    fn directory(&mut self, path: &[u8], left: Ino, right: Ino) {
        let (one, two) = (self.left.entries(left), self.right.entries(right));
        let (Ok(one), Ok(two)) = (&one, &two) else {
            self.note(path, "entries", &one, &two);
            return;
        };
        let by_name = |entries: &[DirEntry]| -> BTreeMap<Vec<u8>, DirEntry> {
            entries.iter().map(|entry| (entry.name.clone(), entry.clone())).collect()
        };
        self.value(path, "entries", Ok(one.len()), Ok(two.len()));
        let (one, two) = (by_name(one), by_name(two));
        for name in one.keys().chain(two.keys().filter(|name| !one.contains_key(*name))) {
            let mut path = path.to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            match (one.get(name), two.get(name)) {
                (Some(one), Some(two)) => {
                    self.value(&path, "kind of the entry", Ok(one.kind), Ok(two.kind));
                    let found = self.left.lookup(left, name);
                    self.value(&path, "looked up on the left", found, Ok(one.ino));
                    let found = self.right.lookup(right, name);
                    self.value(&path, "looked up on the right", Ok(two.ino), found);
                    self.inode(&path, one.ino, two.ino);
                }
                (one, two) => self.value(&path, "there", Ok(one.is_some()), Ok(two.is_some())),
            }
        }
    }

    fn content(&mut self, path: &[u8], left: Ino, right: Ino, size: u64) {
        const STEP: usize = 64 << 10;
        let (mut one, mut two) = (vec![0; STEP], vec![0; STEP]);
        let mut at = 0;
        while at < size {
            let read = (self.left.read(left, at, &mut one), self.right.read(right, at, &mut two));
            let (Ok(first), Ok(second)) = read else {
                self.note(path, "content", &read.0, &read.1);
                return;
            };
            if first == 0 || one[..first] != two[..second] {
                let differs = one[..first].iter().zip(&two[..second]).position(|(a, b)| a != b);
                let place = at + differs.unwrap_or(first.min(second)) as u64;
                let byte = |bytes: &[u8]| differs.and_then(|index| bytes.get(index).copied());
                self.value(
                    path,
                    "content (offset, byte, bytes read)",
                    Ok((place, byte(&one), first)),
                    Ok((place, byte(&two), second + usize::from(first == second))),
                );
                return;
            }
            at += first as u64;
        }
        if self.options.holes {
            self.value(path, "data and holes", map(self.left, left), map(self.right, right));
        }
    }
}

/// Returns the offsets at which data and holes alternate, at most a thousand.
fn map(fs: &dyn FileSystem, ino: Ino) -> Result<Vec<u64>, FsError> {
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(data) = fs.seek_data(ino, at)? {
        let hole = fs.seek_hole(ino, data)?;
        places.extend([data, hole]);
        if hole <= data || places.len() > 1000 {
            break;
        }
        at = hole;
    }
    Ok(places)
}
