//! Renames, in all forms, as one group of the journal (layer 13; spec: ubifs-runtime 8.2, 8.5,
//! 8.6).
//!
//! # Invariants
//! 1. Both names, the directories and a replaced inode are written in one group: after a cut the
//!    file has its old name or its new one.

use super::budget::Request;
use super::core::Core;
use super::dir::Entry;
use super::error::Step;
use super::flash::align8;
use super::group::{Durable, Group, INODE_LEN, dent_len, inode_len};
use super::load::Owner;
use super::nodes::Unreadable;
use super::wbuf::Head;
use crate::fs::entry_kind;
use eraseblock_ubifs_format::constants::ROOT_INO;
use eraseblock_ubifs_format::key::VALUE_MASK;
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::{Dent, EntryKind, Key};
use eraseblock_vfs::rules::{self, RenameCheck, RenameStep};
use eraseblock_vfs::{Ino, NewInode, NewKind, RenameMode, Timestamp};

/// Number of parents to follow upwards before searching downwards.
const DEEPEST: u32 = 4096;

/// Bytes of the inline data of a device.
const DEVICE: usize = 4;

/// One side of a rename.
#[derive(Clone, Copy, Debug)]
struct Side<'a> {
    dir: u32,
    name: &'a [u8],
}

/// A rename that is allowed.
#[derive(Clone, Copy, Debug)]
struct Move<'a> {
    from: Side<'a>,
    to: Side<'a>,
    moved: Entry,
    replaced: Option<Entry>,
    whiteout: bool,
    now: Timestamp,
}

impl Core {
    pub(super) fn rename(
        &mut self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
        now: Timestamp,
    ) -> Step<()> {
        let (from_dir, old_dir) = self.checked_dir(from.0, from.1)?;
        let (to_dir, new_dir) = self.checked_dir(to.0, to.1)?;
        let from = Side { dir: from_dir, name: from.1 };
        let to = Side { dir: to_dir, name: to.1 };
        let moved = self.existing(from.dir, from.name)?;
        let replaced = self.entry(to.dir, to.name)?;
        let source = self.inode(moved.ino)?.attr();
        let target = match replaced {
            Some(other) => Some(self.inode(other.ino)?.attr()),
            None => None,
        };
        let check = RenameCheck {
            old_dir: &old_dir,
            source: &source,
            new_dir: &new_dir,
            new_name: to.name,
            target: target.as_ref(),
            mode,
            into_itself: self.is_or_contains(moved.ino, to.dir)?,
            onto_ancestor: match replaced {
                Some(other) => self.is_or_contains(other.ino, from.dir)?,
                None => false,
            },
            target_has_entries: match replaced {
                Some(other) => self
                    .store
                    .nodes
                    .has_keys(Key::dent(other.ino, 0), Key::dent(other.ino, VALUE_MASK))?,
                None => false,
            },
        };
        if rules::check_rename(&check)? == RenameStep::Nothing {
            return Ok(());
        }
        if mode == RenameMode::Exchange {
            let other = replaced.expect("the rules refuse an exchange with nothing");
            return self.exchange(from, to, (moved, other), now);
        }
        let whiteout = mode == RenameMode::Whiteout;
        self.rename_over(&Move { from, to, moved, replaced, whiteout, now })
    }

    /// Returns whether an inode is `dir` or a directory above it.
    fn is_or_contains(&mut self, ino: u32, dir: u32) -> Step<bool> {
        Ok(ino == dir || (self.inode(ino)?.is_dir() && self.is_below(dir, ino)?))
    }

    /// Returns whether `dir` lies below `ancestor`: follows known parents up from `dir`, and if one
    /// is unknown, searches down from `ancestor`.
    fn is_below(&mut self, dir: u32, ancestor: u32) -> Step<bool> {
        let mut above = dir;
        // Damaged directories may form a cycle.
        for _ in 0..DEEPEST {
            match self.inodes.parent(above) {
                Some(parent) if parent == ancestor => return Ok(true),
                Some(ROOT_INO) => return Ok(false),
                Some(parent) => above = parent,
                None if above == ROOT_INO => return Ok(false),
                None => break,
            }
        }
        self.is_found_below(dir, ancestor)
    }

