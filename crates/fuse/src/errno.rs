//! Error numbers: the only place that has them.

use eraseblock_vfs::{FsError, FsErrorKind};
use fuser::Errno;

/// Why a request is refused.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file system refuses it, or failed.
    Fs(FsError),
    /// The adapter refuses it.
    Here(Errno),
}

impl From<FsError> for Fault {
    fn from(error: FsError) -> Self {
        Self::Fs(error)
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Here(errno)
    }
}

impl Fault {
    /// Returns the error number for the kernel.
    pub(crate) fn errno(&self) -> Errno {
        match self {
            Self::Fs(error) => of_kind(error.kind()),
            Self::Here(errno) => *errno,
        }
    }

    /// Returns a report for the operator: only for trouble with the medium, not for refusals.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Self::Fs(error) if matches!(error.kind(), FsErrorKind::Io | FsErrorKind::Corrupted) => {
                Some(error.to_string())
            }
            _ => None,
        }
    }
}

/// Returns the error number of a kind of error.
fn of_kind(kind: FsErrorKind) -> Errno {
    match kind {
        FsErrorKind::NotFound => Errno::ENOENT,
        FsErrorKind::NotADirectory => Errno::ENOTDIR,
        FsErrorKind::IsADirectory => Errno::EISDIR,
        FsErrorKind::Exists => Errno::EEXIST,
        FsErrorKind::NotEmpty => Errno::ENOTEMPTY,
        FsErrorKind::Invalid => Errno::EINVAL,
        FsErrorKind::NameTooLong => Errno::ENAMETOOLONG,
        FsErrorKind::NoAttribute => Errno::ENODATA,
        FsErrorKind::NoSpace => Errno::ENOSPC,
        FsErrorKind::ReadOnly => Errno::EROFS,
        FsErrorKind::Corrupted => Errno::from_i32(rustix::io::Errno::UCLEAN.raw_os_error()),
        FsErrorKind::NoKey => Errno::from_i32(rustix::io::Errno::NOKEY.raw_os_error()),
        FsErrorKind::Unsupported => Errno::EOPNOTSUPP,
        FsErrorKind::NotPermitted => Errno::EPERM,
        FsErrorKind::TooBig => Errno::EFBIG,
        FsErrorKind::TooManyLinks => Errno::EMLINK,
        FsErrorKind::TooManySymlinks => Errno::ELOOP,
        FsErrorKind::OutOfRange => Errno::ERANGE,
        // `Io`, and kinds added later.
        _ => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_their_posix_numbers() {
        let number = |kind| of_kind(kind).code();
        assert_eq!(number(FsErrorKind::NotFound), 2);
        assert_eq!(number(FsErrorKind::Io), 5);
        assert_eq!(number(FsErrorKind::NotEmpty), 39);
        assert_eq!(number(FsErrorKind::Corrupted), 117);
        assert_eq!(number(FsErrorKind::NoKey), 126);
        assert_eq!(number(FsErrorKind::OutOfRange), 34);
    }

    #[test]
    fn only_trouble_with_the_medium_is_told() {
        let fault = |kind| Fault::from(FsError::new(kind, "leb 3:0: gone"));
        assert_eq!(fault(FsErrorKind::Io).trouble().as_deref(), Some("leb 3:0: gone"));
        assert_eq!(fault(FsErrorKind::NotFound).trouble(), None);
        assert_eq!(Fault::from(Errno::EINVAL).trouble(), None);
    }
}
