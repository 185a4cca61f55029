//! The error type of file systems. Only front ends convert [`FsErrorKind`] to protocol error
//! numbers.

use std::error::Error;
use std::fmt;

/// The kind of an error; each corresponds to one POSIX error number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FsErrorKind {
    /// ENOENT
    NotFound,
    /// ENOTDIR
    NotADirectory,
    /// EISDIR
    IsADirectory,
    /// EEXIST
    Exists,
    /// ENOTEMPTY
    NotEmpty,
    /// EINVAL
    Invalid,
    /// ENAMETOOLONG
    NameTooLong,
    /// ENODATA: no such xattr
    NoAttribute,
    /// ENOSPC
    NoSpace,
    /// EROFS
    ReadOnly,
    /// EIO: the medium failed
    Io,
    /// EUCLEAN: the stored data is damaged
    Corrupted,
    /// ENOKEY: content is encrypted
    NoKey,
    /// EOPNOTSUPP
    Unsupported,
    /// EPERM
    NotPermitted,
    /// EFBIG
    TooBig,
    /// EMLINK
    TooManyLinks,
    /// ELOOP
    TooManySymlinks,
    /// ERANGE: a name or value of an xattr is too long
    OutOfRange,
}

/// A refused or failed file-system operation: its kind, and the reason.
#[derive(Debug)]
pub struct FsError {
    kind: FsErrorKind,
    message: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl FsError {
    /// Creates an error with its own message: place, found, expected.
    pub fn new(kind: FsErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), cause: None }
    }

    /// Creates an error caused by a lower layer, with the message of that layer.
    pub fn from_source(kind: FsErrorKind, source: impl Error + Send + Sync + 'static) -> Self {
        Self { kind, message: source.to_string(), cause: Some(Box::new(source)) }
    }

    /// Returns the kind, which determines the error number.
    pub fn kind(&self) -> FsErrorKind {
        self.kind
    }

    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for FsError {}
