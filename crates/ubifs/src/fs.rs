//! The file-system interface.

use crate::codes;
use crate::cookies::{self, Listing};
use crate::inode::{lost, number};
use crate::mount::Ubifs;
use crate::names::{self, Wanted};
use crate::statfs;
use crate::tnc::{LeafError, OwnedDent, Window};
use eraseblock_base::{Location, Severity};
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, ENCRYPTION_CONTEXT, MAX_NAME_LEN, ROOT_INO};
use eraseblock_ubifs_format::key::VALUE_MASK;
use eraseblock_ubifs_format::{Branch, EntryKind, Key, KeyKind};
use eraseblock_vfs::{Attr, DirEntry, FileKind, FileSystem, FsError, FsErrorKind, Ino, StatFs};
use std::ops::ControlFlow;

/// Returns the error for a leaf that cannot be read; `what` names it.
pub(crate) fn leaf_error(what: &str, error: LeafError) -> FsError {
    match error {
        LeafError::Format(error) => {
            FsError::new(FsErrorKind::Corrupted, format!("{what}: {error}"))
        }
        LeafError::Device(error) => FsError::new(FsErrorKind::Io, format!("{what}: {error}")),
    }
}

fn error(kind: FsErrorKind, ino: Ino, message: &str) -> FsError {
    FsError::new(kind, format!("inode {ino}: {message}"))
}

pub(crate) fn file_kind(kind: EntryKind) -> FileKind {
    match kind {
        EntryKind::Regular => FileKind::Regular,
        EntryKind::Directory => FileKind::Directory,
        EntryKind::Symlink => FileKind::Symlink,
        EntryKind::BlockDevice => FileKind::BlockDevice,
        EntryKind::CharDevice => FileKind::CharDevice,
        EntryKind::Fifo => FileKind::Fifo,
        EntryKind::Socket => FileKind::Socket,
    }
}

/// What an entry says about its target.
#[cfg(feature = "write")]
pub(crate) fn entry_kind(kind: FileKind) -> EntryKind {
    match kind {
        FileKind::Regular => EntryKind::Regular,
        FileKind::Directory => EntryKind::Directory,
        FileKind::Symlink => EntryKind::Symlink,
        FileKind::BlockDevice => EntryKind::BlockDevice,
        FileKind::CharDevice => EntryKind::CharDevice,
        FileKind::Fifo => EntryKind::Fifo,
        FileKind::Socket => EntryKind::Socket,
    }
}

/// Returns an entry for callers.
pub(crate) fn dir_entry(dent: &OwnedDent, is_encrypted: bool, cookie: u64) -> DirEntry {
    DirEntry {
        name: names::shown(dent, is_encrypted),
        ino: dent.ino.into(),
        kind: file_kind(dent.kind),
        cookie,
    }
}

impl Ubifs {
    /// Calls `sink` for the entries with keys from `from` to `to` until it breaks. Entries that
    /// cannot be read are findings.
    pub(crate) fn scan_entries(
        &self,
        from: Key,
        to: Key,
        sink: &mut dyn FnMut(OwnedDent) -> ControlFlow<()>,
    ) {
        let mut window = Window::default();
        self.tnc.scan(from, to, &mut |branch| {
            let node = self.tnc.leaf_near(branch, &mut window);
            let dent: Result<OwnedDent, _> = node.and_then(|node| Ok(node.dent()?.into()));
            match dent {
                Ok(dent) => {
                    self.note_name(branch, &dent);
                    sink(dent)
                }
                Err(error) => {
                    self.entry_lost(branch, &error);
                    ControlFlow::Continue(())
                }
            }
        });
    }

