//! The interface between file systems and their users.

use crate::attr::{Attr, FileKind, StatFs};
use crate::error::{FsError, FsErrorKind};
use std::fmt::Debug;
use std::ops::ControlFlow;

/// An inode number.
pub type Ino = u64;

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// The name: any bytes but `/` and NUL. For encrypted names, a printable encoding.
    pub name: Vec<u8>,
    /// The inode it names.
    pub ino: Ino,
    /// The kind of the inode according to the entry.
    pub kind: FileKind,
    /// Pass this to [`FileSystem::read_dir`] to continue after this entry. Stays valid across
    /// changes of the directory.
    pub cookie: u64,
}

/// A mounted file system at inode level. Names are bytes; all methods take `&self`, so that readers
/// run in parallel.
///
/// # Errors
///
/// Damage affects only operations that read it: they fail with [`FsErrorKind::Corrupted`] or
/// [`FsErrorKind::Io`], and all others work. A method fails with [`FsErrorKind::NotFound`] for an
/// inode that does not exist.
pub trait FileSystem: Send + Sync + Debug {
    /// Returns the root directory.
    fn root(&self) -> Ino;

    /// Returns the inode that `name` in directory `dir` refers to. Does not handle `.` and `..`.
    ///
    /// # Errors
    ///
    /// Fails with ENOENT if the name does not exist, and with ENOTDIR if `dir` is not a directory.
    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError>;

    /// Returns the attributes of an inode.
    ///
    /// # Errors
    ///
    /// Fails if the inode does not exist or cannot be read.
    fn attr(&self, ino: Ino) -> Result<Attr, FsError>;

    /// Calls `sink` for the entries after `cookie` (0 for all) in stable order until it breaks or
    /// the directory ends. `.` and `..` are not included.
    ///
    /// # Errors
    ///
    /// Fails with ENOTDIR if `dir` is not a directory, or if it cannot be read.
    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError>;

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    ///
    /// Fails with EINVAL if the inode is not a symbolic link, or if it cannot be read.
    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError>;

    /// Reads up to `buf.len()` bytes of a regular file at `offset`; fewer only at its end. Holes
    /// read as zeros.
    ///
    /// # Errors
    ///
    /// Fails if the inode is not a regular file, or if data in the range is damaged.
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError>;

    /// Returns the first byte at or after `offset` that is not in a hole, or `None` if only a hole
    /// or the end follows (SEEK_DATA).
    ///
    /// # Errors
    ///
    /// Fails if the inode is not a regular file or cannot be read.
    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError>;

    /// Returns the first byte at or after `offset` that is in a hole; the end of the file counts as
    /// one (SEEK_HOLE).
    ///
    /// # Errors
    ///
    /// Fails if the inode is not a regular file or cannot be read.
    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError>;

    /// Returns the names of the xattrs of an inode, including the namespace prefix; none unless the
    /// format has xattrs.
    ///
    /// # Errors
    ///
    /// Fails if the inode or its xattrs cannot be read.
    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.attr(ino).map(|_| Vec::new())
    }

    /// Returns the value of an xattr.
    ///
    /// # Errors
    ///
    /// Fails with ENODATA if the xattr does not exist, or if it cannot be read.
    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.attr(ino)?;
        let name = String::from_utf8_lossy(name).escape_debug().to_string();
        let message = format!("inode {ino}: no extended attribute `{name}`");
        Err(FsError::new(FsErrorKind::NoAttribute, message))
    }

    /// Returns sizes and counts.
    ///
    /// # Errors
    ///
    /// Fails if the file system cannot compute them.
    fn stat_fs(&self) -> Result<StatFs, FsError>;

    /// Returns the entries of `dir` in one list, for callers that know it is bounded.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::read_dir`] does.
    fn entries(&self, dir: Ino) -> Result<Vec<DirEntry>, FsError> {
        let mut entries = Vec::new();
        self.read_dir(dir, 0, &mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }

    /// Resolves a slash-separated path from the root, without following symbolic links; skips empty
    /// components and `.`, refuses `..`.
    ///
    /// # Errors
    ///
    /// Fails if a component does not exist, is not a directory or is `..`.
    fn resolve(&self, path: &[u8]) -> Result<Ino, FsError> {
        let mut ino = self.root();
        for name in path.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => {
                    return Err(FsError::new(
                        FsErrorKind::Invalid,
                        "`..` is not allowed in a path inside an image",
                    ));
                }
                name => ino = self.lookup(ino, name)?,
            }
        }
        Ok(ino)
    }
}
