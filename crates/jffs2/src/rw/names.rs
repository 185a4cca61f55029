//! Operations on names and inodes (spec: jffs2 14).
//!
//! Layer: above the driver. Each node is written by `write`, after the driver made space for it.
//!
//! # Invariants
//! 1. An inode has a node before it has a name, and keeps its last name until all others are gone:
//!    a cut leaves an inode without names, which the next mount deletes, never a name of nothing.

use super::dents::Dent;
use super::inode::{Attributes, Fragments, Loaded, id16};
use super::query::Directory;
use super::space::Purpose;
use super::state::State;
use super::write::{NewName, Target};
use eraseblock_jffs2_format::constants::MAX_TARGET_LEN;
use eraseblock_jffs2_format::device_bytes;
use eraseblock_vfs::rules::{
    LinkOrigin, RenameCheck, RenameStep, check_link, check_removal, check_rename, check_target,
    inherit, quoted,
};
use eraseblock_vfs::{Attr, FileKind, FsError, FsErrorKind, Ino, NewInode, NewKind, RenameMode};
use std::num::NonZeroU32;

/// The kind of inode whose name is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Victim {
    /// A directory, which must be empty.
    Directory,
    /// Any other inode.
    Other,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
struct NameIn<'a> {
    dir: u32,
    name: &'a [u8],
}

impl<'a> NameIn<'a> {
    fn to(self, ino: u32, file_type: u8, now: u32) -> NewName<'a> {
        let target = Some(Target { ino, file_type });
        NewName { dir: self.dir, name: self.name, target, mctime: NonZeroU32::new(now) }
    }

    fn deleted(self, now: u32) -> NewName<'a> {
        NewName { dir: self.dir, name: self.name, target: None, mctime: NonZeroU32::new(now) }
    }
}

impl State {
    /// Writes a name. First writes a node with unchanged attributes for a directory without one, so
    /// that the DIRENT's time counts. Returns the inode that the name referred to before.
    fn set_name(&mut self, new: &NewName<'_>, purpose: Purpose) -> Result<Option<u32>, FsError> {
        if let Some(attributes) = self.writer.attributes_before(new) {
            self.make_space(purpose)?;
            self.writer.put_attributes(new.dir, attributes, &[])?;
        }
        self.make_space(purpose)?;
        self.writer.put_name(new)
    }

