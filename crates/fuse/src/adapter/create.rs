//! Creation of inodes, and what they inherit.

use super::Adapter;
use crate::acl::{self, Acl};
use crate::errno::Fault;
use eraseblock_vfs::{Caller, Ino, NewInode, NewKind, WritableFileSystem, XattrMode};
use fuser::{Errno, FileAttr, INodeNo, Request};

/// The requested mode and the umask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    pub(super) mode: u32,
    pub(super) umask: u32,
}

/// The ACLs of a new inode.
#[derive(Debug, Default)]
struct Lists {
    access: Option<Acl>,
    default: Option<Acl>,
}

impl Adapter {
    /// Creates any kind of inode with a name, on behalf of the requester.
    pub(super) fn make(
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
        let by = self.caller(request);
        let ino = fs.create(dir, name, &inode, &by)?;
        give(fs, &by, ino, &lists)?;
        self.changed(fs)?;
        self.named(ino)
    }

    /// Creates a file without a name, which exists while the kernel remembers it.
    pub(super) fn create_unnamed(
        &self,
        request: &Request,
        dir: INodeNo,
        mode: Mode,
    ) -> Result<FileAttr, Fault> {
        let fs = self.served.writing()?;
        let dir = self.ino(dir);
        let (inode, lists) = self.new_inode(request, dir, NewKind::Regular, mode)?;
        let by = self.caller(request);
        let ino = fs.create_unnamed(dir, &inode, &by)?;
        let made = give(fs, &by, ino, &lists)
            .and_then(|()| self.changed(fs))
            .and_then(|()| self.named(ino));
        // From here on the kernel's count keeps the file open.
        fs.release(ino)?;
        made
    }

    /// Returns the inode that a request creates.
    fn new_inode<'a>(
        &self,
        request: &Request,
        dir: Ino,
        kind: NewKind<'a>,
        mode: Mode,
    ) -> Result<(NewInode<'a>, Lists), Fault> {
        let (permissions, lists) = self.inherited(dir, kind, mode)?;
        let ids = &self.settings.ids;
        let uid = ids.uid.stored(request.uid()).ok_or(Errno::EOVERFLOW)?;
        let gid = ids.gid.stored(request.gid()).ok_or(Errno::EOVERFLOW)?;
        Ok((NewInode { kind, permissions, uid, gid }, lists))
    }

    /// Returns permission bits and ACLs of a new inode: a default ACL of the directory replaces the
    /// umask (acl(5)).
    fn inherited(
        &self,
        dir: Ino,
        kind: NewKind<'_>,
        Mode { mode, umask }: Mode,
    ) -> Result<(u32, Lists), Fault> {
        let wanted = mode & 0o7777;
        let is_link = matches!(kind, NewKind::Symlink(_));
        if !self.settings.acl || is_link {
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

fn give(fs: &dyn WritableFileSystem, by: &Caller, ino: Ino, lists: &Lists) -> Result<(), Fault> {
    for (name, list) in [(acl::ACCESS, &lists.access), (acl::DEFAULT, &lists.default)] {
        if let Some(list) = list {
            fs.set_xattr(ino, name, &list.encode(), XattrMode::Either, by)?;
        }
    }
    Ok(())
}
