//! The write interface of the model.

use super::ModelFs;
use super::content::Content;
use super::state::{Body, Entries, Inode, State};
use eraseblock_vfs::Caller;
use eraseblock_vfs::attr::{Attr, FileKind, InodeFlags, Timestamp};
use eraseblock_vfs::error::{FsError, FsErrorKind};
use eraseblock_vfs::fs::Ino;
use eraseblock_vfs::rules::{
    LinkOrigin, RenameCheck, RenameStep, XattrUse, changed_attr, check_acl_value, check_directory,
    check_growth, check_link, check_new_entry, check_removal, check_rename, check_set_attr,
    check_target, check_write, check_xattr_name, check_xattr_value, inherit, quoted, round_time,
};
use eraseblock_vfs::write::{
    Background, NewInode, NewKind, RenameMode, SetAttr, WritableFileSystem, XattrMode,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A whiteout: a character device 0:0, owned by 0:0 and with no permissions.
const WHITEOUT: NewInode<'static> =
    NewInode { kind: NewKind::CharDevice(0, 0), permissions: 0, uid: 0, gid: 0 };

/// The call that removes a name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
    Unlink,
    RemoveDir,
}

impl State {
    /// Creates an inode without a name.
    fn make(&mut self, dir: &Attr, inode: &NewInode<'_>, now: Timestamp) -> Result<Ino, FsError> {
        let (kind, body, rdev) = match inode.kind {
            NewKind::Regular => (FileKind::Regular, Body::Regular(Content::default()), (0, 0)),
            NewKind::Directory => {
                let body = Body::Directory { entries: Entries::default(), parent: dir.ino };
                (FileKind::Directory, body, (0, 0))
            }
            NewKind::Symlink(target) => {
                check_target(target, self.rules.target_max)?;
                (FileKind::Symlink, Body::Symlink(target.to_vec()), (0, 0))
            }
            NewKind::BlockDevice(major, minor) | NewKind::CharDevice(major, minor)
                if major.max(minor) > self.rules.device_max =>
            {
                let message = format!("device {major}:{minor}: the numbers cannot be stored");
                return Err(FsError::new(FsErrorKind::Invalid, message));
            }
            NewKind::BlockDevice(major, minor) => {
                (FileKind::BlockDevice, Body::Other, (major, minor))
            }
            NewKind::CharDevice(major, minor) => {
                (FileKind::CharDevice, Body::Other, (major, minor))
            }
            NewKind::Fifo => (FileKind::Fifo, Body::Other, (0, 0)),
            NewKind::Socket => (FileKind::Socket, Body::Other, (0, 0)),
        };
        let inherited = inherit(dir, inode);
        let ino = self.next_ino;
        self.next_ino += 1;
        let attr = Attr {
            ino,
            kind,
            permissions: inherited.permissions,
            nlink: if kind == FileKind::Directory && self.rules.directory_links { 2 } else { 1 },
            uid: inode.uid,
            gid: inherited.gid,
            size: match kind {
                FileKind::BlockDevice | FileKind::CharDevice => self.rules.device_size,
                _ => 0,
            },
            rdev,
            atime: now,
            mtime: now,
            ctime: now,
            flags: if self.rules.flags { inherited.flags } else { InodeFlags::default() },
        };
        let made = Inode { attr, body, xattrs: BTreeMap::new(), opens: 0, never_named: false };
        self.inodes.insert(ino, Arc::new(made));
        Ok(ino)
    }

    fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        now: Timestamp,
    ) -> Result<Ino, FsError> {
        let attr = self.checked_dir(dir, name)?;
        check_new_entry(&attr, name, self.lookup(dir, name).is_ok())?;
        let ino = self.make(&attr, inode, now)?;
        self.set_entry(dir, name, ino)?;
        self.touch(dir, now)?;
        Ok(ino)
    }

    fn create_unnamed(
        &mut self,
        dir: Ino,
        inode: &NewInode<'_>,
        now: Timestamp,
    ) -> Result<Ino, FsError> {
        if !self.rules.unnamed {
            let message = "files cannot be made without a name here";
            return Err(FsError::new(FsErrorKind::Unsupported, message));
        }
        let attr = self.attr(dir)?;
        check_directory(&attr)?;
        if inode.kind != NewKind::Regular {
            let message = "only a regular file can be without a name";
            return Err(FsError::new(FsErrorKind::Invalid, message));
        }
        check_growth(&attr)?;
        let ino = self.make(&attr, inode, now)?;
        let made = self.inode_mut(ino)?;
        (made.attr.nlink, made.opens, made.never_named) = (0, 1, true);
        Ok(ino)
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Timestamp) -> Result<(), FsError> {
        let inode = self.attr(ino)?;
        let attr = self.checked_dir(dir, name)?;
        check_new_entry(&attr, name, self.lookup(dir, name).is_ok())?;
        let never_named = self.inode(ino)?.never_named;
        let origin = if never_named { LinkOrigin::Unnamed } else { LinkOrigin::Named };
        check_link(&inode, origin, self.rules.links_max)?;
        self.set_entry(dir, name, ino)?;
        let inode = self.inode_mut(ino)?;
        inode.attr.nlink += 1;
        inode.attr.ctime = now;
        inode.never_named = false;
        self.touch(dir, now)
    }

    fn remove(
        &mut self,
        dir: Ino,
        name: &[u8],
        by: Removal,
        now: Timestamp,
    ) -> Result<(), FsError> {
        let attr = self.checked_dir(dir, name)?;
        let ino = self.lookup(dir, name)?;
        let wants_directory = by == Removal::RemoveDir;
        check_removal(&attr, &self.attr(ino)?, wants_directory)?;
        if wants_directory && !self.entries(ino)?.by_name.is_empty() {
            let message = format!("{} is a directory with entries", quoted(name));
            return Err(FsError::new(FsErrorKind::NotEmpty, message));
        }
        self.clear_entry(dir, name, ino)?;
        self.drop_name(ino, now)?;
        self.touch(dir, now)
    }

    fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        now: Timestamp,
    ) -> Result<(), FsError> {
        if matches!(mode, RenameMode::Exchange | RenameMode::Whiteout) && !self.rules.rename_forms {
            let message = "this form of rename does not exist here";
            return Err(FsError::new(FsErrorKind::Invalid, message));
        }
        let old_dir = self.checked_dir(from.0, from.1)?;
        let new_dir = self.checked_dir(to.0, to.1)?;
        let source = self.attr(self.lookup(from.0, from.1)?)?;
        let target = self.lookup(to.0, to.1).ok().map(|ino| self.attr(ino)).transpose()?;
        let entries = target.as_ref().map(|target| self.entries(target.ino));
        let check = RenameCheck {
            old_dir: &old_dir,
            source: &source,
            new_dir: &new_dir,
            new_name: to.1,
            target: target.as_ref(),
            mode,
            into_itself: self.is_within(to.0, source.ino),
            onto_ancestor: target.as_ref().is_some_and(|target| self.is_within(from.0, target.ino)),
            target_has_entries: matches!(entries, Some(Ok(found)) if !found.by_name.is_empty()),
        };
        if check_rename(&check)? == RenameStep::Nothing {
            return Ok(());
        }
        self.clear_entry(from.0, from.1, source.ino)?;
        match &target {
            Some(target) if mode == RenameMode::Exchange => {
                self.clear_entry(to.0, to.1, target.ino)?;
                self.set_entry(from.0, from.1, target.ino)?;
                self.inode_mut(target.ino)?.attr.ctime = now;
            }
            Some(target) => {
                self.clear_entry(to.0, to.1, target.ino)?;
                self.drop_name(target.ino, now)?;
            }
            None => {}
        }
        self.set_entry(to.0, to.1, source.ino)?;
        if mode == RenameMode::Whiteout {
            let whiteout = self.make(&old_dir, &WHITEOUT, now)?;
            self.inode_mut(whiteout)?.attr.size = 0;
            self.set_entry(from.0, from.1, whiteout)?;
        }
        self.inode_mut(source.ino)?.attr.ctime = now;
        self.touch(from.0, now)?;
        self.touch(to.0, now)
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Timestamp) -> Result<(), FsError> {
        check_write(&self.attr(ino)?, offset, data.len(), self.rules.size_max)?;
        if data.is_empty() {
            return Ok(());
        }
        let inode = self.inode_mut(ino)?;
        if let Body::Regular(content) = &mut inode.body {
            content.write(offset, data);
        }
        inode.attr.size = inode.attr.size.max(offset + data.len() as u64);
        (inode.attr.mtime, inode.attr.ctime) = (now, now);
        Ok(())
    }

    fn set_attr(&mut self, ino: Ino, changes: &SetAttr, now: Timestamp) -> Result<(), FsError> {
        if changes.flags.is_some() && !self.rules.flags {
            return Err(FsError::new(FsErrorKind::Unsupported, "flags are not kept here"));
        }
        let granularity = self.rules.granularity_ns;
        let attr = self.attr(ino)?;
        check_set_attr(&attr, changes, self.rules.size_max)?;
        let mut changes = *changes;
        changes.atime = changes.atime.map(|time| round_time(time, granularity));
        changes.mtime = changes.mtime.map(|time| round_time(time, granularity));
        let inode = self.inode_mut(ino)?;
        if let (Some(size), Body::Regular(content)) = (changes.size, &mut inode.body) {
            content.cut(size);
        }
        inode.attr = changed_attr(&attr, &changes, now);
        Ok(())
    }

    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: Timestamp,
    ) -> Result<(), FsError> {
        let kind = self.changeable(ino)?;
        check_xattr_name(kind, name, XattrUse::Change)?;
        check_acl_value(name, value)?;
        check_xattr_value(value, self.rules.xattr_value_max)?;
        let list_max = self.rules.xattr_list_max;
        let inode = self.inode_mut(ino)?;
        let exists = inode.xattrs.contains_key(name);
        let listed: usize = inode.xattrs.keys().map(|name| name.len() + 1).sum();
        let refusal = match (mode, exists) {
            (XattrMode::Create, true) => Some(FsErrorKind::Exists),
            (XattrMode::Replace, false) => Some(FsErrorKind::NoAttribute),
            (_, false) if listed + name.len() + 1 > list_max => Some(FsErrorKind::NoSpace),
            _ => None,
        };
        if let Some(kind) = refusal {
            let message = format!("inode {ino}: attribute {} cannot be set", quoted(name));
            return Err(FsError::new(kind, message));
        }
        inode.xattrs.insert(name.to_vec(), value.into());
        inode.attr.ctime = now;
        Ok(())
    }

    fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Timestamp) -> Result<(), FsError> {
        let kind = self.changeable(ino)?;
        check_xattr_name(kind, name, XattrUse::Change)?;
        let inode = self.inode_mut(ino)?;
        if inode.xattrs.remove(name).is_none() {
            let message = format!("inode {ino}: no attribute {}", quoted(name));
            return Err(FsError::new(FsErrorKind::NoAttribute, message));
        }
        inode.attr.ctime = now;
        Ok(())
    }

    /// Returns the kind of an inode whose xattrs may change.
    fn changeable(&self, ino: Ino) -> Result<FileKind, FsError> {
        let attr = &self.inode(ino)?.attr;
        eraseblock_vfs::rules::check_changeable(attr)?;
        Ok(attr.kind)
    }

    fn release(&mut self, ino: Ino) -> Result<(), FsError> {
        let inode = self.inode_mut(ino)?;
        inode.opens = inode.opens.checked_sub(1).ok_or_else(|| {
            FsError::new(FsErrorKind::Invalid, format!("inode {ino}: is not open"))
        })?;
        self.collect(ino);
        Ok(())
    }
}

