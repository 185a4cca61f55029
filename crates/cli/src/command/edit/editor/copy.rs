//! Copies within the image, and the content of a file.

use super::{Editor, caller};
use crate::failure::{Context, Failure};
use eraseblock::raw::vfs::{FileKind, Ino, NewInode, NewKind, SetAttr, XattrMode};
use eraseblock::target::filesystem;
use eraseblock::text;
use std::collections::HashSet;

impl Editor<'_> {
    /// Copies a file within the image.
    pub(super) fn copy(&self, from: &[u8], to: &[u8]) -> Result<(), Failure> {
        if self.fs.attr(self.find(from)?)?.kind == FileKind::Directory {
            return Err(Failure::new("is a directory").hint("cp -r").context(text::name(from)));
        }
        self.copy_all(from, to)
    }

    /// Copies a file, or a directory and what is below it, within the image.
    pub(super) fn copy_all(&self, from: &[u8], to: &[u8]) -> Result<(), Failure> {
        let ino = self.find(from)?;
        let (dir, name) = self.place_or_into(to, from)?;
        let is_directory = self.fs.attr(ino)?.kind == FileKind::Directory;
        match self.fs.lookup(dir, name) {
            Err(_) => {}
            // Removing the destination would remove the source.
            Ok(existing) if existing == ino => {
                let message = format!("is the same file as {}", text::name(from));
                return Err(Failure::new(message).context(text::name(to)));
            }
            Ok(_) if is_directory => {
                return Err(Failure::new("exists already").context(text::name(to)));
            }
            Ok(_) => self.fs.unlink(dir, name, &caller()).context(text::name(to))?,
        }
        let mut made = HashSet::new();
        let mut waiting = vec![(ino, dir, name.to_vec())];
        while let Some((ino, dir, name)) = waiting.pop() {
            let copy = self.copy_one(ino, dir, &name).context(text::name(&name))?;
            made.insert(copy);
            if self.fs.attr(ino)?.kind != FileKind::Directory {
                continue;
            }
            for entry in self.fs.entries(ino)? {
                // A directory that is copied into itself is not copied without end.
                if !made.contains(&entry.ino) {
                    waiting.push((entry.ino, copy, entry.name));
                }
            }
        }
        Ok(())
    }

    /// Copies one inode with its attributes, without what is below it.
    fn copy_one(&self, ino: Ino, dir: Ino, name: &[u8]) -> Result<Ino, Failure> {
        let attr = self.fs.attr(ino)?;
        let target;
        let kind = match attr.kind {
            FileKind::Regular => NewKind::Regular,
            FileKind::Directory => NewKind::Directory,
            FileKind::Symlink => {
                target = self.fs.read_link(ino)?;
                NewKind::Symlink(&target)
            }
            FileKind::BlockDevice => NewKind::BlockDevice(attr.rdev.0, attr.rdev.1),
            FileKind::CharDevice => NewKind::CharDevice(attr.rdev.0, attr.rdev.1),
            FileKind::Fifo => NewKind::Fifo,
            FileKind::Socket => NewKind::Socket,
        };
        let (permissions, uid, gid) = (attr.permissions, attr.uid, attr.gid);
        let copy =
            self.fs.create(dir, name, &NewInode { kind, permissions, uid, gid }, &caller())?;
        if attr.kind == FileKind::Regular {
            filesystem::copy(self.fs, &attr, &mut |offset, bytes| {
                let written = self.fs.write(copy, offset, bytes, &caller());
                written.map_err(std::io::Error::other)
            })?;
        }
        for name in self.fs.list_xattrs(ino)? {
            let value = self.fs.xattr(ino, &name)?;
            self.fs.set_xattr(copy, &name, &value, XattrMode::Either, &caller())?;
        }
        let times =
            SetAttr { atime: Some(attr.atime), mtime: Some(attr.mtime), ..SetAttr::default() };
        self.fs.set_attr(copy, &times, &caller())?;
        Ok(copy)
    }
}
