//! Reads the whole tree of a file system and discards it: each unreadable name, content and
//! attribute is a finding with its path.

use crate::codes;
use crate::extract::copy::{CHUNK, DataReader};
use crate::extract::shown;
use eraseblock_base::{Code, Findings, Location};
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{DirEntry, FileKind, FileSystem, FsError, FsErrorKind, Ino};
use std::collections::HashSet;

/// Maximum number of ranges reported for one file.
const RANGES: usize = 16;

/// Reads everything. `progress` is called after each file with its bytes.
pub fn scrub(fs: &dyn FileSystem, progress: &dyn Fn(u64)) -> Findings {
    let mut scrub = Scrub {
        fs,
        seen: HashSet::from([fs.root()]),
        buf: vec![0; CHUNK],
        findings: Findings::new(),
    };
    let mut dirs: Vec<Ino> = vec![fs.root()];
    if let Err(error) = fs.attr(fs.root()) {
        scrub.lost(fs.root(), b"", codes::INODE_UNREADABLE, &error);
    }
    let walked: Result<(), std::convert::Infallible> = walk(fs, fs.root(), &mut |visit| {
        Ok(match visit {
            Visit::Entry { path, entry } => {
                let descend = scrub.entry(path, entry, progress);
                if descend == Descend::Yes {
                    dirs.push(entry.ino);
                }
                descend
            }
            Visit::Unreadable { path, error } => {
                let ino = dirs.last().copied().unwrap_or_default();
                scrub.lost(ino, path, codes::DIRECTORY_UNREADABLE, error);
                Descend::No
            }
        })
    });
    walked.unwrap_or_else(|never| match never {});
    scrub.findings
}

struct Scrub<'a> {
    fs: &'a dyn FileSystem,
    /// Inodes already read: each is read once, regardless of its number of names.
    seen: HashSet<Ino>,
    buf: Vec<u8>,
    findings: Findings,
}

impl Scrub<'_> {
    fn lost(&mut self, ino: Ino, path: &[u8], code: impl Into<Code>, error: &FsError) {
        let at = Location::Inode(ino);
        let text = error.to_string();
        let text = text.strip_prefix(&format!("{at}: ")).unwrap_or(&text);
        self.findings.error(at, code, format!("{}: {text}", shown(path)));
    }

    fn entry(&mut self, path: &[u8], entry: &DirEntry, progress: &dyn Fn(u64)) -> Descend {
        let ino = entry.ino;
        if !self.seen.insert(ino) {
            return Descend::No;
        }
        let attr = match self.fs.attr(ino) {
            Ok(attr) => attr,
            Err(error) => {
                self.lost(ino, path, codes::INODE_UNREADABLE, &error);
                return Descend::No;
            }
        };
        self.xattrs(ino, path);
        match attr.kind {
            FileKind::Directory if entry.kind == FileKind::Directory => return Descend::Yes,
            FileKind::Symlink => {
                if let Err(error) = self.fs.read_link(ino) {
                    self.lost(ino, path, codes::CONTENT_LOST, &error);
                }
            }
            FileKind::Regular => {
                self.content(ino, path, attr.size);
                progress(attr.size);
            }
            _ => {}
        }
        Descend::No
    }

    fn xattrs(&mut self, ino: Ino, path: &[u8]) {
        let values = self
            .fs
            .list_xattrs(ino)
            .and_then(|names| names.iter().try_for_each(|name| self.fs.xattr(ino, name).map(drop)));
        match values {
            Err(error) if error.kind() != FsErrorKind::Unsupported => {
                self.lost(ino, path, codes::XATTR_LOST, &error);
            }
            _ => {}
        }
    }

    fn content(&mut self, ino: Ino, path: &[u8], size: u64) {
        let mut reader = DataReader::new(self.fs, ino, size).keep_damaged(true);
        // Skipping damage, the reader returns no error.
        while let Ok(Some(_)) = reader.next(&mut self.buf) {}
        let damage = reader.damage;
        for (start, end) in damage.iter().copied().take(RANGES) {
            let len = usize::try_from(end - start).unwrap_or(CHUNK).min(CHUNK);
            match self.fs.read(ino, start, &mut self.buf[..len]) {
                Err(error) if error.kind() == FsErrorKind::NoKey => return,
                Err(error) => {
                    let why = error.to_string();
                    let why = why.strip_prefix(&format!("inode {ino}: ")).unwrap_or(&why);
                    let range = format!("bytes {start} to {end}: ");
                    let why = why.strip_prefix(&range).unwrap_or(why);
                    let text = format!("bytes {start} to {end} are lost: {why}");
                    self.lost(ino, path, codes::CONTENT_LOST, &FsError::new(error.kind(), text));
                }
                Ok(_) => {
                    let text = format!("bytes {start} to {end}: the content ends before its size");
                    let error = FsError::new(FsErrorKind::Corrupted, text);
                    self.lost(ino, path, codes::CONTENT_LOST, &error);
                }
            }
        }
        if let Some(more) = damage.len().checked_sub(RANGES).filter(|more| *more > 0) {
            let error =
                FsError::new(FsErrorKind::Corrupted, format!("{more} more ranges are lost"));
            self.lost(ino, path, codes::CONTENT_LOST, &error);
        }
    }
}
