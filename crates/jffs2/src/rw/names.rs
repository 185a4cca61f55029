//! Operations on names and inodes (spec: jffs2 14).

use super::dents::Dent;
use super::inode::{Attributes, Fragments, Loaded};
use super::nodelist::{RefKind, RefState};
use super::nodemgmt::Alloc;
use super::state::State;
use super::summary::record_len;
use super::write::Extent;
use eraseblock_jffs2_format::constants::{INODE_LEN, MAX_NAME_LEN, MAX_TARGET_LEN, compression};
use eraseblock_vfs::rules::{
    RenameCheck, RenameStep, check_directory, check_link, check_name, check_new_entry,
    check_regular, check_removal, check_rename, check_target, inherit, quoted,
};
use eraseblock_vfs::{Attr, FileKind, FsError, FsErrorKind, Ino, NewInode, NewKind, RenameMode};

pub(crate) fn refuse(kind: FsErrorKind, ino: u32, message: &str) -> FsError {
    FsError::new(kind, format!("inode {ino}: {message}"))
}

/// Returns an owner as stored in nodes.
pub(crate) fn id16(id: u32) -> Result<u16, FsError> {
    u16::try_from(id).map_err(|_| {
        FsError::new(FsErrorKind::Invalid, format!("owner {id}: JFFS2 has 16 bits for it"))
    })
}

impl State {
    /// Returns the inode number if the inode exists, and loads it.
    pub(crate) fn existing(&mut self, ino: Ino) -> Result<u32, FsError> {
        let missing = || FsError::new(FsErrorKind::NotFound, format!("no inode {ino}"));
        let ino = u32::try_from(ino).map_err(|_| missing())?;
        self.load(ino)?;
        Ok(ino)
    }

    /// Like [`Self::existing`], for a directory.
    pub(crate) fn directory(&mut self, ino: Ino) -> Result<u32, FsError> {
        check_directory(&self.attr(ino)?)?;
        self.existing(ino)
    }

    /// Like [`Self::existing`], for a regular file.
    pub(crate) fn regular(&mut self, ino: Ino) -> Result<u32, FsError> {
        check_regular(&self.attr(ino)?)?;
        self.existing(ino)
    }

    /// Returns the target of a name.
    pub(crate) fn find(&self, dir: u32, name: &[u8]) -> Result<Dent, FsError> {
        self.inode(dir).dents.live(name).ok_or_else(|| {
            refuse(FsErrorKind::NotFound, dir, &format!("no entry {}", quoted(name)))
        })
    }

    /// Checks a directory in which to look up the name.
    fn directory_of(&mut self, dir: Ino, name: &[u8]) -> Result<(u32, Attr), FsError> {
        let attr = self.attr(dir)?;
        check_directory(&attr)?;
        check_name(name, MAX_NAME_LEN)?;
        Ok((self.existing(dir)?, attr))
    }

    /// Checks a directory in which to create a name.
    fn place_for(&mut self, dir: Ino, name: &[u8]) -> Result<(u32, Attr), FsError> {
        let (dir, attr) = self.directory_of(dir, name)?;
        check_new_entry(&attr, name, self.inode(dir).dents.live(name).is_some())?;
        Ok((dir, attr))
    }

