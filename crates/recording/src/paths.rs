//! Which file has which path, while a recording is read.

use crate::op::{How, Name, Op};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The paths of files, from the root without a slash at the start.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    files: BTreeMap<Vec<u8>, u64>,
    /// One path of each file.
    places: HashMap<u64, Vec<u8>>,
    /// Files that had several paths at once.
    linked: HashSet<u64>,
}

impl Paths {
    /// Returns the path of a file; `None` if it has none.
    pub(crate) fn of(&self, file: u64) -> Option<&[u8]> {
        if file == 0 { Some(b"") } else { self.places.get(&file).map(Vec::as_slice) }
    }

    /// Returns the file that has a path.
    pub(crate) fn at(&self, path: &[u8]) -> Option<u64> {
        if path.is_empty() { Some(0) } else { self.files.get(path).copied() }
    }

    /// Returns the path of a name.
    pub(crate) fn in_dir(&self, dir: u64, name: &Name) -> Option<Vec<u8>> {
        let dir = self.of(dir)?;
        let name = name.bytes()?;
        Some(if dir.is_empty() { name } else { [dir, b"/", &name].concat() })
    }

    /// Follows an operation.
    pub(crate) fn follow(&mut self, op: &Op) {
        match op {
            Op::Found { file, path, .. } => {
                if let Some(path) = path.bytes() {
                    self.name(*file, path);
                }
            }
            Op::Create { file, dir, name, .. } | Op::Link { file, dir, name } => {
                if let Some(path) = self.in_dir(*dir, name) {
                    if self.places.contains_key(file) {
                        self.linked.insert(*file);
                    }
                    self.name(*file, path);
                }
            }
            Op::Unlink { dir, name } | Op::RemoveDir { dir, name } => {
                if let Some(path) = self.in_dir(*dir, name) {
                    self.forget(&path);
                }
            }
            Op::Rename { dir, name, to, new, how } => {
                let (old, new) = (self.in_dir(*dir, name), self.in_dir(*to, new));
                match (old, new) {
                    (Some(old), Some(new)) if *how == How::Exchange => {
                        // No path has a NUL.
                        self.rename(&old, b"\0");
                        self.rename(&new, &old);
                        self.rename(b"\0", &new);
                    }
                    (Some(old), Some(new)) => self.rename(&old, &new),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn name(&mut self, file: u64, path: Vec<u8>) {
        self.files.insert(path.clone(), file);
        self.places.insert(file, path);
    }

    /// Removes a path; the file keeps another, if it has one.
    fn forget(&mut self, path: &[u8]) {
        let Some(file) = self.files.remove(path) else { return };
        self.places.remove(&file);
        if self.linked.contains(&file)
            && let Some((other, _)) = self.files.iter().find(|(_, known)| **known == file)
        {
            self.places.insert(file, other.clone());
        }
    }

    /// Moves a path and everything below it; what had the new path loses it. Nothing happens to two names of
    /// one file.
    fn rename(&mut self, old: &[u8], new: &[u8]) {
        if self.at(old).is_some() && self.at(old) == self.at(new) {
            return;
        }
        self.forget(new);
        let below = [old, b"/"].concat();
        let moved = self.files.range(below.clone()..).take_while(|it| it.0.starts_with(&below));
        let mut moved: Vec<(Vec<u8>, u64)> =
            moved.map(|(path, file)| (path.clone(), *file)).collect();
        moved.extend(self.files.get(old).map(|file| (old.to_vec(), *file)));
        for (path, file) in moved {
            self.files.remove(&path);
            self.name(file, [new, &path[old.len()..]].concat());
        }
    }
}
