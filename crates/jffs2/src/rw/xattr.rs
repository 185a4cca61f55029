//! Operations on extended attributes (spec: jffs2 10).
//!
//! Layer: above the driver, next to `names`.
//!
//! # Invariants
//! 1. A value is written before the reference to it, and the reference to a new value before the
//!    deletion of that to the old one: a cut leaves the old value or both, of which the newer
//!    counts, never none.

use super::failure::refuse;
use super::pairs::{Content, Link, RefKey};
use super::space::Purpose;
use super::state::State;
use eraseblock_jffs2_format::acl;
use eraseblock_jffs2_format::encode::xattr_len;
use eraseblock_jffs2_format::node::{PREFIX_ACL_ACCESS, PREFIX_ACL_DEFAULT, split_name};
use eraseblock_vfs::rules::{XattrUse, check_acl_value, check_xattr_name, check_xattr_value};
use eraseblock_vfs::{FsError, FsErrorKind, Ino, XattrMode};

/// Maximum number of bytes of a value.
const MAX_VALUE: usize = 65_535;
/// Minimum number of bytes to keep for a summary with one record.
const ONE_RECORD: u32 = 64;

impl State {
    /// Sets an attribute, and the ctime of its inode.
    pub(crate) fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: u32,
    ) -> Result<(), FsError> {
        let kind = self.tree_mut().attr(ino)?.kind;
        let ino = self.tree_mut().existing(ino)?;
        check_xattr_name(kind, name, XattrUse::Change)?;
        check_acl_value(name, value)?;
        check_xattr_value(value, MAX_VALUE)?;
        let (prefix, stored) = split_name(name).ok_or_else(|| {
            refuse(FsErrorKind::Unsupported, ino, "JFFS2 has no such name space of attributes")
        })?;
        let flash = &self.tree().store.flash;
        let wire = match prefix {
            PREFIX_ACL_ACCESS | PREFIX_ACL_DEFAULT => Some(
                acl::from_wire(flash.order, value)
                    .ok_or_else(|| refuse(FsErrorKind::Invalid, ino, "not an ACL"))?,
            ),
            _ => None,
        };
        let value = wire.as_deref().unwrap_or(value);
        // Name, value and a summary with one record share a block.
        let summary = if flash.has_buffer() { flash.page.max(ONE_RECORD) } else { ONE_RECORD };
        let most = flash.block - flash.cleanmarker().next_multiple_of(4) - summary;
        if xattr_len(stored.len(), value.len()) > most {
            let message = "the value does not fit a block";
            return Err(refuse(FsErrorKind::OutOfRange, ino, message));
        }
        self.put_xattr(ino, &Content { prefix, name: stored, value }, mode)?;
        self.stamp(ino, now)
    }

    /// Removes an attribute, and sets the ctime of its inode.
    pub(crate) fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: u32) -> Result<(), FsError> {
        let kind = self.tree_mut().attr(ino)?.kind;
        let ino = self.tree_mut().existing(ino)?;
        check_xattr_name(kind, name, XattrUse::Change)?;
        let missing = || refuse(FsErrorKind::NoAttribute, ino, "no such attribute");
        let (prefix, stored) = split_name(name).ok_or_else(missing)?;
        self.delete_xattr(ino, prefix, stored)?;
        self.stamp(ino, now)
    }

    fn put_xattr(
        &mut self,
        ino: u32,
        content: &Content<'_>,
        mode: XattrMode,
    ) -> Result<(), FsError> {
        let tree = self.tree();
        let xattrs = &tree.owners.xattrs;
        let old = xattrs.find_name(&tree.store, ino, content.prefix, content.name)?;
        match (mode, old) {
            (XattrMode::Create, Some(_)) => {
                return Err(FsError::new(FsErrorKind::Exists, "the attribute exists"));
            }
            (XattrMode::Replace, None) => {
                return Err(FsError::new(FsErrorKind::NoAttribute, "no such attribute"));
            }
            _ => {}
        }
        let xid = match xattrs.identical(&tree.store, content)? {
            Some(xid) if old == Some(xid) => return Ok(()),
            Some(xid) => xid,
            None => {
                self.make_space(Purpose::Write)?;
                self.writer.put_pair(content)?
            }
        };
        if let Err(error) = self.put_reference(RefKey { ino, xid }, Link::Attach) {
            let tree = self.tree_mut();
            tree.owners.xattrs.drop_unused(&mut tree.store, xid);
            return Err(error);
        }
        match old {
            Some(xid) => self.put_reference(RefKey { ino, xid }, Link::Detach),
            None => Ok(()),
        }
    }

    fn delete_xattr(&mut self, ino: u32, prefix: u8, name: &[u8]) -> Result<(), FsError> {
        let missing = || FsError::new(FsErrorKind::NoAttribute, "no such attribute");
        let tree = self.tree();
        let xattrs = &tree.owners.xattrs;
        let xid = xattrs.find_name(&tree.store, ino, prefix, name)?.ok_or_else(missing)?;
        // The hidden ones first: after the deletion of the newest alone, a cut would let them
        // reappear.
        let hidden: Vec<RefKey> = xattrs.hidden.range(RefKey::all_of(ino)).copied().collect();
        for key in hidden {
            self.put_reference(key, Link::Detach)?;
            self.tree_mut().owners.xattrs.hidden.remove(&key);
        }
        self.put_reference(RefKey { ino, xid }, Link::Detach)
    }

    fn put_reference(&mut self, key: RefKey, link: Link) -> Result<(), FsError> {
        self.make_space(match link {
            Link::Attach => Purpose::Write,
            Link::Detach => Purpose::Deletion,
        })?;
        self.writer.put_reference(key, link)
    }
}
