//! Xattrs.

use super::Adapter;
use crate::acl::{self, Acl};
use crate::errno::Fault;
use eraseblock_vfs::rules::is_acl_name;
use eraseblock_vfs::{Caller, FsErrorKind, Ino, SetAttr, WritableFileSystem, XattrMode};
use fuser::{Errno, INodeNo, Request};

/// A reply of limited size, or only its size.
#[derive(Debug)]
pub(super) enum Sized {
    Bytes(Vec<u8>),
    Length(u32),
}

/// Checks that a value fits into the buffer of the program.
pub(super) fn sized(value: Vec<u8>, room: u32) -> Result<Sized, Fault> {
    match u32::try_from(value.len()) {
        Ok(len) if room == 0 => Ok(Sized::Length(len)),
        Ok(len) if len <= room => Ok(Sized::Bytes(value)),
        Ok(_) => Err(Errno::ERANGE.into()),
        Err(_) => Err(Errno::E2BIG.into()),
    }
}

impl Adapter {
    pub(super) fn xattr(&self, node: INodeNo, name: &[u8]) -> Result<Vec<u8>, Fault> {
        if let (Some(status), crate::STATUS, INodeNo(1)) = (&self.settings.status, name, node) {
            return Ok(status.text().into_bytes());
        }
        let value = self.served.reading().xattr(self.ino(node), name)?;
        if !is_acl_name(name) {
            return Ok(value);
        }
        let list = Acl::decode(&value).ok_or(Errno::EIO)?;
        Ok(list.shown(&self.settings.ids).encode())
    }

    /// Returns the names, each followed by a NUL; `trusted.` ones for root only.
    pub(super) fn xattr_names(&self, request: &Request, node: INodeNo) -> Result<Vec<u8>, Fault> {
        let mut list = Vec::new();
        for name in self.served.reading().list_xattrs(self.ino(node))? {
            if request.uid() == 0 || !name.starts_with(b"trusted.") {
                list.extend_from_slice(&name);
                list.push(0);
            }
        }
        Ok(list)
    }

    pub(super) fn set_xattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Result<(), Fault> {
        let fs = self.served.writing()?;
        let by = &self.caller(request);
        let ino = self.ino(node);
        let mode = match flags & 3 {
            0 => XattrMode::Either,
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => return Err(Errno::EINVAL.into()),
        };
        if !is_acl_name(name) {
            fs.set_xattr(ino, name, value, mode, by)?;
            return self.changed(fs);
        }
        let list = Acl::decode(value).ok_or(Errno::EINVAL)?;
        let list = list.stored(&self.settings.ids).ok_or(Errno::EINVAL)?;
        if name == acl::ACCESS && self.settings.acl {
            self.set_access_list(fs, request, ino, &list)?;
        } else {
            fs.set_xattr(ino, name, &list.encode(), mode, by)?;
        }
        self.changed(fs)
    }

    /// Sets the ACL of an inode and updates its mode. An ACL that is equivalent to a mode is not
    /// stored.
    fn set_access_list(
        &self,
        fs: &dyn WritableFileSystem,
        request: &Request,
        ino: Ino,
        list: &Acl,
    ) -> Result<(), Fault> {
        let by = &self.caller(request);
        let attr = fs.attr(ino)?;
        let mut special = attr.permissions & 0o7000;
        // A requester outside the group must not keep the set-group-id bit. Requests contain the
        // first group only.
        if request.uid() != 0 && self.settings.ids.gid.shown(attr.gid) != request.gid() {
            special &= !0o2000;
        }
        let permissions = Some(special | list.permissions());
        if list.is_only_a_mode() {
            match fs.remove_xattr(ino, acl::ACCESS, by) {
                Err(error) if error.kind() != FsErrorKind::NoAttribute => return Err(error.into()),
                _ => {}
            }
        } else {
            fs.set_xattr(ino, acl::ACCESS, &list.encode(), XattrMode::Either, by)?;
        }
        if permissions != Some(attr.permissions) {
            fs.set_attr(ino, &SetAttr { permissions, ..SetAttr::default() }, by)?;
        }
        Ok(())
    }

    pub(super) fn remove_xattr(
        &self,
        by: &Caller,
        node: INodeNo,
        name: &[u8],
    ) -> Result<(), Fault> {
        let fs = self.served.writing()?;
        fs.remove_xattr(self.ino(node), name, by)?;
        self.changed(fs)
    }
}
