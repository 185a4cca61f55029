//! A whole tree as read by the judge.

use super::words;
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{Attr, FileKind, FileSystem, FsError, Ino};
use eraseblock_vfs_testkit::ModelRules;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// A name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Name {
    /// Path from the root.
    pub(crate) path: Vec<u8>,
    /// The directory that contains it.
    pub(crate) dir: Ino,
    /// The last component of the path.
    pub(crate) last: Vec<u8>,
    /// What it refers to.
    pub(crate) ino: Ino,
}

/// An inode with at least one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub(crate) attr: Attr,
    pub(crate) target: Vec<u8>,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Its content, or why it cannot be read.
    pub(crate) content: Result<Vec<u8>, String>,
}

/// All names, by path, and all inodes. Here, the root is an inode without a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tree {
    pub(crate) root: Ino,
    pub(crate) names: Vec<Name>,
    pub(crate) inodes: BTreeMap<Ino, Inode>,
}

/// Files larger than the operations create are damage and not read.
const SIZE_MAX: u64 = 1 << 20;

/// Whether the bytes of files are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contents {
    Read,
    /// Only names and attributes matter.
    Skip,
}

impl Tree {
    /// Describes all names, each with what it refers to.
    pub(crate) fn lines(&self) -> Vec<String> {
        let of = |ino: &Ino| self.inodes.get(ino).map_or_else(String::new, line);
        let root = format!("the root: {}", of(&self.root));
        let names = self.names.iter();
        let names = names
            .map(|it| format!("{}: inode {}, {}", words::brief(&it.path), it.ino, of(&it.ino)));
        [root].into_iter().chain(names).collect()
    }

    /// Reads a file system.
    pub(crate) fn read(fs: &dyn FileSystem, contents: Contents) -> Result<Self, String> {
        let root = fs.root();
        let mut tree = Self { root, names: Vec::new(), inodes: BTreeMap::new() };
        tree.add(fs, root, contents)?;
        let mut dirs = BTreeMap::from([(Vec::new(), root)]);
        walk(fs, root, &mut |visit| match visit {
            Visit::Unreadable { path, error } => Err(format!("/{}: {error}", shown(path))),
            Visit::Entry { path, entry } => {
                let cut = path.len() - entry.name.len();
                let dir = dirs.get(&path[..cut.saturating_sub(1)]).copied().unwrap_or(root);
                if entry.kind == FileKind::Directory {
                    dirs.insert(path.to_vec(), entry.ino);
                }
                let last = entry.name.clone();
                tree.names.push(Name { path: path.to_vec(), dir, last, ino: entry.ino });
                tree.add(fs, entry.ino, contents)?;
                let kind = tree.inodes.get(&entry.ino).map(|inode| inode.attr.kind);
                if kind != Some(entry.kind) {
                    let kind = kind.map_or("not there", words::kind);
                    let (path, entry) = (shown(path), words::kind(entry.kind));
                    return Err(format!("/{path}: its entry says {entry}, its inode is {kind}"));
                }
                Ok(Descend::Yes)
            }
        })?;
        tree.names.sort();
        Ok(tree)
    }

    fn add(&mut self, fs: &dyn FileSystem, ino: Ino, contents: Contents) -> Result<(), String> {
        if let Entry::Vacant(place) = self.inodes.entry(ino) {
            let inode = read_inode(fs, ino, contents);
            place.insert(inode.map_err(|error| format!("inode {ino}: {error}"))?);
        }
        Ok(())
    }

    /// Replaces the times of the root by those of the root of `other`.
    pub(crate) fn take_root_times_of(&mut self, other: &Self) {
        let roots = (self.inodes.get_mut(&self.root), other.inodes.get(&other.root));
        if let (Some(ours), Some(theirs)) = roots {
            ours.attr.mtime = theirs.attr.mtime;
            ours.attr.ctime = theirs.attr.ctime;
        }
    }

    /// Checks that link counts agree with the names.
    pub(crate) fn check_links(&self, rules: &ModelRules) -> Result<(), String> {
        let entries: BTreeSet<(Ino, &[u8], Ino)> =
            self.names.iter().map(|name| (name.dir, name.last.as_slice(), name.ino)).collect();
        let mut links: BTreeMap<Ino, u32> = BTreeMap::new();
        for (dir, _, ino) in entries {
            let is_dir = self.inodes.get(&ino).is_some_and(is_directory);
            *links.entry(if is_dir { dir } else { ino }).or_default() += 1;
        }
        for (ino, inode) in &self.inodes {
            let own = links.get(ino).copied().unwrap_or(0);
            let expected = match (is_directory(inode), *ino == self.root) {
                (true, _) if !rules.directory_links => 1,
                (true, true) => rules.root_links + own,
                (true, false) => 2 + own,
                _ => own,
            };
            if inode.attr.nlink != expected {
                let found = inode.attr.nlink;
                return Err(format!("inode {ino} says {found} links, its names make {expected}"));
            }
        }
        Ok(())
    }

