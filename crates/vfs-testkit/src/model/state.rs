//! The state of the model, and the steps of its operations.

use super::content::Content;
use super::{DirectorySize, ModelFs, ModelRules};
use eraseblock_vfs::attr::{Attr, FileKind, Timestamp};
use eraseblock_vfs::error::{FsError, FsErrorKind};
use eraseblock_vfs::fs::Ino;
use eraseblock_vfs::rules::{check_directory, quoted, read_only};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The complete state of a file system.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) rules: ModelRules,
    pub(super) inodes: BTreeMap<Ino, Arc<Inode>>,
    pub(super) next_ino: Ino,
    pub(super) read_only: bool,
}

/// One inode.
#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) attr: Attr,
    pub(super) body: Body,
    pub(super) xattrs: BTreeMap<Vec<u8>, Arc<[u8]>>,
    pub(super) opens: u32,
    /// Whether it was created without a name and has not been linked yet.
    pub(super) never_named: bool,
}

/// The content of an inode.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Regular(Content),
    Directory { entries: Entries, parent: Ino },
    Symlink(Vec<u8>),
    Other,
}

/// The entries of a directory. A cookie belongs to a name while the name exists.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    pub(super) by_name: BTreeMap<Vec<u8>, (Ino, u64)>,
    pub(super) by_cookie: BTreeMap<u64, Vec<u8>>,
    last_cookie: u64,
}

impl Entries {
    pub(super) fn set(&mut self, name: &[u8], ino: Ino) {
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.0 = ino;
            return;
        }
        self.last_cookie += 1;
        self.by_name.insert(name.to_vec(), (ino, self.last_cookie));
        self.by_cookie.insert(self.last_cookie, name.to_vec());
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some((_, cookie)) = self.by_name.remove(name) {
            self.by_cookie.remove(&cookie);
        }
    }
}

impl State {
    pub(super) fn inode(&self, ino: Ino) -> Result<&Inode, FsError> {
        self.inodes.get(&ino).map(Arc::as_ref).ok_or_else(|| {
            FsError::new(FsErrorKind::NotFound, format!("inode {ino}: does not exist"))
        })
    }

    pub(super) fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode, FsError> {
        self.inodes.get_mut(&ino).map(Arc::make_mut).ok_or_else(|| {
            FsError::new(FsErrorKind::NotFound, format!("inode {ino}: does not exist"))
        })
    }

    pub(super) fn attr(&self, ino: Ino) -> Result<Attr, FsError> {
        let inode = self.inode(ino)?;
        let mut attr = inode.attr.clone();
        match &inode.body {
            Body::Directory { entries, .. } => attr.size = self.directory_size(entries),
            Body::Symlink(target) => attr.size = target.len() as u64,
            Body::Regular(_) | Body::Other => {}
        }
        Ok(attr)
    }

    fn directory_size(&self, entries: &Entries) -> u64 {
        let one = |name: &Vec<u8>| (57 + name.len() as u64).next_multiple_of(8);
        match self.rules.directory_size {
            DirectorySize::Entries => 160 + entries.by_name.keys().map(one).sum::<u64>(),
            DirectorySize::Zero => 0,
        }
    }

    pub(super) fn entries(&self, dir: Ino) -> Result<&Entries, FsError> {
        match &self.inode(dir)?.body {
            Body::Directory { entries, .. } => Ok(entries),
            _ => Err(FsError::new(
                FsErrorKind::NotADirectory,
                format!("inode {dir}: not a directory"),
            )),
        }
    }

    pub(super) fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError> {
        let entry = self.entries(dir)?.by_name.get(name);
        entry.map(|entry| entry.0).ok_or_else(|| {
            FsError::new(FsErrorKind::NotFound, format!("{} does not exist", quoted(name)))
        })
    }

    pub(super) fn writable(&self) -> Result<(), FsError> {
        if self.read_only { Err(read_only()) } else { Ok(()) }
    }

    /// Returns the attributes of `dir`, which must be a directory, after checking `name`.
    pub(super) fn checked_dir(&self, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        let attr = self.attr(dir)?;
        check_directory(&attr)?;
        eraseblock_vfs::rules::check_name(name, self.rules.name_max)?;
        Ok(attr)
    }

    /// Returns whether `ancestor` is `dir` or one of its ancestors.
    pub(super) fn is_within(&self, mut dir: Ino, ancestor: Ino) -> bool {
        loop {
            if dir == ancestor {
                return true;
            }
            match self.inodes.get(&dir).map(|inode| &inode.body) {
                Some(Body::Directory { parent, .. }) if *parent != dir => dir = *parent,
                _ => return false,
            }
        }
    }

    /// Returns whether an inode counts as a link to its parent.
    fn is_counted(&self, ino: Ino) -> Result<bool, FsError> {
        let is_directory = self.inode(ino)?.attr.kind == FileKind::Directory;
        Ok(is_directory && self.rules.directory_links)
    }

    /// Makes `name` in `dir` refer to `ino`.
    pub(super) fn set_entry(&mut self, dir: Ino, name: &[u8], ino: Ino) -> Result<(), FsError> {
        let is_directory = self.is_counted(ino)?;
        if let Body::Directory { entries, .. } = &mut self.inode_mut(dir)?.body {
            entries.set(name, ino);
        }
        if let Body::Directory { parent, .. } = &mut self.inode_mut(ino)?.body {
            *parent = dir;
        }
        if is_directory {
            self.inode_mut(dir)?.attr.nlink += 1;
        }
        Ok(())
    }

    /// Removes `name`, which refers to `ino`, from `dir`.
    pub(super) fn clear_entry(&mut self, dir: Ino, name: &[u8], ino: Ino) -> Result<(), FsError> {
        let is_directory = self.is_counted(ino)?;
        let parent = self.inode_mut(dir)?;
        if let Body::Directory { entries, .. } = &mut parent.body {
            entries.remove(name);
        }
        if is_directory {
            parent.attr.nlink -= 1;
        }
        Ok(())
    }

    /// Records that one name of `ino` was removed; a directory is deleted with its only name.
    pub(super) fn drop_name(&mut self, ino: Ino, now: Timestamp) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        inode.attr.ctime = now;
        inode.attr.nlink = match inode.attr.kind {
            FileKind::Directory => 0,
            _ => inode.attr.nlink.saturating_sub(1),
        };
        self.collect(ino);
        Ok(())
    }

    /// Deletes an inode that has no names and is not open.
    pub(super) fn collect(&mut self, ino: Ino) {
        let is_gone =
            self.inodes.get(&ino).is_some_and(|inode| inode.attr.nlink == 0 && inode.opens == 0);
        if is_gone {
            self.inodes.remove(&ino);
        }
    }

    pub(super) fn drop_open(&mut self) {
        self.inodes.retain(|_, inode| inode.attr.nlink > 0);
        let open: Vec<Ino> =
            self.inodes.iter().filter(|(_, inode)| inode.opens > 0).map(|(ino, _)| *ino).collect();
        for ino in open {
            if let Ok(inode) = self.inode_mut(ino) {
                inode.opens = 0;
            }
        }
    }

    /// Sets mtime and ctime of a directory whose entries changed.
    pub(super) fn touch(&mut self, dir: Ino, now: Timestamp) -> Result<(), FsError> {
        let attr = &mut self.inode_mut(dir)?.attr;
        (attr.mtime, attr.ctime) = (now, now);
        Ok(())
    }
}

impl ModelFs {
    /// Performs one change completely, or not at all if it fails.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        let mut state = self.exclusive();
        state.writable()?;
        // Every operation checks before it changes anything.
        change(Arc::make_mut(&mut *state))
    }
}