    /// Creates an inode with a name.
    pub(crate) fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        new: &NewInode<'_>,
        now: u32,
    ) -> Result<u32, FsError> {
        let (dir, parent) = self.place_for(dir, name)?;
        let (kind, payload) = self.content_of(new)?;
        let inherited = inherit(&parent, new);
        let attributes = Attributes {
            mode: kind.mode_bits() | inherited.permissions,
            uid: id16(new.uid)?,
            gid: id16(inherited.gid)?,
            size: if kind == FileKind::Symlink { payload.len() as u32 } else { 0 },
            atime: now,
            mtime: now,
            ctime: now,
        };
        let ino = self
            .highest_ino
            .checked_add(1)
            .ok_or_else(|| FsError::new(FsErrorKind::NoSpace, "no inode number is left"))?;
        self.put_new(ino, dir, attributes, &payload, new)?;
        match self.set_name(dir, name, ino, attributes.file_type(), now, Alloc::Normal) {
            Ok(_) => {
                self.cache_mut(ino).set_names(1);
                Ok(ino)
            }
            Err(error) => {
                self.delete(ino);
                Err(error)
            }
        }
    }

    /// Returns the payload of the only node of a new inode.
    fn content_of(&self, new: &NewInode<'_>) -> Result<(FileKind, Vec<u8>), FsError> {
        let device = |major, minor| {
            self.flash.order.device_bytes(major, minor).ok_or_else(|| {
                FsError::new(FsErrorKind::Invalid, "device number beyond 12 and 20 bits")
            })
        };
        Ok(match new.kind {
            NewKind::Regular => (FileKind::Regular, Vec::new()),
            NewKind::Directory => (FileKind::Directory, Vec::new()),
            NewKind::Fifo => (FileKind::Fifo, Vec::new()),
            NewKind::Socket => (FileKind::Socket, Vec::new()),
            NewKind::BlockDevice(major, minor) => (FileKind::BlockDevice, device(major, minor)?),
            NewKind::CharDevice(major, minor) => (FileKind::CharDevice, device(major, minor)?),
            NewKind::Symlink(target) => {
                check_target(target, MAX_TARGET_LEN as usize)?;
                (FileKind::Symlink, target.to_vec())
            }
        })
    }

    /// Writes the first node of an inode that has no name yet.
    fn put_new(
        &mut self,
        ino: u32,
        parent: u32,
        attributes: Attributes,
        payload: &[u8],
        new: &NewInode<'_>,
    ) -> Result<(), FsError> {
        let len = payload.len() as u32;
        self.reserve(INODE_LEN + len, Alloc::Normal, record_len(RefKind::Inode, 0))?;
        let number = compression::NONE;
        let extent = Extent { offset: 0, dsize: len, compression: number, stored: payload };
        let place = self.put_inode(ino, 1, &attributes, &extent, RefState::Pristine);
        let rdev = match new.kind {
            NewKind::BlockDevice(major, minor) | NewKind::CharDevice(major, minor) => {
                (major, minor)
            }
            _ => (0, 0),
        };
        let place = match place {
            Ok(place) => place,
            Err(error) => {
                self.remove_inode(ino);
                return Err(error);
            }
        };
        self.highest_ino = ino;
        let loaded = Loaded {
            attributes,
            metadata: Some(place),
            fragments: Fragments::default(),
            rdev,
            ..Loaded::default()
        };
        let cache = self.cache_mut(ino);
        cache.highest = 1;
        cache.parent = parent;
        cache.set_checked();
        self.loaded.insert(ino, loaded);
        Ok(())
    }

    /// Adds a name to an inode.
    pub(crate) fn link(
        &mut self,
        ino: Ino,
        dir: Ino,
        name: &[u8],
        now: u32,
    ) -> Result<(), FsError> {
        let inode = self.attr(ino)?;
        let (dir, _) = self.place_for(dir, name)?;
        check_link(&inode, false, u32::MAX)?;
        let ino = self.existing(ino)?;
        let attributes = self.inode(ino).attributes;
        self.set_name(dir, name, ino, attributes.file_type(), now, Alloc::Normal)?;
        self.cache_mut(ino).add_name();
        Ok(())
    }

    /// Removes a name: that of an empty directory, or of any other inode.
    pub(crate) fn remove(
        &mut self,
        dir: Ino,
        name: &[u8],
        wants_directory: bool,
        now: u32,
    ) -> Result<(), FsError> {
        let (dir, attr) = self.directory_of(dir, name)?;
        let dent = self.find(dir, name)?;
        match self.attr(dent.ino.into()) {
            Ok(victim) => check_removal(&attr, &victim, wants_directory)?,
            // An unreadable inode can be removed, too.
            Err(error) if error.kind() == FsErrorKind::Corrupted => {}
            Err(error) => return Err(error),
        }
        if wants_directory && self.has_entries(dent.ino)? {
            let message = format!("{} is a directory with entries", quoted(name));
            return Err(FsError::new(FsErrorKind::NotEmpty, message));
        }
        self.set_name(dir, name, 0, 0, now, Alloc::Deletion)?;
        self.drop_name(dent.ino);
        Ok(())
    }

    /// Returns whether removing this name of a directory would lose its entries. After an
    /// interrupted rename it has two names.
    fn has_entries(&mut self, ino: u32) -> Result<bool, FsError> {
        self.load(ino)?;
        let is_last = self.cache(ino).is_none_or(|cache| cache.names() < 2);
        Ok(is_last && !self.inode(ino).dents.is_empty())
    }

    /// Renames.
    pub(crate) fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        now: u32,
    ) -> Result<(), FsError> {
        if !matches!(mode, RenameMode::Replace | RenameMode::NoReplace) {
            let message = "JFFS2 cannot exchange names or leave whiteouts";
            return Err(FsError::new(FsErrorKind::Invalid, message));
        }
        let (dir, old_dir) = self.directory_of(from.0, from.1)?;
        let (to_dir, new_dir) = self.directory_of(to.0, to.1)?;
        let dent = self.find(dir, from.1)?;
        let source = self.attr(dent.ino.into())?;
        let replaced = self.inode(to_dir).dents.live(to.1);
        let target = replaced.map(|old| self.attr(old.ino.into())).transpose()?;
        let is_directory = |attr: &Attr| attr.kind == FileKind::Directory;
        let full = match &target {
            Some(target) if is_directory(target) => self.has_entries(target.ino as u32)?,
            _ => false,
        };
        let check = RenameCheck {
            old_dir: &old_dir,
            source: &source,
            new_dir: &new_dir,
            new_name: to.1,
            target: target.as_ref(),
            mode,
            into_itself: is_directory(&source) && self.is_within(to_dir, dent.ino),
            onto_ancestor: replaced.is_some_and(|old| self.is_within(dir, old.ino)),
            target_has_entries: full,
        };
        if check_rename(&check)? == RenameStep::Nothing {
            return Ok(());
        }
        self.move_name((dir, from.1), (to_dir, to.1), dent, now)
    }

    /// Writes the new name first, so that a power cut leaves both names, not none (spec: jffs2 14).
    fn move_name(
        &mut self,
        from: (u32, &[u8]),
        to: (u32, &[u8]),
        dent: Dent,
        now: u32,
    ) -> Result<(), FsError> {
        let old = self.set_name(to.0, to.1, dent.ino, dent.file_type, now, Alloc::Normal)?;
        let cache = self.cache_mut(dent.ino);
        cache.add_name();
        cache.parent = to.0;
        if old != 0 {
            self.drop_name(old);
        }
        self.set_name(from.0, from.1, 0, 0, now, Alloc::Deletion)?;
        self.drop_name(dent.ino);
        Ok(())
    }

    /// Returns whether `ancestor` is `dir` or above it.
    fn is_within(&self, dir: u32, ancestor: u32) -> bool {
        let mut at = dir;
        for _ in 0..=self.inodes.len() {
            if at == ancestor {
                return true;
            }
            match self.cache(at) {
                Some(cache) if cache.parent != 0 => at = cache.parent,
                _ => break,
            }
        }
        false
    }

    /// Records that a name of the inode was removed.
    pub(crate) fn drop_name(&mut self, ino: u32) {
        let Some(cache) = self.inodes.get_mut(ino) else { return };
        if cache.drop_name() == 0 && cache.opens == 0 {
            self.delete(ino);
        }
    }

    /// Deletes the inode: its nodes are dead, and nothing needs to be written.
    pub(crate) fn delete(&mut self, ino: u32) {
        self.drop_xattrs(ino);
        for place in self.remove_inode(ino).nodes.as_slice() {
            self.obsolete(*place);
        }
    }
}
