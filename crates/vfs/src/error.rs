//! The one error type of file systems. Protocol error numbers are made from [`FsErrorKind`] by the
//! front ends, nowhere else.

use std::error::Error;

/// What kind of refusal it is; each has one POSIX error number.
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
    /// ENODATA: no such extended attribute
    NoAttribute,
    /// ENOSPC
    NoSpace,
    /// EROFS
    ReadOnly,
    /// EIO: the medium failed
    Io,
    /// EUCLEAN: what is stored is damaged
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
    /// ERANGE: a name or value of an extended attribute is too long
    OutOfRange,
}

/// A refused or failed file-system operation: its kind, and what is known about why.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct FsError {
    kind: FsErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl FsError {
    /// An error with a message of its own: place, found, expected.
    pub fn new(kind: FsErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// An error caused by a lower layer, whose message it takes over.
    pub fn from_source(kind: FsErrorKind, source: impl Error + Send + Sync + 'static) -> Self {
        Self { kind, message: source.to_string(), source: Some(Box::new(source)) }
    }

    /// The kind, which decides the error number.
    pub fn kind(&self) -> FsErrorKind {
        self.kind
    }
}
