//! Directories (spec: readonly-formats A.9).
//!
//! # Invariants
//! 1. [`Logfs::scan`] visits every directory once when the image is opened. Entries that cannot be, and
//!    second names of directories, are hidden with a finding, so that every walk ends.

use crate::codes;
use crate::error::LogfsError;
use crate::object::{Kind, Position};
use crate::open::Logfs;
use crate::raw::RawDentry;
use crate::tree::{Inode, Visited};
use eraseblock_base::raw::Raw;
use eraseblock_base::{Findings, Location};
use eraseblock_mtd::Window;
use eraseblock_vfs::FileKind;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Inode number of the root.
pub(crate) const ROOT: u64 = 2;
/// Lowest inode number of users.
const FIRST_INO: u64 = 16;
/// Most bytes of a name.
pub(crate) const NAME_MAX: usize = 255;

/// What must not be shown.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// Directory and position.
    entries: BTreeSet<(u64, u64)>,
    /// Directories of which a part cannot be read, as a finding says.
    pub(crate) damaged: BTreeSet<u64>,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) ino: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) kind: FileKind,
}

/// Returns an entry, or what is wrong with it.
fn decode(raw: &RawDentry) -> Result<Entry, String> {
    let len = usize::from(raw.name_len.get());
    let name = raw.name.get(..len).ok_or_else(|| format!("a name of {len} bytes"))?;
    if matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Err("a name that is empty, `.`, `..` or contains `/` or NUL".to_owned());
    }
    let kind = FileKind::from_mode(u32::from(raw.kind) << 12);
    let kind = kind.ok_or_else(|| format!("type {}, which does not exist", raw.kind))?;
    let ino = raw.ino.get();
    if ino < FIRST_INO {
        return Err(format!("inode {ino}, expected at least {FIRST_INO}"));
    }
    Ok(Entry { ino, name: name.to_vec(), kind })
}

/// Returns the positions that a name may be at, those of the machine's signed or unsigned characters.
pub(crate) fn candidates(name: &[u8], is_signed: Signedness) -> impl Iterator<Item = u64> {
    let add = |hash: u32, byte: &u8| {
        let byte = match is_signed {
            Signedness::Signed => i32::from(byte.cast_signed()).cast_unsigned(),
            Signedness::Unsigned => u32::from(*byte),
        };
        hash.wrapping_mul(293).wrapping_add(byte)
    };
    let hash = u64::from(name.iter().fold(0, add));
    let (two, three) = (1_u64 << 18, 1_u64 << 27);
    let last = three + 16 * (hash % (((1 << 31) - three) / 16));
    [hash % 16, 16 + hash % 496, 512 + hash % (two - 512), two + hash % (three - two)]
        .into_iter()
        .chain(last..last + 16)
}

/// What a character is on the machine that wrote the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signedness {
    Signed,
    Unsigned,
}

impl Logfs {
    /// Reads the entry at a position of a directory; the inner error says what is wrong with it.
    fn entry(
        &self,
        window: &mut Window,
        ino: u64,
        bix: u64,
        offset: u64,
    ) -> Result<Result<Entry, String>, LogfsError> {
        let at = Position { ino, bix, level: 0 };
        let bytes = self.object(window, offset, (Kind::Dentry, at, crate::object::BLOCK))?;
        Ok(decode(&RawDentry::get(&bytes)))
    }

