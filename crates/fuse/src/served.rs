//! What is mounted: a file system that can only be read, or one that can be written, too.

use crate::errno::Fault;
use eraseblock_vfs::{FileSystem, FsError, FsErrorKind, WritableFileSystem};
use std::sync::Arc;

/// A file system to be mounted.
#[derive(Clone, Debug)]
pub enum Served {
    /// Nothing is ever written.
    ReadOnly(Arc<dyn FileSystem>),
    /// Everything is allowed.
    ReadWrite(Arc<dyn WritableFileSystem>),
}

impl Served {
    /// Returns the reading half.
    pub fn reading(&self) -> &dyn FileSystem {
        match self {
            Self::ReadOnly(fs) => fs.as_ref(),
            Self::ReadWrite(fs) => fs.as_ref(),
        }
    }

    /// Returns the writing half, or EROFS.
    pub(crate) fn writing(&self) -> Result<&dyn WritableFileSystem, Fault> {
        match self {
            Self::ReadOnly(_) => {
                Err(FsError::new(FsErrorKind::ReadOnly, "the mount is read-only").into())
            }
            Self::ReadWrite(fs) => Ok(fs.as_ref()),
        }
    }

    /// Returns whether it can only be read.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly(_))
    }
}
