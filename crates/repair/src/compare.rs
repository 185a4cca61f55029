//! What a reader could deliver before a repair, compared with what it delivers afterwards.

use crate::plan::{Loss, Part, shown};
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_vfs::{Attr, FileKind, FileSystem, Ino};
use std::collections::BTreeSet;

/// Bytes compared at once.
const PIECE: usize = 1 << 16;

/// The losses that a plan names.
pub(crate) struct Named<'a> {
    losses: Vec<&'a Loss>,
    with_content: BTreeSet<u32>,
    /// An inode that a reader made up, so that what it says of it is no loss.
    made_up: Option<Ino>,
}

impl<'a> Named<'a> {
    pub(crate) fn new(losses: impl Iterator<Item = &'a Loss>) -> Self {
        let losses: Vec<_> = losses.collect();
        let is_content = |loss: &&&Loss| matches!(loss.part, Part::Content { .. });
        let with_content = losses.iter().filter(is_content).map(|loss| loss.ino).collect();
        Self { losses, with_content, made_up: None }
    }

    /// Says that the attributes of an inode are made up by the reader.
    pub(crate) fn made_up(self, ino: Ino) -> Self {
        Self { made_up: Some(ino), ..self }
    }

    fn of(&self, ino: Ino) -> impl Iterator<Item = &Part> {
        let own = self.losses.iter().filter(move |loss| u64::from(loss.ino) == ino);
        own.map(|loss| &loss.part)
    }

    fn name(&self, path: &[u8]) -> bool {
        let is_it = |loss: &&Loss| loss.part == Part::Name && loss.path.as_deref() == Some(path);
        self.losses.iter().any(is_it)
    }

    fn attributes(&self, ino: Ino) -> bool {
        self.made_up == Some(ino) || self.of(ino).any(|part| *part == Part::Attributes)
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> bool {
        let name = shown(name);
        self.of(ino).any(|part| match part {
            Part::Xattr { name: Some(lost) } => *lost == name,
            Part::Xattr { name: None } => true,
            _ => false,
        })
    }

    fn block(&self, ino: Ino, at: u64) -> bool {
        let is_named = u32::try_from(ino).is_ok_and(|ino| self.with_content.contains(&ino));
        is_named
            && self.of(ino).any(|part| match part {
                Part::Content { from, to } => at < *to && *from < at + u64::from(BLOCK_SIZE),
                _ => false,
            })
    }
}

/// Returns a sentence about everything that `before` delivers, that `after` does not, and that no
/// loss names.
pub(crate) fn unnamed(
    before: &dyn FileSystem,
    after: &dyn FileSystem,
    named: &Named<'_>,
) -> Vec<String> {
    let mut walk = Walk { before, after, named, seen: BTreeSet::new(), unnamed: Vec::new() };
    let mut open = vec![(before.root(), Vec::new())];
    walk.inode(before.root(), b"");
    while let Some((dir, path)) = open.pop() {
        let Ok(entries) = before.entries(dir) else { continue };
        for entry in entries {
            let mut path = path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            match after.lookup(dir, &entry.name) {
                Ok(ino) if ino == entry.ino => {}
                _ if before.attr(entry.ino).is_err() && named.name(&path) => continue,
                _ if named.name(&path) => continue,
                _ => {
                    walk.unnamed.push(format!("the name {}", shown(&path)));
                    continue;
                }
            }
            let is_first = walk.seen.insert(entry.ino);
            if is_first && walk.inode(entry.ino, &path) {
                open.push((entry.ino, path));
            }
        }
    }
    walk.unnamed
}

struct Walk<'a> {
    before: &'a dyn FileSystem,
    after: &'a dyn FileSystem,
    named: &'a Named<'a>,
    seen: BTreeSet<Ino>,
    unnamed: Vec<String>,
}

impl Walk<'_> {
    fn lost(&mut self, path: &[u8], what: impl std::fmt::Display) {
        self.unnamed.push(format!("{}: {what}", shown(path)));
    }

    /// Compares one inode; returns whether it is a directory that can be listed.
    fn inode(&mut self, ino: Ino, path: &[u8]) -> bool {
        let Ok(before) = self.before.attr(ino) else { return false };
        let Ok(after) = self.after.attr(ino) else {
            if !self.named.attributes(ino) {
                self.lost(path, "the inode");
            }
            return false;
        };
        if !is_same(&before, &after) && !self.named.attributes(ino) {
            self.lost(path, "owner, permissions or times");
        }
        match before.kind {
            FileKind::Regular => self.content(&before, path),
            FileKind::Symlink => {
                let target = self.before.read_link(ino);
                let is_kept = target.is_err() || target.ok() == self.after.read_link(ino).ok();
                if !is_kept && !self.named.attributes(ino) {
                    self.lost(path, "the target of the link");
                }
            }
            _ => {}
        }
        self.xattrs(ino, path);
        before.kind == FileKind::Directory && after.kind == FileKind::Directory
    }

    fn xattrs(&mut self, ino: Ino, path: &[u8]) {
        for name in self.before.list_xattrs(ino).unwrap_or_default() {
            let Ok(value) = self.before.xattr(ino, &name) else { continue };
            let is_kept = self.after.xattr(ino, &name).is_ok_and(|other| other == value);
            if !is_kept && !self.named.xattr(ino, &name) {
                self.lost(path, format!("the xattr {}", shown(&name)));
            }
        }
    }

    fn content(&mut self, attr: &Attr, path: &[u8]) {
        let (mut one, mut two) = (vec![0; PIECE], vec![0; PIECE]);
        let mut at = 0;
        while at < attr.size {
            // Holes of a file of 2 TiB need not be read.
            match self.before.seek_data(attr.ino, at) {
                Ok(Some(data)) if data > at + PIECE as u64 => {
                    at = data / PIECE as u64 * PIECE as u64;
                }
                Ok(None) => return,
                _ => {}
            }
            let len = usize::try_from(attr.size - at).unwrap_or(PIECE).min(PIECE);
            let read = self.before.read(attr.ino, at, &mut one[..len]);
            let other = self.after.read(attr.ino, at, &mut two[..len]);
            let is_same =
                matches!((&read, &other), (Ok(a), Ok(b)) if a == b) && one[..len] == two[..len];
            if !is_same && !self.blocks(attr.ino, at, len) {
                return self.lost(path, format!("content from byte {at}"));
            }
            at += len as u64;
        }
    }

    /// Compares a piece block by block; returns whether every block that could be read is the same or
    /// named.
    fn blocks(&self, ino: Ino, at: u64, len: usize) -> bool {
        let size = BLOCK_SIZE as usize;
        (0..len).step_by(size).all(|start| {
            let place = at + start as u64;
            let (mut one, mut two) =
                (vec![0; size.min(len - start)], vec![0; size.min(len - start)]);
            if self.before.read(ino, place, &mut one).is_err() || self.named.block(ino, place) {
                return true;
            }
            self.after.read(ino, place, &mut two).is_ok() && one == two
        })
    }
}

/// Compares what a user sees of an inode; sizes and links of directories are counted again.
fn is_same(before: &Attr, after: &Attr) -> bool {
    let seen =
        |attr: &Attr| (attr.kind, attr.permissions, attr.uid, attr.gid, attr.rdev, attr.mtime);
    let is_larger = before.kind != FileKind::Regular || after.size >= before.size;
    seen(before) == seen(after) && is_larger
}
