//! Names: creation, links, removal, renames (spec: yaffs2 5, 5.1).
//!
//! One header decides whether a name is there. What else changes, such as the times of the directory,
//! is written before it: a power cut leaves the old names or the new ones with all that belongs to
//! them.
//!
//! Layer: above `core`.

use super::core::{Core, Flags, Purpose, nameless};
use crate::objects::Object;
use crate::tree::Entry;
use eraseblock_vfs::rules::{
    LinkOrigin, RenameCheck, RenameStep, check_link, check_name, check_new_entry, check_removal,
    check_rename, check_target, inherit,
};
use eraseblock_vfs::{
    Attr, FileKind, FileSystem, FsError, FsErrorKind, Ino, NewInode, NewKind, RenameMode,
};
use eraseblock_yaffs_format::constants::{MAX_TARGET_LEN, object};
use eraseblock_yaffs_format::{Header, ObjectKind};

/// The longest name: the reference stores no more.
pub(crate) const MAX_NAME: usize = 254;

/// What may be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Removal {
    /// An empty directory.
    Directory,
    /// Anything else.
    NoDirectory,
}

fn missing(dir: Ino, name: &[u8]) -> FsError {
    let name = String::from_utf8_lossy(name);
    FsError::new(FsErrorKind::NotFound, format!("inode {dir}: no entry `{name}`"))
}

/// Returns the type, the type bits of the mode, the target and the device number of a new object.
fn parts(kind: NewKind<'_>) -> Result<(ObjectKind, FileKind, Vec<u8>, u32), FsError> {
    let device = |major: u32, minor: u32| {
        let fits = major <= 0xFF && minor <= 0xFF;
        fits.then_some(major << 8 | minor).ok_or_else(|| {
            let message = format!("device {major}:{minor}, expected at most 255:255");
            FsError::new(FsErrorKind::Invalid, message)
        })
    };
    let special = ObjectKind::Special;
    Ok(match kind {
        NewKind::Regular => (ObjectKind::File, FileKind::Regular, Vec::new(), 0),
        NewKind::Directory => (ObjectKind::Directory, FileKind::Directory, Vec::new(), 0),
        NewKind::Symlink(target) => {
            check_target(target, MAX_TARGET_LEN)?;
            (ObjectKind::Symlink, FileKind::Symlink, target.to_vec(), 0)
        }
        NewKind::BlockDevice(major, minor) => {
            (special, FileKind::BlockDevice, Vec::new(), device(major, minor)?)
        }
        NewKind::CharDevice(major, minor) => {
            (special, FileKind::CharDevice, Vec::new(), device(major, minor)?)
        }
        NewKind::Fifo => (special, FileKind::Fifo, Vec::new(), 0),
        NewKind::Socket => (special, FileKind::Socket, Vec::new(), 0),
    })
}

impl Core {
    /// Returns the attributes of a directory after a look at a name in it.
    fn checked_dir(&self, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        let attr = self.fs.attr(dir)?;
        eraseblock_vfs::rules::check_directory(&attr)?;
        check_name(name, MAX_NAME)?;
        Ok(attr)
    }

    /// Returns a number that no object has, if possible one that none had.
    fn new_id(&self) -> Result<u32, FsError> {
        let all = &self.fs.objects.all;
        let last = all.last_key_value().map_or(0, |(id, _)| *id);
        let fresh = (last.max(object::FIRST - 1) + 1..=object::MAX).next();
        let id = fresh.or_else(|| (object::FIRST..object::MAX).find(|id| !all.contains_key(id)));
        id.ok_or_else(|| FsError::new(FsErrorKind::NoSpace, "no object number is left"))
    }

    /// Adds an object to memory and flash.
    fn add_object(&mut self, header: &Header) -> Result<u32, FsError> {
        let id = self.new_id()?;
        let mut object = Object::unknown(header.kind);
        (object.parent, object.equivalent) = (header.parent, header.equivalent);
        object.is_settled = true;
        self.fs.objects.all.insert(id, object);
        let made = self.change_header(id, Flags::default(), None, &|it| *it = header.clone());
        if made.is_err() {
            self.fs.objects.all.remove(&id);
        }
        made.map(|()| id)
    }

    /// Sets the times of a directory whose entries changed.
    fn touch(&mut self, dir: u32, now: u64) -> Result<(), FsError> {
        self.change_header(dir, Flags::default(), None, &|it| (it.mtime, it.ctime) = (now, now))
    }

    fn stamp(&mut self, id: u32, now: u64) -> Result<(), FsError> {
        self.change_header(id, Flags::default(), None, &|it| it.ctime = now)
    }

