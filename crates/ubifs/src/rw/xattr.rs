//! Extended attributes (layer 13; spec: ubifs-runtime 20; ubifs-format 6.6).
//!
//! # Invariants
//! 1. An entry, the inode that holds the value and the host with its counts are written in one
//!    group.
//! 2. The counts of the host may be wrong in an image; they never overflow here.

use super::budget::Request;
use super::core::Core;
use super::dir::refused;
use super::error::Step;
use super::flash::align8;
use super::group::{Durable, Group, INODE_LEN, dent_len, inode_len};
use super::load::Owner;
use super::nodes::Unreadable;
use super::wbuf::Head;
use eraseblock_ubifs_format::constants::{
    ENCRYPTION_CONTEXT, MAX_INODE_DATA, XATTR_LIST_MAX, inode_flags,
};
use eraseblock_ubifs_format::key::VALUE_MASK;
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::{Dent, EntryKind, Key};
use eraseblock_vfs::{FsErrorKind, Ino, Timestamp, XattrMode, rules};

/// Returns the contribution of an xattr to its host's `xattr_size`.
fn weight(name: &[u8], value: usize) -> u32 {
    dent_len(name) + value_weight(value as u32)
}

/// Returns the part for its value.
pub(super) fn value_weight(value: u32) -> u32 {
    inode_len(value as usize + 1)
}

impl Core {
    fn xent_key(&self, host: u32, name: &[u8]) -> Key {
        Key::xent(host, self.store.nodes.flash.sb.key_hash.hash(name))
    }

    /// Returns an inode whose xattr of this name may change.
    fn changeable_host(&mut self, ino: Ino, name: &[u8]) -> Step<u32> {
        self.check_mounted()?;
        let inode = self.visible(ino)?;
        let host = inode.ino;
        rules::check_changeable(&inode.attr())?;
        rules::check_xattr_name(inode.kind(), name, rules::XattrUse::Change)?;
        Ok(host)
    }

    fn xattr_ino(&mut self, host: u32, name: &[u8]) -> Step<Option<u32>> {
        let key = self.xent_key(host, name);
        self.store.nodes.find_entry(key, name, |dent| dent.ino)
    }

    pub(super) fn xattr(&mut self, ino: Ino, name: &[u8]) -> Step<Vec<u8>> {
        let inode = self.visible(ino)?;
        let host = inode.ino;
        rules::check_xattr_name(inode.kind(), name, rules::XattrUse::Read)?;
        match self.xattr_ino(host, name)? {
            Some(value) => Ok(self.inode(value)?.data.clone()),
            None => Err(absent(host, name)),
        }
    }

    pub(super) fn list_xattrs(&mut self, ino: Ino) -> Step<Vec<Vec<u8>>> {
        let host = self.visible(ino)?.ino;
        let mut branches = Vec::new();
        self.store.nodes.scan(Key::xent(host, 0), Key::xent(host, VALUE_MASK), &mut |branch| {
            branches.push(*branch);
            true
        })?;
        let mut names = Vec::new();
        let mut buf = Vec::new();
        for branch in branches {
            let dent = self.store.nodes.leaf(&branch, &mut buf)?.dent()?;
            if dent.name != ENCRYPTION_CONTEXT {
                names.push(dent.name.to_vec());
            }
        }
        Ok(names)
    }

