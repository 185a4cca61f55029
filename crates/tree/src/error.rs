//! Errors of reading or writing trees.

use eraseblock_base::{ErrorClass, Location};
use eraseblock_vfs::source::SourceError;
use eraseblock_vfs::{FsError, FsErrorKind};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The error of this crate: what, where, found and expected.
#[derive(Debug)]
#[non_exhaustive]
pub enum TreeError {
    /// The host refused an operation on one of its files.
    Host {
        /// The operation, as in "open".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The archive could not be read, or its decompression failed.
    Input {
        /// Position in the (decompressed) archive.
        at: Location,
        /// The reason.
        source: io::Error,
    },
    /// The temporary file that holds the contents of a streamed archive could not be used.
    Spool(io::Error),
    /// The archive could not be written.
    Output(io::Error),
    /// The archive ends inside a structure.
    Truncated {
        /// The start of the structure.
        at: Location,
        /// The truncated structure.
        what: &'static str,
    },
    /// A header field has an illegal value.
    Field {
        /// The start of the header.
        at: Location,
        /// The name of the field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The legal values.
        expected: &'static str,
    },
    /// A checksum does not match.
    Checksum {
        /// The start of the header.
        at: Location,
        /// The protected structure.
        what: &'static str,
        /// The checksum in the archive.
        stored: u64,
        /// The checksum of the bytes.
        computed: u64,
    },
    /// The name or path of a member is not allowed.
    Member {
        /// The start of its header.
        at: Location,
        /// Its stored path.
        path: Vec<u8>,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// A known format that is not supported.
    Unsupported {
        /// The place.
        at: Location,
        /// The format.
        what: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
    /// The bytes are not an archive.
    UnknownFormat {
        /// The first bytes in hexadecimal.
        found: String,
    },
    /// A line of a device table breaks the rules.
    DeviceTable {
        /// Line number, counted from 1.
        line: usize,
        /// What was found and what was expected.
        reason: String,
    },
    /// A line of a SELinux file-contexts file breaks the rules.
    FileContexts {
        /// Line number, counted from 1.
        line: usize,
        /// What was found and what was expected.
        reason: String,
    },
    /// A list of id ranges breaks the rules.
    IdMap {
        /// The list.
        text: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// An entry cannot be part of a tree.
    Source {
        /// The entry.
        path: PathBuf,
        /// The reason.
        source: SourceError,
    },
    /// The output file lies in the source directory.
    OutputInside {
        /// The output file.
        path: PathBuf,
    },
    /// The destination is not empty.
    DestinationNotEmpty {
        /// The destination.
        path: PathBuf,
    },
    /// The file system could not read the top directory.
    Fs(FsError),
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { what, path, source } => {
                write!(f, "{}: could not {what}: {source}", path.display())
            }
            Self::Input { at, source } => write!(f, "{at}: could not read the archive: {source}"),
            Self::Spool(error) => write!(
                f,
                "could not spool the contents of the archive into a temporary file: {error}"
            ),
            Self::Output(error) => write!(f, "could not write the archive: {error}"),
            Self::Truncated { at, what } => write!(f, "{at}: the archive ends within {what}"),
            Self::Field { at, field, found, expected } => {
                write!(f, "{at}: {field} is {found}, expected {expected}")
            }
            Self::Checksum { at, what, stored, computed } => write!(
                f,
                "{at}: {what} checksum mismatch: stored {stored:#x}, computed {computed:#x}"
            ),
            Self::Member { at, path, reason } => {
                write!(f, "{at}: member `{}`: {reason}", String::from_utf8_lossy(path))
            }
            Self::Unsupported { at, what, hint } => {
                write!(f, "{at}: {what} is not supported; {hint}")
            }
            Self::UnknownFormat { found } => write!(
                f,
                "byte 0: this is neither a tar nor a cpio archive: it begins with {found}"
            ),
            Self::DeviceTable { line, reason } => write!(f, "device table line {line}: {reason}"),
            Self::FileContexts { line, reason } => write!(f, "file contexts line {line}: {reason}"),
            Self::IdMap { text, reason } => write!(f, "id map `{text}`: {reason}"),
            Self::Source { path, source } => write!(f, "{}: {source}", path.display()),
            Self::OutputInside { path } => {
                write!(f, "{}: the output file lies inside the source directory", path.display())
            }
            Self::DestinationNotEmpty { path } => write!(
                f,
                "{}: the destination is not empty, and overwriting was not requested",
                path.display()
            ),
            Self::Fs(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl Error for TreeError {}

impl From<FsError> for TreeError {
    fn from(error: FsError) -> Self {
        Self::Fs(error)
    }
}

impl TreeError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Host { source, .. } | Self::Input { source, .. } => Some(source),
            Self::Spool(error) | Self::Output(error) => Some(error),
            Self::Fs(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Host { source, .. } | Self::Spool(source) | Self::Output(source) => {
                if source.kind() == io::ErrorKind::StorageFull {
                    ErrorClass::NoSpace
                } else {
                    ErrorClass::Caller
                }
            }
            Self::Input { .. }
            | Self::Truncated { .. }
            | Self::Field { .. }
            | Self::Checksum { .. }
            | Self::Member { .. } => ErrorClass::Corruption,
            Self::Unsupported { .. } | Self::UnknownFormat { .. } => ErrorClass::Unsupported,
            Self::DeviceTable { .. }
            | Self::FileContexts { .. }
            | Self::IdMap { .. }
            | Self::Source { .. }
            | Self::OutputInside { .. }
            | Self::DestinationNotEmpty { .. } => ErrorClass::Caller,
            Self::Fs(error) => match error.kind() {
                FsErrorKind::Corrupted => ErrorClass::Corruption,
                FsErrorKind::Io => ErrorClass::Media,
                FsErrorKind::Unsupported | FsErrorKind::NoKey => ErrorClass::Unsupported,
                FsErrorKind::NoSpace => ErrorClass::NoSpace,
                _ => ErrorClass::Caller,
            },
        }
    }

    pub(crate) fn host(
        what: &'static str,
        path: impl AsRef<Path>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Host { what, path: path.as_ref().to_owned(), source: source.into() }
    }
}