    pub(crate) fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        inode: &NewInode<'_>,
        now: u64,
    ) -> Result<Ino, FsError> {
        let parent = self.checked_dir(dir, name)?;
        let dir = dir as u32;
        check_new_entry(&parent, name, self.entry(dir, name).is_some())?;
        let (kind, file_kind, target, rdev) = parts(inode.kind)?;
        let inherited = inherit(&parent, inode);
        self.begin(2, Purpose::Growth)?;
        self.touch(dir, now)?;
        let id = self.add_object(&Header {
            name: name.to_vec(),
            parent: dir,
            mode: file_kind.mode_bits() | inherited.permissions,
            uid: inode.uid,
            gid: inherited.gid,
            atime: now,
            mtime: now,
            ctime: now,
            target,
            rdev,
            ..nameless(0, &Object::unknown(kind))
        })?;
        self.fs.tree.links.insert(id, 1);
        self.add_name(dir, name, id, id);
        Ok(id.into())
    }

    pub(crate) fn link(
        &mut self,
        ino: Ino,
        dir: Ino,
        name: &[u8],
        now: u64,
    ) -> Result<(), FsError> {
        let parent = self.checked_dir(dir, name)?;
        let inode = self.fs.attr(ino)?;
        let (dir, id) = (dir as u32, ino as u32);
        check_new_entry(&parent, name, self.entry(dir, name).is_some())?;
        check_link(&inode, LinkOrigin::Named, u32::MAX)?;
        self.begin(3, Purpose::Growth)?;
        self.touch(dir, now)?;
        self.stamp(id, now)?;
        let link = self.add_link(dir, name, id)?;
        self.add_name(dir, name, link, id);
        self.fs.tree.links.entry(id).and_modify(|links| *links += 1);
        Ok(())
    }

    /// Adds an object that links to another one.
    fn add_link(&mut self, dir: u32, name: &[u8], target: u32) -> Result<u32, FsError> {
        self.add_object(&Header {
            name: name.to_vec(),
            parent: dir,
            mode: 0,
            equivalent: target,
            ..nameless(0, &Object::unknown(ObjectKind::HardLink))
        })
    }

    /// Removes a name, with the object if it was the last one and the object is not open.
    pub(crate) fn remove(
        &mut self,
        dir: Ino,
        name: &[u8],
        now: u64,
        removal: Removal,
    ) -> Result<(), FsError> {
        let parent = self.checked_dir(dir, name)?;
        let (ino, dir) = (dir, dir as u32);
        let wants_directory = removal == Removal::Directory;
        let entry = self.entry(dir, name).cloned().ok_or_else(|| missing(ino, name))?;
        check_removal(&parent, &self.fs.attr(entry.id.into())?, wants_directory)?;
        if wants_directory && self.has_entries(entry.id) {
            let message = format!("inode {}: is a directory with entries", entry.id);
            return Err(FsError::new(FsErrorKind::NotEmpty, message));
        }
        self.begin(4, Purpose::Deletion)?;
        self.touch(dir, now)?;
        self.drop_entry(dir, &entry, now)
    }

    fn has_entries(&self, dir: u32) -> bool {
        self.fs.tree.directories.get(&dir).is_some_and(|entries| !entries.is_empty())
    }

    /// Ends a name on flash and in memory.
    fn drop_entry(&mut self, dir: u32, entry: &Entry, now: u64) -> Result<(), FsError> {
        let Entry { name, id, own: entry } = entry;
        let links = self.fs.tree.links.get(id).copied().unwrap_or(1);
        if entry != id {
            self.stamp(*id, now)?;
            self.put_deletion(*entry)?;
            self.fs.tree.links.insert(*id, links - 1);
        } else if links > 1 {
            self.take_over(*id, now)?;
            self.fs.tree.links.insert(*id, links - 1);
        } else if self.open.contains_key(id) {
            if let Some(object) = self.fs.objects.all.get_mut(id) {
                object.parent = object::UNLINKED;
            }
            self.fs.tree.links.insert(*id, 0);
            self.change_header(*id, Flags::default(), None, &|it| {
                it.name = b"unlinked".to_vec();
                it.ctime = now;
            })?;
        } else {
            self.put_deletion(*id)?;
        }
        self.remove_name(dir, name);
        Ok(())
    }

    /// Moves an object to the place of its youngest hard link, which ends. A power cut between the
    /// two headers leaves both at one place, which a mount resolves.
    fn take_over(&mut self, id: u32, now: u64) -> Result<(), FsError> {
        let is_link =
            |object: &Object| object.kind == ObjectKind::HardLink && object.equivalent == id;
        let links = self.fs.objects.all.iter().rev().filter(|(_, object)| is_link(object));
        let place = links.filter_map(|(link, object)| {
            let entries = self.fs.tree.directories.get(&object.parent)?;
            let entry = entries.iter().find(|it| it.own == *link)?;
            Some((object.parent, entry.clone()))
        });
        let (dir, place) = { place }.next().ok_or_else(|| {
            FsError::new(FsErrorKind::Corrupted, format!("inode {id}: its links are not found"))
        })?;
        if let Some(object) = self.fs.objects.all.get_mut(&id) {
            object.parent = dir;
        }
        self.change_header(id, Flags::default(), None, &|it| {
            it.name.clone_from(&place.name);
            it.ctime = now;
        })?;
        self.put_deletion(place.own)?;
        self.remove_name(dir, &place.name);
        self.add_name(dir, &place.name, id, id);
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        now: u64,
    ) -> Result<(), FsError> {
        if matches!(mode, RenameMode::Exchange | RenameMode::Whiteout) {
            let message = "YAFFS cannot exchange names and has no whiteouts";
            return Err(FsError::new(FsErrorKind::Invalid, message));
        }
        let old_dir = self.checked_dir(from.0, from.1)?;
        let new_dir = self.checked_dir(to.0, to.1)?;
        let source = self.entry(from.0 as u32, from.1).cloned();
        let source = source.ok_or_else(|| missing(from.0, from.1))?;
        let target = self.entry(to.0 as u32, to.1).cloned();
        let target_attr = target.as_ref().map(|it| self.fs.attr(it.id.into())).transpose()?;
        let check = RenameCheck {
            old_dir: &old_dir,
            source: &self.fs.attr(source.id.into())?,
            new_dir: &new_dir,
            new_name: to.1,
            target: target_attr.as_ref(),
            mode,
            into_itself: self.is_within(to.0 as u32, source.id),
            onto_ancestor: target.as_ref().is_some_and(|it| self.is_within(from.0 as u32, it.id)),
            target_has_entries: target.as_ref().is_some_and(|it| self.has_entries(it.id)),
        };
        if check_rename(&check)? == RenameStep::Nothing {
            return Ok(());
        }
        self.begin(12, Purpose::Growth)?;
        let (old, new) = (from.0 as u32, to.0 as u32);
        let is_link = source.own != source.id;
        self.touch(old, now)?;
        if old != new {
            self.touch(new, now)?;
        }
        if is_link {
            self.stamp(source.id, now)?;
        }
        if let Some(target) = target.as_ref().filter(|target| target.own != target.id) {
            self.stamp(target.id, now)?;
        }
        let target = target.map(|it| self.only_name(new, it, now)).transpose()?;
        // With the name of its victim in the same header, the rename happens at once.
        let shadows = target.as_ref().map_or(0, |it| it.own);
        if let Some(object) = self.fs.objects.all.get_mut(&source.own) {
            object.parent = new;
        }
        let flags = Flags { shadows, ..Flags::default() };
        let renamed = |it: &mut Header| {
            it.name = to.1.to_vec();
            it.ctime = if is_link { it.ctime } else { now };
        };
        self.change_header(source.own, flags, None, &renamed)?;
        if let Some(target) = target {
            self.drop_entry(new, &target, now)?;
            // Only now may the header lose the victim's name.
            self.change_header(source.own, Flags::default(), None, &|_| {})?;
        }
        self.remove_name(old, from.1);
        self.add_name(new, to.1, source.own, source.id);
        Ok(())
    }

    /// Returns the entry for a name that is about to be replaced, as one that no other name depends
    /// on: a power cut after the header that replaces an object voids it with all its names. So an
    /// object with other names leaves a link in its place first.
    fn only_name(&mut self, dir: u32, entry: Entry, now: u64) -> Result<Entry, FsError> {
        let links = self.fs.tree.links.get(&entry.id).copied().unwrap_or(1);
        if entry.own != entry.id || links < 2 {
            return Ok(entry);
        }
        let link = self.add_link(dir, &entry.name, entry.id)?;
        self.take_over(entry.id, now)?;
        self.remove_name(dir, &entry.name);
        self.add_name(dir, &entry.name, link, entry.id);
        Ok(Entry { own: link, ..entry })
    }

    /// Returns whether a directory is another one or lies in it.
    fn is_within(&self, mut dir: u32, ancestor: u32) -> bool {
        // More steps than objects would be a cycle.
        for _ in 0..=self.fs.objects.all.len() {
            if dir == ancestor {
                return true;
            }
            match self.fs.objects.all.get(&dir) {
                Some(object) if dir != object::ROOT => dir = object.parent,
                _ => return false,
            }
        }
        false
    }

    /// Ends an object without names when it is closed.
    pub(crate) fn release(&mut self, ino: Ino) -> Result<(), FsError> {
        let id = ino as u32;
        let Some(count) = self.open.get_mut(&id) else {
            return Err(FsError::new(FsErrorKind::Invalid, format!("inode {ino}: is not open")));
        };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        self.open.remove(&id);
        if self.fs.tree.links.get(&id) != Some(&0) {
            return Ok(());
        }
        self.begin(1, Purpose::Deletion)?;
        self.put_deletion(id)
    }
}