    /// Reports under which name an entry is shown if its name is not a valid file name.
    fn note_name(&self, branch: &Branch, dent: &OwnedDent) {
        let is_entry = branch.key.kind() == Some(KeyKind::Dent);
        let dir = branch.key.ino();
        if !is_entry
            || names::is_plain(&dent.name)
            || self.inode(dir.into()).is_ok_and(|info| info.attr.flags.encrypted)
        {
            return;
        }
        let (stored, shown) = (dent.name.escape_ascii(), names::coded(dent));
        let message = format!(
            "directory {dir}: `{stored}`, a name of inode {}, cannot be that of a file: shown as \
             `{}`",
            dent.ino,
            shown.escape_ascii()
        );
        let at = Location::Leb(branch.leb, branch.offset);
        self.tnc.volume.late.push(Severity::Warning, at, "name-not-allowed", message);
    }

    fn entry_lost(&self, branch: &Branch, error: &LeafError) {
        let at = Location::Leb(branch.leb, branch.offset);
        let message = format!("{}: {error}", branch.key);
        self.tnc.volume.late.push(Severity::Error, at, codes::ENTRY_LOST, message);
    }

    fn directory(&self, dir: Ino) -> Result<(u32, Attr), FsError> {
        let attr = self.inode(dir)?.attr.clone();
        if attr.kind != FileKind::Directory {
            return Err(error(FsErrorKind::NotADirectory, dir, "not a directory"));
        }
        Ok((number(dir)?, attr))
    }

    fn regular(&self, ino: Ino) -> Result<(u32, Attr), FsError> {
        let attr = self.inode(ino)?.attr.clone();
        match attr.kind {
            FileKind::Regular if attr.flags.encrypted => {
                let message = "content is encrypted and there is no key";
                Err(error(FsErrorKind::NoKey, ino, message))
            }
            FileKind::Regular => Ok((number(ino)?, attr)),
            FileKind::Directory => Err(error(FsErrorKind::IsADirectory, ino, "is a directory")),
            _ => Err(error(FsErrorKind::Invalid, ino, "not a regular file")),
        }
    }

    /// Returns the entry of a stored name.
    fn find_entry(&self, from: Key, matches: &dyn Fn(&OwnedDent) -> bool) -> Option<OwnedDent> {
        let mut found = None;
        self.scan_entries(from, from, &mut |dent| {
            if matches(&dent) {
                found = Some(dent);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        found
    }

    fn find_stored(&self, dir: u32, name: &[u8]) -> Option<OwnedDent> {
        let hash = self.tnc.volume.sb.key_hash.hash(name);
        self.find_entry(Key::dent(dir, hash), &|dent| dent.name == name)
    }

    /// Returns the entry for a shown name.
    fn find_shown(&self, dir: u32, name: &[u8], is_encrypted: bool) -> Option<OwnedDent> {
        let wanted = names::decoded(name);
        let coded = match wanted {
            Some(Wanted::Stored(stored)) => self.find_stored(dir, &stored),
            Some(Wanted::Abbreviated { hash, cookie, prefix }) => self
                .find_entry(Key::dent(dir, hash), &|dent| {
                    dent.cookie == cookie && dent.name.starts_with(&prefix)
                }),
            None => None,
        };
        let coded = coded.filter(|dent| is_encrypted || !names::is_plain(&dent.name));
        coded.or_else(|| if is_encrypted { None } else { self.find_stored(dir, name) })
    }

    fn xattr_entry(&self, ino: Ino, name: &[u8]) -> Result<OwnedDent, FsError> {
        let host = number(ino)?;
        self.inode(ino)?;
        let key = Key::xent(host, self.tnc.volume.sb.key_hash.hash(name));
        self.find_entry(key, &|dent| dent.name == name).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            if self.tnc.is_lost(key, key) {
                return lost(ino, &format!("the attribute `{name}`"));
            }
            error(FsErrorKind::NoAttribute, ino, &format!("no extended attribute `{name}`"))
        })
    }
}

impl FileSystem for Ubifs {
    fn root(&self) -> Ino {
        ROOT_INO.into()
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let (number, attr) = self.directory(dir)?;
        if name.len() > MAX_NAME_LEN {
            return Err(error(FsErrorKind::NameTooLong, dir, "name of more than 255 bytes"));
        }
        let found = self.find_shown(number, name, attr.flags.encrypted);
        found.map(|dent| dent.ino.into()).ok_or_else(|| {
            let shown = String::from_utf8_lossy(name);
            let key = Key::dent(number, self.tnc.volume.sb.key_hash.hash(name));
            if self.tnc.is_lost(key, key) {
                return lost(dir, &format!("the name `{shown}`"));
            }
            error(FsErrorKind::NotFound, dir, &format!("no entry `{shown}`"))
        })
    }

    fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        Ok(self.inode(ino)?.attr.clone())
    }

    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError> {
        let (number, attr) = self.directory(dir)?;
        let Some(start) = cookies::first_hash(cookie) else { return Ok(()) };
        let mut listing = Listing::behind(cookie);
        let mut give =
            |dent: OwnedDent, cookie| sink(dir_entry(&dent, attr.flags.encrypted, cookie));
        let last = Key::dent(number, VALUE_MASK);
        self.scan_entries(Key::dent(number, start), last, &mut |dent| listing.add(dent, &mut give));
        let _ = listing.give_rest(&mut give);
        Ok(())
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError> {
        let info = self.inode(ino)?;
        if info.attr.kind != FileKind::Symlink {
            return Err(error(FsErrorKind::Invalid, ino, "not a symbolic link"));
        }
        if info.attr.flags.encrypted {
            let message = "link target is encrypted and there is no key";
            return Err(error(FsErrorKind::NoKey, ino, message));
        }
        Ok(info.data.clone())
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError> {
        let (number, attr) = self.regular(ino)?;
        let left = usize::try_from(attr.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(buf.len());
        if len > 0 {
            self.read_content(number, offset, &mut buf[..len])?;
        }
        Ok(len)
    }

    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError> {
        let (number, attr) = self.regular(ino)?;
        if offset >= attr.size {
            return Ok(None);
        }
        let block = (offset / u64::from(BLOCK_SIZE)) as u32;
        let mut found = None;
        let (first, last) = (Key::data(number, block), Key::data(number, VALUE_MASK));
        if self.tnc.is_lost(first, last) {
            return Ok(Some(offset));
        }
        self.tnc.scan(first, last, &mut |branch| {
            found = Some(u64::from(branch.key.value()) * u64::from(BLOCK_SIZE));
            ControlFlow::Break(())
        });
        Ok(found.map(|start| start.max(offset)).filter(|start| *start < attr.size))
    }

    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError> {
        let (number, attr) = self.regular(ino)?;
        if offset >= attr.size {
            return Ok(attr.size);
        }
        let first = (offset / u64::from(BLOCK_SIZE)) as u32;
        let mut next = first;
        let last = Key::data(number, VALUE_MASK);
        if self.tnc.is_lost(Key::data(number, first), last) {
            return Ok(attr.size);
        }
        self.tnc.scan(Key::data(number, first), last, &mut |branch| {
            if branch.key.value() != next {
                return ControlFlow::Break(());
            }
            next = next.saturating_add(1);
            ControlFlow::Continue(())
        });
        Ok((u64::from(next) * u64::from(BLOCK_SIZE)).clamp(offset, attr.size))
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        let host = number(ino)?;
        self.inode(ino)?;
        let mut names = Vec::new();
        let (from, to) = (Key::xent(host, 0), Key::xent(host, VALUE_MASK));
        self.scan_entries(from, to, &mut |dent| {
            if dent.name != ENCRYPTION_CONTEXT {
                names.push(dent.name);
            }
            ControlFlow::Continue(())
        });
        Ok(names)
    }

    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let dent = self.xattr_entry(ino, name)?;
        Ok(self.inode(dent.ino.into())?.data.clone())
    }

    fn stat_fs(&self) -> Result<StatFs, FsError> {
        Ok(statfs::compute(&self.tnc.volume.sb, self.master.as_ref(), self.info.journal_bytes))
    }
}