    /// Like [`Self::is_below`], without known parents.
    fn is_found_below(&mut self, dir: u32, ancestor: u32) -> Step<bool> {
        let mut left = vec![ancestor];
        let mut buf = Vec::new();
        while let Some(next) = left.pop() {
            // A directory without sub-directories need not be searched.
            if self.inode(next)?.nlink <= 2 {
                continue;
            }
            let mut branches = Vec::new();
            let last = Key::dent(next, VALUE_MASK);
            self.store.nodes.scan(Key::dent(next, 0), last, &mut |branch| {
                branches.push(*branch);
                true
            })?;
            for branch in branches {
                let dent = self.store.nodes.leaf(&branch, &mut buf)?.dent()?;
                if dent.kind == EntryKind::Directory {
                    let child = dent.ino;
                    self.inodes.set_parent(child, next);
                    if child == dir {
                        return Ok(true);
                    }
                    left.push(child);
                }
            }
        }
        Ok(false)
    }

    fn rename_over(&mut self, this: &Move<'_>) -> Step<()> {
        let replaced_data = match this.replaced {
            Some(other) => align8(self.inode(other.ino)?.data.len() as u32),
            None => 0,
        };
        let request = Request {
            new_dents: 1,
            changed_dents: 1,
            dirtied_inodes: 3,
            dirtied_data: replaced_data,
            new_inodes: u32::from(this.whiteout),
            new_data: if this.whiteout { align8(DEVICE as u32) } else { 0 },
            ..Request::default()
        };
        self.budget_dirty(&request, &[this.moved.ino])?;
        let result = self.rename_promised(this);
        self.settle(&request, result)?;
        if let Some(other) = this.replaced {
            self.end_if_unused(other.ino)?;
        }
        if self.inode(this.moved.ino)?.is_sync() {
            self.write_inode(this.moved.ino, Durable::Now)?;
        }
        Ok(())
    }

    fn rename_promised(&mut self, this: &Move<'_>) -> Step<()> {
        let Move { from, to, moved, replaced, now, .. } = *this;
        let is_dir = self.inode(moved.ino)?.is_dir();
        let whiteout = if this.whiteout { Some(self.whiteout(from.dir, now)?) } else { None };
        let mut len = dent_len(to.name) + dent_len(from.name) + 2 * INODE_LEN;
        if let Some(other) = replaced {
            len += inode_len(self.inode(other.ino)?.data.len());
        }
        len += if whiteout.is_some() { inode_len(DEVICE) } else { 0 };
        self.store.reserve_in(Head::Base, len)?;
        if let Some(other) = replaced
            && self.drop_link(other.ino, now)?
            && let Err(fault) = self.add_orphan(other.ino)
        {
            self.restore_link(other.ino)?;
            return Err(fault);
        }
        let time = self.time(now);
        self.inode(moved.ino)?.ctime = time;
        self.touch_for_rename(this, is_dir)?;
        let mut inos = Vec::new();
        inos.extend(replaced.map(|other| other.ino));
        let whiteout = whiteout.map(|inode| {
            let ino = inode.ino;
            self.inodes.insert(inode);
            inos.push(ino);
            ino
        });
        inos.push(from.dir);
        if to.dir != from.dir {
            inos.push(to.dir);
        }
        let result = self.write_rename(this, whiteout, &inos);
        self.must(result, "rename")?;
        if is_dir {
            self.inodes.set_parent(moved.ino, to.dir);
        }
        if let Some(other) = replaced {
            self.inodes.forget_parent(other.ino);
        }
        for ino in inos {
            self.inode_written(ino);
        }
        Ok(())
    }

    /// Returns a character device 0:0, which hides the name in layers below; it gets the group of
    /// any new inode.
    fn whiteout(&mut self, dir: u32, now: Timestamp) -> Step<super::inode::InodeState> {
        let kind = NewKind::CharDevice(0, 0);
        let new = NewInode { kind, permissions: 0, uid: 0, gid: 0 };
        let inherited = rules::inherit(&self.inode(dir)?.attr(), &new);
        let owner = Owner { uid: new.uid, gid: inherited.gid };
        let mut inode = self.new_inode(dir, file_type::CHAR, owner, vec![0; DEVICE], now)?;
        inode.size = 0;
        Ok(inode)
    }

    /// Updates sizes, link counts and times of the directories (8.5).
    fn touch_for_rename(&mut self, this: &Move<'_>, is_dir: bool) -> Step<()> {
        let Move { from, to, replaced, whiteout, now, .. } = *this;
        let gone = if whiteout { 0 } else { i64::from(dent_len(from.name)) };
        let new = if replaced.is_some() { 0 } else { i64::from(dent_len(to.name)) };
        let is_move = from.dir != to.dir;
        let loses_link = is_dir && (is_move || replaced.is_some());
        let gains_link = is_dir && is_move && replaced.is_none();
        self.touch_dir(from.dir, -gone, -i32::from(loses_link), now)?;
        self.touch_dir(to.dir, new, i32::from(gains_link), now)
    }