    pub(super) fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: Timestamp,
    ) -> Step<()> {
        let host = self.changeable_host(ino, name)?;
        rules::check_acl_value(name, value)?;
        rules::check_xattr_value(value, MAX_INODE_DATA)?;
        let known = self.xattr_ino(host, name)?;
        match (known, mode) {
            (Some(_), XattrMode::Create) => {
                Err(refused(FsErrorKind::Exists, host, "the attribute exists"))
            }
            (None, XattrMode::Replace) => Err(absent(host, name)),
            (Some(holder), _) => self.replace_xattr(host, holder, name, value, now),
            (None, _) => self.add_xattr(host, name, value, now),
        }
    }

    fn add_xattr(&mut self, host: u32, name: &[u8], value: &[u8], now: Timestamp) -> Step<()> {
        let inode = self.inode(host)?;
        let names = inode.xattr_names + inode.xattr_cnt + name.len() as u32 + 1;
        let most = self.store.nodes.flash.leb_size / 2 / INODE_LEN;
        let inode = self.inode(host)?;
        if names > XATTR_LIST_MAX || inode.xattr_cnt >= most {
            return Err(refused(FsErrorKind::NoSpace, host, "too many attributes"));
        }
        let host_data = align8(inode.data.len() as u32);
        let request = Request {
            new_inodes: 1,
            new_data: align8(value.len() as u32),
            new_dents: 1,
            dirtied_inodes: 1,
            dirtied_data: host_data,
            ..Request::default()
        };
        self.budget(&request)?;
        let result = self.add_xattr_promised(host, name, value, now);
        self.settle(&request, result)
    }

    fn add_xattr_promised(
        &mut self,
        host: u32,
        name: &[u8],
        value: &[u8],
        now: Timestamp,
    ) -> Step<()> {
        use inode_flags::{COMPRESS, SYNC, XATTR};
        let mode = file_type::REGULAR | 0o777;
        let mut holder =
            self.new_inode(host, mode, Owner { uid: 0, gid: 0 }, value.to_vec(), now)?;
        let host_is_dir = self.inode(host)?.is_dir();
        let inherited = if host_is_dir { holder.flags & (COMPRESS | SYNC) } else { 0 };
        holder.flags = XATTR | inherited;
        let host_len = inode_len(self.inode(host)?.data.len());
        let len = dent_len(name) + align8(holder.node_len()) + host_len;
        self.store.reserve_in(Head::Base, len)?;
        let time = self.time(now);
        let inode = self.inode(host)?;
        inode.xattr_cnt = inode.xattr_cnt.saturating_add(1);
        inode.xattr_size = inode.xattr_size.saturating_add(weight(name, value.len()));
        inode.xattr_names = inode.xattr_names.saturating_add(name.len() as u32);
        inode.ctime = time;
        let ino = holder.ino;
        self.inodes.insert(holder);
        let result = self.write_new_xattr(host, ino, name);
        self.must(result, "attribute")?;
        self.inode_written(ino);
        self.inode_written(host);
        Ok(())
    }

    /// Writes entry, holder and, after both, the host.
    fn write_new_xattr(&mut self, host: u32, holder: u32, name: &[u8]) -> Step<()> {
        let key = self.xent_key(host, name);
        let mut group = Group::default();
        let cookie = self.store.nodes.cookie();
        let dent = Dent { key, ino: holder, kind: EntryKind::Regular, cookie, name };
        group.add_dent(self.nodes(), &dent)?;
        self.add_inodes(&mut group, &[holder, host])?;
        // A new attribute is durable at once (20.4).
        let written = group.write(self.nodes(), &[holder, host], Durable::Now)?;
        self.store.nodes.add_entry(key, name, written[0], Unreadable::Fails)?;
        self.index_inodes(&[holder, host], &written[1..])
    }

    fn replace_xattr(
        &mut self,
        host: u32,
        holder: u32,
        name: &[u8],
        value: &[u8],
        now: Timestamp,
    ) -> Step<()> {
        let host_data = align8(self.inode(host)?.data.len() as u32);
        let request = Request {
            changed_dents: u32::from(self.inode(host)?.nlink == 0),
            dirtied_inodes: 2,
            dirtied_data: align8(value.len() as u32) + host_data,
            ..Request::default()
        };
        self.budget(&request)?;
        let result = self.replace_xattr_promised(host, holder, name, value, now);
        self.settle(&request, result)
    }

    fn replace_xattr_promised(
        &mut self,
        host: u32,
        holder: u32,
        name: &[u8],
        value: &[u8],
        now: Timestamp,
    ) -> Step<()> {
        let host_len = inode_len(self.inode(host)?.data.len());
        let has_no_name = self.inode(host)?.nlink == 0;
        let entry = if has_no_name { dent_len(name) } else { 0 };
        self.store.reserve_in(Head::Base, entry + host_len + inode_len(value.len()))?;
        let time = self.time(now);
        let inode = self.inode(holder)?;
        let old = inode.data.len();
        inode.data = value.to_vec();
        inode.data_len = value.len() as u32;
        inode.size = value.len() as u64;
        let inode = self.inode(host)?;
        // The counts in an image may be wrong.
        inode.xattr_size = inode.xattr_size.saturating_sub(weight(name, old));
        inode.xattr_size = inode.xattr_size.saturating_add(weight(name, value.len()));
        inode.ctime = time;
        // If the host is deleted but open, a replay deletes its xattrs with it through their
        // entries. Without an entry before the deletion, Linux never deletes xattrs written after
        // the deletion.
        let result = if has_no_name {
            self.write_new_xattr(host, holder, name)
        } else {
            self.write_changed_xattr(host, holder)
        };
        self.must(result, "attribute")?;
        self.inode_written(holder);
        self.inode_written(host);
        Ok(())
    }

    fn write_changed_xattr(&mut self, host: u32, holder: u32) -> Step<()> {
        let inos = [holder, host];
        let mut group = Group::default();
        self.add_inodes(&mut group, &inos)?;
        let durable = self.durable_for(&inos)?;
        let written = group.write(self.nodes(), &inos, durable)?;
        self.index_inodes(&inos, &written)
    }

    pub(super) fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Timestamp) -> Step<()> {
        let host = self.changeable_host(ino, name)?;
        let Some(holder) = self.xattr_ino(host, name)? else { return Err(absent(host, name)) };
        let host_data = align8(self.inode(host)?.data.len() as u32);
        let request = Request {
            changed_dents: 1,
            dirtied_inodes: 2,
            dirtied_data: host_data,
            ..Request::default()
        };
        self.budget(&request)?;
        let result = self.remove_xattr_promised(host, holder, name, now);
        self.settle(&request, result)
    }

    fn remove_xattr_promised(
        &mut self,
        host: u32,
        holder: u32,
        name: &[u8],
        now: Timestamp,
    ) -> Step<()> {
        let host_len = inode_len(self.inode(host)?.data.len());
        self.store.reserve_in(Head::Base, dent_len(name) + INODE_LEN + host_len)?;
        let time = self.time(now);
        let inode = self.inode(holder)?;
        let old = inode.data.len();
        inode.nlink = 0;
        let inode = self.inode(host)?;
        inode.xattr_cnt = inode.xattr_cnt.saturating_sub(1);
        inode.xattr_size = inode.xattr_size.saturating_sub(weight(name, old));
        inode.xattr_names = inode.xattr_names.saturating_sub(name.len() as u32);
        inode.ctime = time;
        let result = self.write_removed_xattr(host, holder, name);
        self.must(result, "attribute")?;
        self.inode_written(host);
        self.inodes.remove(holder);
        Ok(())
    }

    fn write_removed_xattr(&mut self, host: u32, holder: u32, name: &[u8]) -> Step<()> {
        let key = self.xent_key(host, name);
        let mut group = Group::default();
        let dent = Dent { key, ino: 0, kind: EntryKind::Regular, cookie: 0, name };
        group.add_dent(self.nodes(), &dent)?;
        self.add_inodes(&mut group, &[holder, host])?;
        let durable = self.durable_for(&[host])?;
        let written = group.write(self.nodes(), &[host], durable)?;
        self.store.nodes.remove_entry(key, name, Unreadable::Fails)?;
        self.store.nodes.waste(&written[0])?;
        self.store.nodes.remove_range(Key::first_of(holder), Key::last_of(holder))?;
        self.store.nodes.waste(&written[1])?;
        self.store.nodes.add_leaf(Key::inode(host), written[2])
    }
}

fn absent(host: u32, name: &[u8]) -> super::error::Fault {
    let name = String::from_utf8_lossy(name);
    refused(FsErrorKind::NoAttribute, host, &format!("no extended attribute `{name}`"))
}
