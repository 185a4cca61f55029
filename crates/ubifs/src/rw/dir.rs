//! Creates, links and removes names, and deletes inodes (layer 13; spec: ubifs-runtime 8, 9.2, 18).
//!
//! # Invariants
//! 1. A name and every inode that its change concerns are written in one group: after a cut either
//!    all of them changed or none.
//! 2. An inode is an orphan in memory before the removal of its last name is in the journal.

use super::budget::Request;
use super::core::Core;
use super::error::{Fault, Step};
use super::flash::align8;
use super::group::{Durable, Follow, Group, INODE_LEN, dent_len, inode_len};
use super::inode::{InodeState, ino_number};
use super::load::Owner;
use super::nodes::Unreadable;
use super::place::Written;
use super::wbuf::Head;
use crate::fs::entry_kind;
use eraseblock_ubifs_format::constants::{MAX_INODE_DATA, MAX_NAME_LEN};
use eraseblock_ubifs_format::key::VALUE_MASK;
use eraseblock_ubifs_format::node::{encode_device, file_type};
use eraseblock_ubifs_format::{Dent, EntryKind, Key};
use eraseblock_vfs::{Attr, FsErrorKind, Ino, NewInode, NewKind, Timestamp, rules};

/// The name in the journal for an inode created without one.
const NO_NAME: &[u8] = b"#";

pub(super) fn refused(kind: FsErrorKind, ino: u32, message: &str) -> Fault {
    Fault::fs(kind, format!("inode {ino}: {message}"))
}

/// The target of a directory entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) ino: u32,
    pub(super) kind: EntryKind,
}

/// What is removed with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Removal {
    /// Anything but a directory.
    File,
    Directory,
}

impl Core {
    pub(super) fn dent_key(&self, dir: u32, name: &[u8]) -> Key {
        Key::dent(dir, self.store.nodes.flash.sb.key_hash.hash(name))
    }

    /// Returns a directory for lookups.
    pub(super) fn directory(&mut self, dir: Ino) -> Step<u32> {
        let inode = self.visible(dir)?;
        let ino = inode.ino;
        if !inode.is_dir() {
            return Err(refused(FsErrorKind::NotADirectory, ino, "not a directory"));
        }
        Ok(ino)
    }

    /// Returns a directory in which `name` may change, and its attributes.
    pub(super) fn checked_dir(&mut self, dir: Ino, name: &[u8]) -> Step<(u32, Attr)> {
        self.check_mounted()?;
        let inode = self.visible(dir)?;
        let attr = inode.attr();
        let ino = inode.ino;
        rules::check_directory(&attr)?;
        rules::check_name(name, MAX_NAME_LEN)?;
        if attr.flags.encrypted {
            return Err(refused(FsErrorKind::NoKey, ino, "the directory is encrypted"));
        }
        Ok((ino, attr))
    }

    /// Returns the entry of a name.
    pub(super) fn entry(&mut self, dir: u32, name: &[u8]) -> Step<Option<Entry>> {
        let key = self.dent_key(dir, name);
        let entry = self
            .store
            .nodes
            .find_entry(key, name, |dent| Entry { ino: dent.ino, kind: dent.kind })?;
        if let Some(Entry { ino, kind: EntryKind::Directory }) = entry {
            self.inodes.set_parent(ino, dir);
        }
        Ok(entry)
    }