    /// Compares names, kinds, targets, devices and xattrs with those of `other`; returns the inodes
    /// of `other` by those here, or the difference.
    pub(crate) fn match_names(&self, other: &Self) -> Result<BTreeMap<Ino, Ino>, String> {
        let mut pairs = BTreeMap::from([(self.root, other.root)]);
        let mut back = BTreeMap::from([(other.root, self.root)]);
        let mut theirs = other.names.iter();
        for ours in &self.names {
            let Some(name) = theirs.next() else {
                return Err(format!("/{} is there", shown(&ours.path)));
            };
            if name.path != ours.path {
                let there = name.path > ours.path;
                let (path, what) = if there { (&ours.path, "") } else { (&name.path, "not ") };
                return Err(format!("/{} is {what}there", shown(path)));
            }
            let fits = *pairs.entry(ours.ino).or_insert(name.ino) == name.ino
                && *back.entry(name.ino).or_insert(ours.ino) == ours.ino;
            if !fits {
                return Err(format!("/{} refers to another inode", shown(&ours.path)));
            }
        }
        if let Some(name) = theirs.next() {
            return Err(format!("/{} is not there", shown(&name.path)));
        }
        for (ours, theirs) in &pairs {
            let (Some(one), Some(two)) = (self.inodes.get(ours), other.inodes.get(theirs)) else {
                continue;
            };
            let is = |inode: &Inode| (inode.attr.kind, inode.attr.rdev, inode.target.clone());
            if is(one) != is(two) {
                let (found, expected) = (identity(one), identity(two));
                return Err(format!("inode {ours} is {found}, expected {expected}"));
            }
            if one.xattrs != two.xattrs {
                let names: Vec<String> = one.xattrs.keys().map(|name| shown(name)).collect();
                let names = names.join(", ");
                return Err(format!("inode {ours} has other extended attributes: {names}"));
            }
        }
        Ok(pairs)
    }

    /// Returns this tree with the names of `other` at and below `path` added.
    pub(crate) fn with_names_of(&self, other: &Self, path: &[u8]) -> Self {
        let mut both = self.clone();
        let below = |name: &&Name| {
            name.path == path
                || (name.path.starts_with(path) && name.path.get(path.len()) == Some(&b'/'))
        };
        for name in other.names.iter().filter(below) {
            if both.names.iter().all(|known| known.path != name.path) {
                both.names.push(name.clone());
                if let Some(inode) = other.inodes.get(&name.ino) {
                    both.inodes.entry(name.ino).or_insert_with(|| inode.clone());
                }
            }
        }
        both.names.sort();
        both
    }
}

fn is_directory(inode: &Inode) -> bool {
    inode.attr.kind == FileKind::Directory
}

fn read_inode(fs: &dyn FileSystem, ino: Ino, contents: Contents) -> Result<Inode, FsError> {
    let attr = fs.attr(ino)?;
    let target = match attr.kind {
        FileKind::Symlink => fs.read_link(ino)?,
        _ => Vec::new(),
    };
    let mut xattrs = BTreeMap::new();
    for name in fs.list_xattrs(ino)? {
        let value = fs.xattr(ino, &name)?;
        xattrs.insert(name, value);
    }
    let content = match attr.kind {
        FileKind::Regular if contents == Contents::Read => read_content(fs, ino, attr.size),
        _ => Ok(Vec::new()),
    };
    Ok(Inode { attr, target, xattrs, content })
}

/// Returns all bytes of a regular file.
pub(crate) fn read_content(fs: &dyn FileSystem, ino: Ino, size: u64) -> Result<Vec<u8>, String> {
    if size > SIZE_MAX {
        return Err(format!("inode {ino} says it has {size} bytes"));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let count = fs.read(ino, 0, &mut bytes).map_err(|error| error.to_string())?;
    if count != bytes.len() {
        return Err(format!("inode {ino} delivers {count} of {size} bytes"));
    }
    Ok(bytes)
}

/// Describes the properties of an inode that never change.
fn identity(inode: &Inode) -> String {
    let (name, (major, minor)) = (words::kind(inode.attr.kind), inode.attr.rdev);
    match inode.attr.kind {
        FileKind::Symlink => format!("{name} to `{}`", String::from_utf8_lossy(&inode.target)),
        FileKind::BlockDevice | FileKind::CharDevice => format!("{name} {major}:{minor}"),
        _ => name.to_owned(),
    }
}

fn line(inode: &Inode) -> String {
    let unreadable = match &inode.content {
        Ok(_) => String::new(),
        Err(message) => format!("; cannot be read: {message}"),
    };
    format!("{}, {}{unreadable}", identity(inode), words::attr(&inode.attr))
}

/// Returns a path for messages.
pub(crate) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