    fn write_rename(&mut self, this: &Move<'_>, whiteout: Option<u32>, inos: &[u32]) -> Step<()> {
        let Move { from, to, moved, .. } = *this;
        let new_key = self.dent_key(to.dir, to.name);
        let old_key = self.dent_key(from.dir, from.name);
        let kind = entry_kind(self.inode(moved.ino)?.kind());
        let mut group = Group::default();
        let cookie = self.store.nodes.cookie();
        let dent = Dent { key: new_key, ino: moved.ino, kind, cookie, name: to.name };
        group.add_dent(self.nodes(), &dent)?;
        let cookie = self.store.nodes.cookie();
        let kind = if whiteout.is_some() { EntryKind::CharDevice } else { EntryKind::Regular };
        let ino = whiteout.unwrap_or(0);
        group.add_dent(self.nodes(), &Dent { key: old_key, ino, kind, cookie, name: from.name })?;
        self.add_inodes(&mut group, inos)?;
        let durable = self.durable_for(inos)?;
        let written = group.write(self.nodes(), inos, durable)?;
        self.store.nodes.add_entry(new_key, to.name, written[0], Unreadable::Fails)?;
        if whiteout.is_some() {
            self.store.nodes.add_entry(old_key, from.name, written[1], Unreadable::Fails)?;
        } else {
            self.store.nodes.remove_entry(old_key, from.name, Unreadable::Fails)?;
            self.store.nodes.waste(&written[1])?;
        }
        self.index_inodes(inos, &written[2..])
    }

    fn exchange(
        &mut self,
        from: Side<'_>,
        to: Side<'_>,
        (moved, other): (Entry, Entry),
        now: Timestamp,
    ) -> Step<()> {
        if (from.dir, from.name) == (to.dir, to.name) {
            return Ok(());
        }
        let request =
            Request { new_dents: 1, changed_dents: 1, dirtied_inodes: 2, ..Request::default() };
        self.budget_dirty(&request, &[moved.ino, other.ino])?;
        let result = self.exchange_promised(from, to, (moved, other), now);
        self.settle(&request, result)
    }

    fn exchange_promised(
        &mut self,
        from: Side<'_>,
        to: Side<'_>,
        (moved, other): (Entry, Entry),
        now: Timestamp,
    ) -> Step<()> {
        let len = dent_len(to.name) + dent_len(from.name) + 2 * INODE_LEN;
        self.store.reserve_in(Head::Base, len)?;
        let time = self.time(now);
        let mut are_dirs = [false; 2];
        for (entry, is_dir) in [moved, other].iter().zip(&mut are_dirs) {
            let inode = self.inode(entry.ino)?;
            inode.ctime = time;
            *is_dir = inode.is_dir();
        }
        let shift =
            if from.dir == to.dir { 0 } else { i32::from(are_dirs[0]) - i32::from(are_dirs[1]) };
        self.touch_dir(from.dir, 0, -shift, now)?;
        self.touch_dir(to.dir, 0, shift, now)?;
        let mut inos = vec![from.dir];
        if to.dir != from.dir {
            inos.push(to.dir);
        }
        let result = self.write_exchange([(to, moved), (from, other)], &inos);
        self.must(result, "exchange")?;
        for (entry, is_dir, dir) in [(moved, are_dirs[0], to.dir), (other, are_dirs[1], from.dir)] {
            if is_dir {
                self.inodes.set_parent(entry.ino, dir);
            }
        }
        for ino in inos {
            self.inode_written(ino);
        }
        Ok(())
    }

    fn write_exchange(&mut self, names: [(Side<'_>, Entry); 2], inos: &[u32]) -> Step<()> {
        let mut group = Group::default();
        for (side, entry) in &names {
            let key = self.dent_key(side.dir, side.name);
            let kind = entry_kind(self.inode(entry.ino)?.kind());
            let cookie = self.store.nodes.cookie();
            let ino = entry.ino;
            group.add_dent(self.nodes(), &Dent { key, ino, kind, cookie, name: side.name })?;
        }
        self.add_inodes(&mut group, inos)?;
        let durable = self.durable_for(inos)?;
        let written = group.write(self.nodes(), inos, durable)?;
        for ((side, _), node) in names.iter().zip(&written) {
            let key = self.dent_key(side.dir, side.name);
            self.store.nodes.add_entry(key, side.name, *node, Unreadable::Fails)?;
        }
        self.index_inodes(inos, &written[2..])
    }
}