    pub(super) fn existing(&mut self, dir: u32, name: &[u8]) -> Step<Entry> {
        self.entry(dir, name)?.ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            refused(FsErrorKind::NotFound, dir, &format!("no entry `{name}`"))
        })
    }

    /// Fails if an entry must not be created.
    fn check_new(&mut self, dir: u32, attr: &Attr, name: &[u8]) -> Step<()> {
        let is_taken = self.entry(dir, name)?.is_some();
        Ok(rules::check_new_entry(attr, name, is_taken)?)
    }

    /// Changes a directory in memory: adds `bytes` to its size and `links` to its link count, and
    /// updates its times.
    pub(super) fn touch_dir(
        &mut self,
        dir: u32,
        bytes: i64,
        links: i32,
        now: Timestamp,
    ) -> Step<()> {
        let time = self.time(now);
        let inode = self.inode(dir)?;
        inode.size = inode.size.saturating_add_signed(bytes);
        inode.nlink = inode.nlink.saturating_add_signed(links);
        inode.mtime = time;
        inode.ctime = time;
        Ok(())
    }

    fn made_inode(&mut self, dir: u32, new: &NewInode<'_>, now: Timestamp) -> Step<InodeState> {
        let device = |major, minor| encode_device(major, minor).to_le_bytes().to_vec();
        let (kind, data) = match new.kind {
            NewKind::Regular => (file_type::REGULAR, Vec::new()),
            NewKind::Directory => (file_type::DIRECTORY, Vec::new()),
            NewKind::Symlink(target) => (file_type::SYMLINK, target.to_vec()),
            NewKind::BlockDevice(major, minor) => (file_type::BLOCK, device(major, minor)),
            NewKind::CharDevice(major, minor) => (file_type::CHAR, device(major, minor)),
            NewKind::Fifo => (file_type::FIFO, Vec::new()),
            NewKind::Socket => (file_type::SOCKET, Vec::new()),
        };
        let inherited = rules::inherit(&self.inode(dir)?.attr(), new);
        let mode = kind | inherited.permissions;
        self.new_inode(dir, mode, Owner { uid: new.uid, gid: inherited.gid }, data, now)
    }

    pub(super) fn create(
        &mut self,
        dir: Ino,
        name: &[u8],
        new: &NewInode<'_>,
        now: Timestamp,
    ) -> Step<u32> {
        let (dir, attr) = self.checked_dir(dir, name)?;
        self.check_new(dir, &attr, name)?;
        if let NewKind::Symlink(target) = new.kind {
            rules::check_target(target, MAX_INODE_DATA - 1)?;
        }
        let inline = match new.kind {
            NewKind::Symlink(target) => target.len() as u32,
            NewKind::BlockDevice(..) | NewKind::CharDevice(..) => 4,
            _ => 0,
        };
        let request = Request {
            new_inodes: 1,
            new_data: align8(inline),
            new_dents: 1,
            dirtied_inodes: 1,
            ..Request::default()
        };
        self.budget(&request)?;
        let result = self.create_promised(dir, name, new, now);
        self.settle(&request, result)
    }

    fn create_promised(
        &mut self,
        dir: u32,
        name: &[u8],
        new: &NewInode<'_>,
        now: Timestamp,
    ) -> Step<u32> {
        let inode = self.made_inode(dir, new, now)?;
        let len = dent_len(name) + align8(inode.node_len()) + INODE_LEN;
        self.store.reserve_in(Head::Base, len)?;
        let links = i32::from(inode.is_dir());
        self.touch_dir(dir, dent_len(name).into(), links, now)?;
        let ino = inode.ino;
        let kind = entry_kind(inode.kind());
        self.inodes.insert(inode);
        let written = self.write_names(dir, name, ino, Some(kind), &[ino, dir]);
        self.must(written, "create")?;
        self.inode_written(ino);
        self.inode_written(dir);
        if kind == EntryKind::Directory {
            self.inodes.set_parent(ino, dir);
        }
        Ok(ino)
    }

    /// Journals a name of `dir`, created with `kind` or deleted without it, followed by inodes, and
    /// updates the index. Space is already reserved.
    fn write_names(
        &mut self,
        dir: u32,
        name: &[u8],
        ino: u32,
        kind: Option<EntryKind>,
        inos: &[u32],
    ) -> Step<()> {
        let key = self.dent_key(dir, name);
        let mut group = Group::default();
        let cookie = self.store.nodes.cookie();
        let target = if kind.is_some() { ino } else { 0 };
        let gone = entry_kind(self.inode(ino)?.kind());
        let dent = Dent { key, ino: target, kind: kind.unwrap_or(gone), cookie, name };
        group.add_dent(self.nodes(), &dent)?;
        self.add_inodes(&mut group, inos)?;
        let durable = self.durable_for(inos)?;
        let written = group.write(self.nodes(), inos, durable)?;
        if kind.is_some() {
            self.store.nodes.add_entry(key, name, written[0], Unreadable::Fails)?;
        } else {
            self.store.nodes.remove_entry(key, name, Unreadable::Fails)?;
            self.store.nodes.waste(&written[0])?;
        }
        self.index_inodes(inos, &written[1..])
    }

    /// Adds the nodes of inodes to the end of a group.
    pub(super) fn add_inodes(&mut self, group: &mut Group, inos: &[u32]) -> Step<()> {
        for (index, ino) in inos.iter().enumerate() {
            let inode = self.inode(*ino)?.clone();
            let follow = Follow::of(index, inos.len());
            group.add_inode(self.nodes(), &inode.node(), follow)?;
        }
        Ok(())
    }

    /// Adds the inodes of a written group to the index.
    pub(super) fn index_inodes(&mut self, inos: &[u32], written: &[Written]) -> Step<()> {
        for (ino, node) in inos.iter().zip(written) {
            self.store.nodes.add_leaf(Key::inode(*ino), *node)?;
        }
        Ok(())
    }

    /// Returns when a group with these inodes becomes durable.
    pub(super) fn durable_for(&mut self, inos: &[u32]) -> Step<Durable> {
        for ino in inos {
            if self.inode(*ino)?.is_sync() {
                return Ok(Durable::Now);
            }
        }
        Ok(self.durable(Durable::Later))
    }

    /// Makes an inode an orphan.
    pub(super) fn add_orphan(&mut self, ino: u32) -> Step<()> {
        self.store.orphans.add(&self.store.nodes.flash, ino)
    }

    /// Creates a regular file without a name (spec: ubifs-runtime 8.2).
    pub(super) fn create_unnamed(
        &mut self,
        dir: Ino,
        new: &NewInode<'_>,
        now: Timestamp,
    ) -> Step<u32> {
        let (dir, attr) = self.checked_dir(dir, NO_NAME)?;
        if new.kind != NewKind::Regular {
            return Err(refused(FsErrorKind::Invalid, dir, "only regular files have no name"));
        }
        rules::check_growth(&attr)?;
        let request =
            Request { new_inodes: 1, new_dents: 1, dirtied_inodes: 2, ..Request::default() };
        self.budget(&request)?;
        let result = self.create_unnamed_promised(dir, new, now);
        self.settle(&request, result)
    }

    fn create_unnamed_promised(
        &mut self,
        dir: u32,
        new: &NewInode<'_>,
        now: Timestamp,
    ) -> Step<u32> {
        let mut inode = self.made_inode(dir, new, now)?;
        inode.nlink = 0;
        inode.opens = 1;
        inode.never_named = true;
        let ino = inode.ino;
        self.store.reserve_in(Head::Base, dent_len(NO_NAME) + 2 * INODE_LEN)?;
        inode.del_cmtno = self.store.cmt_no;
        self.add_orphan(ino)?;
        self.inodes.insert(inode);
        let result = self.write_names(dir, NO_NAME, ino, None, &[ino, dir]);
        self.must(result, "create")?;
        self.inode_written(ino);
        self.inode_written(dir);
        Ok(ino)
    }

    pub(super) fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Timestamp) -> Step<()> {
        let inode = self.visible(ino)?;
        let (ino, linked, never_named) = (inode.ino, inode.attr(), inode.never_named);
        let inline = inode.data.len() as u32;
        let (dir, attr) = self.checked_dir(dir, name)?;
        self.check_new(dir, &attr, name)?;
        let origin =
            if never_named { rules::LinkOrigin::Unnamed } else { rules::LinkOrigin::Named };
        rules::check_link(&linked, origin, u32::MAX)?;
        let request = Request {
            new_dents: 1,
            dirtied_inodes: 2,
            dirtied_data: align8(inline),
            ..Request::default()
        };
        self.budget(&request)?;
        let result = self.link_promised(ino, dir, name, now);
        self.settle(&request, result)
    }

    fn link_promised(&mut self, ino: u32, dir: u32, name: &[u8], now: Timestamp) -> Step<()> {
        let len = dent_len(name) + inode_len(self.inode(ino)?.data.len()) + INODE_LEN;
        self.store.reserve_in(Head::Base, len)?;
        let time = self.time(now);
        let inode = self.inode(ino)?;
        let kind = entry_kind(inode.kind());
        inode.nlink += 1;
        inode.never_named = false;
        inode.ctime = time;
        self.touch_dir(dir, dent_len(name).into(), 0, now)?;
        let result = self.write_names(dir, name, ino, Some(kind), &[ino, dir]);
        self.must(result, "link")?;
        self.inode_written(ino);
        self.inode_written(dir);
        self.store.orphans.remove(ino);
        Ok(())
    }

    pub(super) fn unlink(
        &mut self,
        dir: Ino,
        name: &[u8],
        removal: Removal,
        now: Timestamp,
    ) -> Step<()> {
        let (dir, attr) = self.checked_dir(dir, name)?;
        let entry = self.existing(dir, name)?;
        let is_dir = removal == Removal::Directory;
        rules::check_removal(&attr, &self.inode(entry.ino)?.attr(), is_dir)?;
        if is_dir {
            self.check_empty(entry.ino)?;
        }
        let request = Request { changed_dents: 1, dirtied_inodes: 2, ..Request::default() };
        // Deleting is possible on a full volume, too (8.8).
        let is_promised = match self.budget(&request) {
            Ok(()) => true,
            Err(fault) if fault.is_no_space() => false,
            Err(fault) => return Err(fault),
        };
        let result = self.unlink_promised(dir, name, entry.ino, is_dir, now);
        if is_promised { self.settle(&request, result) } else { result }
    }

    pub(super) fn check_empty(&mut self, dir: u32) -> Step<()> {
        if self.store.nodes.has_keys(Key::dent(dir, 0), Key::dent(dir, VALUE_MASK))? {
            return Err(refused(FsErrorKind::NotEmpty, dir, "the directory is not empty"));
        }
        Ok(())
    }

    fn unlink_promised(
        &mut self,
        dir: u32,
        name: &[u8],
        ino: u32,
        is_dir: bool,
        now: Timestamp,
    ) -> Step<()> {
        let len = dent_len(name) + inode_len(self.inode(ino)?.data.len()) + INODE_LEN;
        self.store.reserve_in(Head::Base, len)?;
        let is_last = self.drop_link(ino, now)?;
        // An orphan before the deletion is in the journal: if a commit drops that journal, only the
        // orphan area leads a mount after a cut to the inode.
        if is_last && let Err(fault) = self.add_orphan(ino) {
            self.restore_link(ino)?;
            return Err(fault);
        }
        let bytes = -i64::from(dent_len(name));
        self.touch_dir(dir, bytes, -i32::from(is_dir), now)?;
        let result = self.write_names(dir, name, ino, None, &[ino, dir]);
        self.must(result, "unlink")?;
        self.inodes.forget_parent(ino);
        self.inode_written(dir);
        self.inode_written(ino);
        self.end_if_unused(ino)
    }

    /// Decrements the link count of an inode in memory; returns whether it was the last link.
    pub(super) fn drop_link(&mut self, ino: u32, now: Timestamp) -> Step<bool> {
        let (time, cmt_no) = (self.time(now), self.store.cmt_no);
        let inode = self.inode(ino)?;
        inode.nlink = if inode.is_dir() { 0 } else { inode.nlink.saturating_sub(1) };
        inode.ctime = time;
        if inode.nlink == 0 {
            inode.del_cmtno = cmt_no;
        }
        Ok(inode.nlink == 0)
    }

    /// Gives the last link back to an inode whose deletion is refused.
    pub(super) fn restore_link(&mut self, ino: u32) -> Step<()> {
        let inode = self.inode(ino)?;
        inode.nlink = if inode.is_dir() { 2 } else { 1 };
        Ok(())
    }

    /// Deletes an inode that has no name and is not open.
    pub(super) fn end_if_unused(&mut self, ino: u32) -> Step<()> {
        let inode = self.inode(ino)?;
        if inode.nlink > 0 || inode.opens > 0 {
            return Ok(());
        }
        self.delete_inode(ino)
    }

    /// Deletes an inode (spec: ubifs-runtime 8.9).
    fn delete_inode(&mut self, ino: u32) -> Step<()> {
        let blocks: Vec<u32> = self.pages.blocks(ino, 0).collect();
        for block in blocks {
            if let Some(promise) = self.pages.remove(ino, block) {
                self.cancel(&promise);
            }
        }
        let inode = self.inode(ino)?.clone();
        let has_xattrs = inode.xattr_cnt > 0;
        if has_xattrs || inode.del_cmtno != self.store.cmt_no {
            let most = (self.store.nodes.flash.leb_size / 2 / INODE_LEN).saturating_sub(2) as usize;
            let values = self.store.nodes.xattr_inodes(ino)?;
            // Only old kernels left more xattrs than a group can delete.
            for values in values.chunks(most.max(1)) {
                self.write_deletion(&inode, values)?;
            }
            if values.is_empty() {
                self.write_deletion(&inode, &[])?;
            }
        }
        let result = self.store.nodes.remove_inode_keys(ino);
        self.must(result, "deletion")?;
        self.store.orphans.remove(ino);
        if let Some(promise) = self.inodes.remove(ino).and_then(|inode| inode.promise) {
            self.release(&promise);
        }
        Ok(())
    }

    /// Journals the deletion of an inode and of those that hold its extended attributes.
    fn write_deletion(&mut self, inode: &InodeState, values: &[u32]) -> Step<()> {
        self.store.reserve_in(Head::Base, INODE_LEN * (values.len() as u32 + 1))?;
        if values.is_empty() && inode.xattr_cnt == 0 && inode.del_cmtno == self.store.cmt_no {
            return Ok(());
        }
        let mut group = Group::default();
        for value in values {
            let mut value = self.inode(*value)?.clone();
            value.nlink = 0;
            group.add_inode(self.nodes(), &value.node(), Follow::More)?;
        }
        group.add_inode(self.nodes(), &inode.node(), Follow::Last)?;
        let durable = self.durable(Durable::now_if(inode.is_sync()));
        let result = group.write(self.nodes(), &[inode.ino], durable);
        let result = result.and_then(|written| {
            for node in &written {
                self.store.nodes.waste(node)?;
            }
            Ok(())
        });
        self.must(result, "deletion")?;
        for value in values {
            self.inodes.remove(*value);
        }
        Ok(())
    }

    pub(super) fn open(&mut self, ino: Ino) -> Step<()> {
        let inode = self.visible(ino)?;
        inode.opens = inode.opens.saturating_add(1);
        Ok(())
    }

    pub(super) fn release_open(&mut self, ino: Ino) -> Step<()> {
        let number = ino_number(ino)?;
        let inode = self.inode(number)?;
        if inode.opens == 0 {
            return Err(refused(FsErrorKind::Invalid, number, "is not open"));
        }
        inode.opens -= 1;
        if inode.opens > 0 || inode.nlink > 0 || self.is_read_only {
            return Ok(());
        }
        self.delete_inode(number)
    }
}
