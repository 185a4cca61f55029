//! Walks a whole file system, depth first, parents before children, without recursion.

use crate::attr::FileKind;
use crate::error::{FsError, FsErrorKind};
use crate::fs::{DirEntry, FileSystem, Ino};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// A visited entry or problem.
#[derive(Debug)]
pub enum Visit<'a> {
    /// An entry, with its path from the root (no leading slash).
    Entry {
        /// Path from the start of the walk, components joined by `/`.
        path: &'a [u8],
        /// The entry itself.
        entry: &'a DirEntry,
    },
    /// A directory that could not be read, or that would be entered a second time.
    Unreadable {
        /// Path of the directory.
        path: &'a [u8],
        /// The reason.
        error: &'a FsError,
    },
}

/// Whether a walk enters the directory just visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Descend {
    /// Visit its entries.
    Yes,
    /// Skip its entries.
    No,
}

/// The maximum depth of a walk in components: damaged images may contain cycles.
pub const MAX_DEPTH: usize = 1024;

/// Visits the tree of directory `top`, with the entries of a directory in the file system's order.
/// A directory that is its own ancestor (a cycle, which only damage can cause) is reported but not
/// entered.
///
/// # Errors
///
/// Fails with the first error of `visit`.
pub fn walk<E>(
    fs: &dyn FileSystem,
    top: Ino,
    visit: &mut dyn FnMut(Visit<'_>) -> Result<Descend, E>,
) -> Result<(), E> {
    struct Level {
        ino: Ino,
        entries: std::vec::IntoIter<DirEntry>,
        path_len: usize,
    }
    let mut path = Vec::new();
    let mut levels: Vec<Level> = Vec::new();
    match fs.entries(top) {
        Ok(entries) => levels.push(Level { ino: top, entries: entries.into_iter(), path_len: 0 }),
        Err(error) => {
            visit(Visit::Unreadable { path: &path, error: &error })?;
        }
    }
    while let Some(level) = levels.last_mut() {
        path.truncate(level.path_len);
        let Some(entry) = level.entries.next() else {
            levels.pop();
            continue;
        };
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&entry.name);
        let descend = visit(Visit::Entry { path: &path, entry: &entry })?;
        if entry.kind != crate::FileKind::Directory || descend == Descend::No {
            continue;
        }
        let entered_twice = levels.iter().any(|level| level.ino == entry.ino);
        let listed = if entered_twice || levels.len() >= MAX_DEPTH {
            Err(FsError::new(
                crate::FsErrorKind::Corrupted,
                format!("inode {}: directory contains itself or is nested too deep", entry.ino),
            ))
        } else {
            fs.entries(entry.ino)
        };
        match listed {
            Ok(entries) => levels.push(Level {
                ino: entry.ino,
                entries: entries.into_iter(),
                path_len: path.len(),
            }),
            Err(error) => {
                visit(Visit::Unreadable { path: &path, error: &error })?;
            }
        }
    }
    Ok(())
}

/// Returns the parent of directory `dir`; the root is its own parent. Inodes do not record it, so
/// this searches all directories from the root.
///
/// # Errors
///
/// Fails with ENOTDIR if `dir` is not a directory, and with ENOENT if no directory contains it.
pub fn parent(fs: &dyn FileSystem, dir: Ino) -> Result<Ino, FsError> {
    let root = fs.root();
    if dir == root {
        return Ok(root);
    }
    if fs.attr(dir)?.kind != FileKind::Directory {
        return Err(FsError::new(FsErrorKind::NotADirectory, "`..` of what is no directory"));
    }
    let (mut open, mut seen) = (vec![root], BTreeSet::from([root]));
    while let Some(candidate) = open.pop() {
        let mut is_it = false;
        let listed = fs.read_dir(candidate, 0, &mut |entry| {
            is_it |= entry.ino == dir;
            if entry.kind == FileKind::Directory && seen.insert(entry.ino) {
                open.push(entry.ino);
            }
            if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match listed {
            Ok(()) if is_it => return Ok(candidate),
            // Damage in other directories does not matter.
            Ok(()) | Err(_) => {}
        }
    }
    Err(FsError::new(FsErrorKind::NotFound, format!("inode {dir} is in no directory")))
}

/// Returns the paths of inodes, without a leading slash; the first of several names. Inodes without
/// a name are missing.
pub fn paths(fs: &dyn FileSystem, wanted: &BTreeSet<Ino>) -> BTreeMap<Ino, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut entered = BTreeSet::from([fs.root()]);
    if wanted.contains(&fs.root()) {
        found.insert(fs.root(), b"/".to_vec());
    }
    let _found_all = walk(fs, fs.root(), &mut |visit| {
        let Visit::Entry { path, entry } = visit else { return Ok(Descend::No) };
        if wanted.contains(&entry.ino) {
            found.entry(entry.ino).or_insert_with(|| path.to_vec());
        }
        if found.len() == wanted.len() {
            return Err(());
        }
        // Damage may name a directory more than once.
        let is_new = entry.kind == crate::FileKind::Directory && entered.insert(entry.ino);
        Ok(if is_new { Descend::Yes } else { Descend::No })
    });
    found
}