    /// Calls `sink` for the entries of a directory from a position on. Fails if something cannot be read
    /// that could be read when the image was opened.
    pub(crate) fn entries_from(
        &self,
        dir: &Inode,
        from: u64,
        sink: &mut dyn FnMut(u64, Entry) -> ControlFlow<()>,
    ) -> Result<(), LogfsError> {
        let (ino, mut window) = (dir.root.ino, Window::new());
        let is_known = self.hidden.damaged.contains(&ino);
        let mut failure = None;
        self.blocks(&dir.root, from, &mut |visited| {
            let read = visited.map_err(|(_, error)| error).and_then(|(bix, offset)| {
                if self.hidden.entries.contains(&(ino, bix)) {
                    return Ok(None);
                }
                let entry = self.entry(&mut window, ino, bix, offset)?.ok();
                Ok(entry.filter(|entry| !self.is_removed(entry.ino)).map(|entry| (bix, entry)))
            });
            match read {
                Ok(None) => ControlFlow::Continue(()),
                Ok(Some((bix, entry))) => sink(bix, entry),
                Err(_) if is_known => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// Returns the entry of a name: first from where Linux puts it, then from anywhere.
    pub(crate) fn named(&self, dir: &Inode, name: &[u8]) -> Result<Option<Entry>, LogfsError> {
        let ino = dir.root.ino;
        for signedness in [Signedness::Signed, Signedness::Unsigned] {
            for bix in candidates(name, signedness) {
                if self.hidden.entries.contains(&(ino, bix)) {
                    continue;
                }
                // Damage there does not matter if the name is elsewhere.
                let Ok(Some(offset)) = self.find(&dir.root, bix) else { continue };
                if let Ok(Ok(entry)) = self.entry(&mut Window::new(), ino, bix, offset)
                    && entry.name == name
                    && !self.is_removed(entry.ino)
                {
                    return Ok(Some(entry));
                }
            }
        }
        let mut found = None;
        self.entries_from(dir, 0, &mut |_, entry| {
            if entry.name == name {
                found = Some(entry);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Visits all directories, and hides what must not be shown.
    pub(crate) fn scan(&mut self, findings: &mut Findings) {
        self.interrupted(findings);
        let (mut open, mut seen) = (vec![ROOT], BTreeSet::from([ROOT]));
        while let Some(ino) = open.pop() {
            let dir = match self.load(ino) {
                Ok(Some(dir)) if is_directory(&dir) => dir,
                // Its attributes are an error, which those who ask for them get.
                _ => continue,
            };
            let mut scan = Scan { names: BTreeSet::new(), window: Window::new(), bad: Vec::new() };
            self.blocks(&dir.root, 0, &mut |visited| {
                if let Some(entry) = scan.block(self, ino, visited)
                    && entry.1.kind == FileKind::Directory
                {
                    if seen.insert(entry.1.ino) {
                        open.push(entry.1.ino);
                    } else {
                        let message = format!("directory {} has two names", entry.1.ino);
                        scan.bad.push((Some(entry.0), message));
                    }
                }
                ControlFlow::Continue(())
            });
            for (bix, message) in scan.bad {
                findings.error(Location::Inode(ino), codes::ENTRY, message);
                match bix {
                    Some(bix) => drop(self.hidden.entries.insert((ino, bix))),
                    None => drop(self.hidden.damaged.insert(ino)),
                }
            }
        }
    }

    /// Returns whether an inode counts as removed.
    pub(crate) fn is_removed(&self, ino: u64) -> bool {
        self.dynamic.is_some_and(|state| state.victim.get() == ino && ino != 0)
    }

    /// Hides what an interrupted operation left: its victim counts as deleted, and the old name of what
    /// was renamed does not count.
    fn interrupted(&mut self, findings: &mut Findings) {
        let Some(state) = self.dynamic else { return };
        let (dir, position) = (state.rename_dir.get(), state.rename_position.get());
        if dir != 0 {
            let message = format!("a renaming was interrupted: entry {position} does not count");
            findings.note(Location::Inode(dir), codes::INTERRUPTED, message);
            self.hidden.entries.insert((dir, position));
        }
        let victim = state.victim.get();
        if victim != 0 {
            let message = "a removal or creation was interrupted: the file counts as removed";
            findings.note(Location::Inode(victim), codes::INTERRUPTED, message);
        }
    }
}

/// Returns whether an inode is a directory.
pub(crate) fn is_directory(inode: &Inode) -> bool {
    FileKind::from_mode(inode.raw.mode.get().into()) == Some(FileKind::Directory)
}

/// The scan of one directory.
struct Scan {
    names: BTreeSet<Vec<u8>>,
    window: Window,
    /// What is wrong; with the position of an entry to hide.
    bad: Vec<(Option<u64>, String)>,
}

impl Scan {
    /// Looks at one block; returns the entry if it is shown.
    fn block(&mut self, fs: &Logfs, ino: u64, visited: Visited) -> Option<(u64, Entry)> {
        let (bix, offset) = match visited {
            Ok(place) => place,
            Err((bix, error)) => {
                self.bad.push((None, format!("entries from {bix} on: {error}")));
                return None;
            }
        };
        if fs.hidden.entries.contains(&(ino, bix)) {
            return None;
        }
        match fs.entry(&mut self.window, ino, bix, offset) {
            Ok(Ok(entry)) if fs.is_removed(entry.ino) => None,
            Ok(Ok(entry)) if !self.names.insert(entry.name.clone()) => {
                let message = format!("entry {bix}: a name that is twice in the directory");
                self.bad.push((Some(bix), message));
                None
            }
            Ok(Ok(entry)) => Some((bix, entry)),
            Ok(Err(message)) => {
                self.bad.push((Some(bix), format!("entry {bix}: {message}")));
                None
            }
            Err(error) => {
                self.bad.push((None, format!("entry {bix}: {error}")));
                None
            }
        }
    }
}
