//! The seam between a file system and everybody who uses one.

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
    /// What the entry says the inode is.
    pub kind: FileKind,
    /// Pass this to [`FileSystem::read_dir`] to go on behind this entry. Stays valid across
    /// changes of the directory.
    pub cookie: u64,
}

/// A mounted file system at inode level. Names are bytes; all methods take `&self`, so that
/// readers run in parallel.
///
/// Damage is met where it lies: an operation fails with [`FsErrorKind::Corrupted`] or
/// [`FsErrorKind::Io`] for what cannot be read, and everything else goes on.
pub trait FileSystem: Send + Sync + Debug {
    /// The root directory.
    fn root(&self) -> Ino;

    /// The inode that `name` in directory `dir` refers to. `.` and `..` are not looked up here.
    fn lookup(&self, dir: Ino, name: &[u8]) -> Result<Ino, FsError>;

    /// The attributes of an inode.
    fn attr(&self, ino: Ino) -> Result<Attr, FsError>;

    /// Calls `sink` for the entries behind `cookie` (0 for all) in stable order until it breaks or
    /// the directory ends. `.` and `..` are not among them.
    fn read_dir(
        &self,
        dir: Ino,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> Result<(), FsError>;

    /// The target of a symbolic link.
    fn read_link(&self, ino: Ino) -> Result<Vec<u8>, FsError>;

    /// Reads up to `buf.len()` bytes of a regular file at `offset`; short only at its end. Holes
    /// read as zeros.
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize, FsError>;

    /// The first byte at or behind `offset` that is not in a hole, or `None` when only a hole or
    /// the end follows (SEEK_DATA).
    fn seek_data(&self, ino: Ino, offset: u64) -> Result<Option<u64>, FsError>;

    /// The first byte at or behind `offset` that is in a hole; the end of the file counts as one
    /// (SEEK_HOLE).
    fn seek_hole(&self, ino: Ino, offset: u64) -> Result<u64, FsError>;

    /// The names of the extended attributes of an inode, namespace prefix included.
    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, FsError>;

    /// The value of an extended attribute.
    fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError>;

    /// Sizes and counts.
    fn stat_fs(&self) -> Result<StatFs, FsError>;

    /// Entries of `dir` in one list, for callers that know it is bounded.
    fn entries(&self, dir: Ino) -> Result<Vec<DirEntry>, FsError> {
        let mut entries = Vec::new();
        self.read_dir(dir, 0, &mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }

    /// Follows a slash-separated path from the root, without following symbolic links; empty
    /// components and `.` are skipped, `..` is refused.
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