impl ModelFs {
    fn now(&self, now: Timestamp) -> Timestamp {
        round_time(now, self.shared().rules.granularity_ns)
    }
}

impl WritableFileSystem for ModelFs {
    fn create(
        &self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        by: &Caller,
    ) -> Result<Ino, FsError> {
        let now = self.now(by.now);
        self.change(|state| state.create(dir, name, inode, now))
    }

    fn create_unnamed(&self, dir: Ino, inode: &NewInode<'_>, by: &Caller) -> Result<Ino, FsError> {
        let now = self.now(by.now);
        self.change(|state| state.create_unnamed(dir, inode, now))
    }

    fn link(&self, ino: Ino, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        let now = self.now(by.now);
        self.change(|state| state.link(ino, dir, name, now))
    }

    fn unlink(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        let now = self.now(by.now);
        self.change(|state| state.remove(dir, name, Removal::Unlink, now))
    }

    fn remove_dir(&self, dir: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        let now = self.now(by.now);
        self.change(|state| state.remove(dir, name, Removal::RemoveDir, now))
    }

    fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        let now = self.now(by.now);
        self.change(|state| state.rename(from, to, mode, now))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], by: &Caller) -> Result<(), FsError> {
        let now = self.now(by.now);
        self.change(|state| state.write(ino, offset, data, now))
    }

    fn set_attr(&self, ino: Ino, changes: &SetAttr, by: &Caller) -> Result<(), FsError> {
        let now = self.now(by.now);
        self.change(|state| state.set_attr(ino, changes, now))
    }

    fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        by: &Caller,
    ) -> Result<(), FsError> {
        let now = self.now(by.now);
        self.change(|state| state.set_xattr(ino, name, value, mode, now))
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8], by: &Caller) -> Result<(), FsError> {
        let now = self.now(by.now);
        self.change(|state| state.remove_xattr(ino, name, now))
    }

    fn open(&self, ino: Ino) -> Result<(), FsError> {
        let mut state = self.exclusive();
        Arc::make_mut(&mut *state).inode_mut(ino)?.opens += 1;
        Ok(())
    }

    fn release(&self, ino: Ino) -> Result<(), FsError> {
        let mut state = self.exclusive();
        Arc::make_mut(&mut *state).release(ino)
    }

    fn sync_file(&self, ino: Ino) -> Result<(), FsError> {
        self.shared().inode(ino).map(|_| ())
    }

    fn sync(&self) -> Result<(), FsError> {
        Ok(())
    }

    fn background_step(&self) -> Result<Background, FsError> {
        Ok(Background::Idle)
    }

    fn become_read_only(&self) -> Result<(), FsError> {
        Arc::make_mut(&mut *self.exclusive()).read_only = true;
        Ok(())
    }

    fn become_writable(&self) -> Result<(), FsError> {
        Arc::make_mut(&mut *self.exclusive()).read_only = false;
        Ok(())
    }

    fn unmount(&self) -> Result<(), FsError> {
        let mut state = self.exclusive();
        let state = Arc::make_mut(&mut *state);
        state.drop_open();
        state.read_only = true;
        Ok(())
    }
}