    /// Creates an inode with a name.
    pub(crate) fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        new: &NewInode<'_>,
        now: u32,
    ) -> Result<u32, FsError> {
        let Directory { ino: dir, attr: parent } = self.tree_mut().place_for(dir, name)?;
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
        let name = NameIn { dir, name }.to(ino, attributes.file_type(), now);
        match self.set_name(&name, Purpose::Write) {
            Ok(_) => {
                self.tree_mut().owners.cache_mut(ino).set_names(1);
                Ok(ino)
            }
            Err(error) => {
                self.tree_mut().delete(ino);
                Err(error)
            }
        }
    }

    /// Returns the payload of the only node of a new inode.
    fn content_of(&self, new: &NewInode<'_>) -> Result<(FileKind, Vec<u8>), FsError> {
        let device = |major, minor| {
            device_bytes(self.tree().store.flash.order, major, minor).ok_or_else(|| {
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
        self.make_space(Purpose::Write)?;
        let place = self.writer.put_first(ino, &attributes, payload)?;
        let rdev = match new.kind {
            NewKind::BlockDevice(major, minor) | NewKind::CharDevice(major, minor) => {
                (major, minor)
            }
            _ => (0, 0),
        };
        self.highest_ino = ino;
        let loaded = Loaded {
            attributes,
            metadata: Some(place),
            fragments: Fragments::default(),
            rdev,
            ..Loaded::default()
        };
        let owners = &mut self.tree_mut().owners;
        let cache = owners.cache_mut(ino);
        cache.highest = 1;
        cache.parent = NonZeroU32::new(parent);
        cache.set_checked();
        owners.loaded.insert(ino, loaded);
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
        let inode = self.tree_mut().attr(ino)?;
        let dir = self.tree_mut().place_for(dir, name)?.ino;
        check_link(&inode, LinkOrigin::Named, u32::MAX)?;
        let ino = self.tree_mut().existing(ino)?;
        let file_type = self.tree().inode(ino).attributes.file_type();
        self.set_name(&NameIn { dir, name }.to(ino, file_type, now), Purpose::Write)?;
        self.tree_mut().owners.cache_mut(ino).add_name();
        Ok(())
    }

    /// Removes a name: that of an empty directory, or of any other inode.
    pub(crate) fn remove(
        &mut self,
        dir: Ino,
        name: &[u8],
        victim: Victim,
        now: u32,
    ) -> Result<(), FsError> {
        let wants_directory = victim == Victim::Directory;
        let dir = self.tree_mut().directory_of(dir, name)?;
        let dent = self.tree().find(dir.ino, name)?;
        match self.tree_mut().attr(dent.ino.into()) {
            Ok(victim) => check_removal(&dir.attr, &victim, wants_directory)?,
            // An unreadable inode can be removed, too.
            Err(error) if error.kind() == FsErrorKind::Corrupted => {}
            Err(error) => return Err(error),
        }
        if wants_directory && self.tree_mut().has_entries(dent.ino)? {
            let message = format!("{} is a directory with entries", quoted(name));
            return Err(FsError::new(FsErrorKind::NotEmpty, message));
        }
        let name = NameIn { dir: dir.ino, name };
        self.set_name(&name.deleted(now), Purpose::Deletion)?;
        self.tree_mut().drop_name(dent.ino);
        Ok(())
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
        let tree = self.tree_mut();
        let old_dir = tree.directory_of(from.0, from.1)?;
        let new_dir = tree.directory_of(to.0, to.1)?;
        let dent = tree.find(old_dir.ino, from.1)?;
        let source = tree.attr(dent.ino.into())?;
        let replaced = tree.inode(new_dir.ino).dents.live(to.1);
        let target = replaced.map(|old| tree.attr(old.ino.into())).transpose()?;
        let is_directory = |attr: &Attr| attr.kind == FileKind::Directory;
        let full = match &target {
            Some(target) if is_directory(target) => tree.has_entries(target.ino as u32)?,
            _ => false,
        };
        let check = RenameCheck {
            old_dir: &old_dir.attr,
            source: &source,
            new_dir: &new_dir.attr,
            new_name: to.1,
            target: target.as_ref(),
            mode,
            into_itself: is_directory(&source) && tree.is_within(new_dir.ino, dent.ino),
            onto_ancestor: replaced.is_some_and(|old| tree.is_within(old_dir.ino, old.ino)),
            target_has_entries: full,
        };
        if check_rename(&check)? == RenameStep::Nothing {
            return Ok(());
        }
        let from = NameIn { dir: old_dir.ino, name: from.1 };
        let to = NameIn { dir: new_dir.ino, name: to.1 };
        self.move_name(from, to, dent, now)
    }

    /// Writes the new name first, so that a power cut leaves both names, not none (spec: jffs2 14).
    fn move_name(
        &mut self,
        from: NameIn<'_>,
        to: NameIn<'_>,
        dent: Dent,
        now: u32,
    ) -> Result<(), FsError> {
        let old = self.set_name(&to.to(dent.ino, dent.file_type, now), Purpose::Write)?;
        let cache = self.tree_mut().owners.cache_mut(dent.ino);
        cache.add_name();
        cache.parent = NonZeroU32::new(to.dir);
        if let Some(old) = old {
            self.tree_mut().drop_name(old);
        }
        self.set_name(&from.deleted(now), Purpose::Deletion)?;
        self.tree_mut().drop_name(dent.ino);
        Ok(())
    }
}
