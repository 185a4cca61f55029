//! New inodes, and what they inherit.

use super::Adapter;
use crate::acl::{self, Acl};
use crate::convert::now;
use crate::errno::Fault;
use eraseblock_vfs::{Ino, NewInode, NewKind, WritableFileSystem, XattrMode};
use fuser::{Errno, FileAttr, INodeNo, Request};

/// The mode a program asked for, and its umask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    pub(super) mode: u32,
    pub(super) umask: u32,
}

/// The lists a new inode gets.
#[derive(Debug, Default)]
struct Lists {
    access: Option<Acl>,
    default: Option<Acl>,
}

impl Adapter {
    /// Makes anything that has a name, for who asks.
    pub(super) fn make(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &[u8],
        kind: NewKind<'_>,
        mode: Mode,
    ) -> Result<FileAttr, Fault> {
        self.on_behalf(request, || self.create(request, dir, name, kind, mode))
    }

    fn create(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &[u8],
        kind: NewKind<'_>,
        mode: Mode,
    ) -> Result<FileAttr, Fault> {
        let fs = self.served.writing()?;
        let dir = self.ino(dir);
        let (inode, lists) = self.new_inode(request, dir, kind, mode)?;
        let ino = fs.create(dir, name, &inode, now())?;
        give(fs, ino, &lists)?;
        self.changed(fs)?;
        self.named(ino)
    }

    /// Makes a file without a name, which lives as long as the kernel remembers it.
    pub(super) fn create_unnamed(
        &self,
        request: &Request,
        dir: INodeNo,
        mode: Mode,
    ) -> Result<FileAttr, Fault> {
        let fs = self.served.writing()?;
        let dir = self.ino(dir);
        let (inode, lists) = self.new_inode(request, dir, NewKind::Regular, mode)?;
        let ino = fs.create_unnamed(dir, &inode, now())?;
        let made =
            give(fs, ino, &lists).and_then(|()| self.changed(fs)).and_then(|()| self.named(ino));
        // The kernel's count keeps it open from here on.
        fs.release(ino)?;
        made
    }

    /// What a request wants made.
    fn new_inode<'a>(
        &self,
        request: &Request,
        dir: Ino,
        kind: NewKind<'a>,
        mode: Mode,
    ) -> Result<(NewInode<'a>, Lists), Fault> {
        let (permissions, lists) = self.inherited(dir, kind, mode)?;
        let ids = &self.manner.ids;
        let uid = ids.uid.stored(request.uid()).ok_or(Errno::EOVERFLOW)?;
        let gid = ids.gid.stored(request.gid()).ok_or(Errno::EOVERFLOW)?;
        Ok((NewInode { kind, permissions, uid, gid }, lists))
    }

    /// Permission bits and lists of an inode about to be made: a default list of the directory
    /// takes the place of the umask (acl(5)).
    fn inherited(
        &self,
        dir: Ino,
        kind: NewKind<'_>,
        Mode { mode, umask }: Mode,
    ) -> Result<(u32, Lists), Fault> {
        let wanted = mode & 0o7777;
        let is_link = matches!(kind, NewKind::Symlink(_));
        if !self.manner.acl || is_link {
            return Ok((wanted & !umask, Lists::default()));
        }
        let Some(default) = self.acl(dir, acl::DEFAULT)? else {
            return Ok((wanted & !umask, Lists::default()));
        };
        let inherited = default.clone().inherited(wanted);
        let default = (kind == NewKind::Directory).then_some(default);
        Ok((inherited.permissions, Lists { access: inherited.access, default }))
    }
}

fn give(fs: &dyn WritableFileSystem, ino: Ino, lists: &Lists) -> Result<(), Fault> {
    for (name, list) in [(acl::ACCESS, &lists.access), (acl::DEFAULT, &lists.default)] {
        if let Some(list) = list {
            fs.set_xattr(ino, name, &list.encode(), XattrMode::Either, now())?;
        }
    }
    Ok(())
}
