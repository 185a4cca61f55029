//! A file system that a mount or a server offers: read-only or writable.

use crate::{FileSystem, FsError, FsErrorKind, WritableFileSystem};
use std::sync::Arc;

/// A file system to mount or to serve.
#[derive(Clone, Debug)]
pub enum Served {
    /// A read-only file system.
    ReadOnly(Arc<dyn FileSystem>),
    /// A writable file system.
    ReadWrite(Arc<dyn WritableFileSystem>),
}

impl Served {
    /// Returns the read interface.
    pub fn reading(&self) -> &dyn FileSystem {
        match self {
            Self::ReadOnly(fs) => fs.as_ref(),
            Self::ReadWrite(fs) => fs.as_ref(),
        }
    }

    /// Returns the write interface.
    ///
    /// # Errors
    ///
    /// Fails with [`FsErrorKind::ReadOnly`] if the file system is read-only.
    pub fn writing(&self) -> Result<&dyn WritableFileSystem, FsError> {
        match self {
            Self::ReadOnly(_) => {
                Err(FsError::new(FsErrorKind::ReadOnly, "the file system is read-only"))
            }
            Self::ReadWrite(fs) => Ok(fs.as_ref()),
        }
    }

    /// Returns whether the file system is read-only.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly(_))
    }
}
