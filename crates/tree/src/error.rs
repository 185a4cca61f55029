//! Errors of reading or writing trees.

use eraseblock_base::{ErrorClass, Location};
use eraseblock_vfs::source::SourceError;
use eraseblock_vfs::{FsError, FsErrorKind};
use std::io;
use std::path::{Path, PathBuf};

/// The error of this crate: what, where, found and expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The host refused an operation on one of its files.
    #[error("{}: could not {what}: {source}", path.display())]
    Host {
        /// The operation, as in "open".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The archive could not be read, or its decompression failed.
    #[error("{at}: could not read the archive: {source}")]
    Input {
        /// Position in the (decompressed) archive.
        at: Location,
        /// The reason.
        source: io::Error,
    },
    /// The temporary file that holds the contents of a streamed archive could not be used.
    #[error("could not spool the contents of the archive into a temporary file: {0}")]
    Spool(#[source] io::Error),
    /// The archive could not be written.
    #[error("could not write the archive: {0}")]
    Output(#[source] io::Error),
    /// The archive ends inside a structure.
    #[error("{at}: the archive ends within {what}")]
    Truncated {
        /// The start of the structure.
        at: Location,
        /// The truncated structure.
        what: &'static str,
    },
    /// A header field has an illegal value.
    #[error("{at}: {field} is {found}, expected {expected}")]
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
    #[error("{at}: {what} checksum mismatch: stored {stored:#x}, computed {computed:#x}")]
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
    #[error("{at}: member `{}`: {reason}", String::from_utf8_lossy(path))]
    Member {
        /// The start of its header.
        at: Location,
        /// Its stored path.
        path: Vec<u8>,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// A known format that is not supported.
    #[error("{at}: {what} is not supported; {hint}")]
    Unsupported {
        /// The place.
        at: Location,
        /// The format.
        what: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
    /// The bytes are not an archive.
    #[error("byte 0: this is neither a tar nor a cpio archive: it begins with {found}")]
    UnknownFormat {
        /// The first bytes in hexadecimal.
        found: String,
    },
    /// A line of a device table breaks the rules.
    #[error("device table line {line}: {reason}")]
    DeviceTable {
        /// Line number, counted from 1.
        line: usize,
        /// What was found and what was expected.
        reason: String,
    },
    /// A line of a SELinux file-contexts file breaks the rules.
    #[error("file contexts line {line}: {reason}")]
    FileContexts {
        /// Line number, counted from 1.
        line: usize,
        /// What was found and what was expected.
        reason: String,
    },
    /// A list of id ranges breaks the rules.
    #[error("id map `{text}`: {reason}")]
    IdMap {
        /// The list.
        text: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// An entry cannot be part of a tree.
    #[error("{}: {source}", path.display())]
    Source {
        /// The entry.
        path: PathBuf,
        /// The reason.
        source: SourceError,
    },
    /// The output file lies in the source directory.
    #[error("{}: the output file lies inside the source directory", path.display())]
    OutputInside {
        /// The output file.
        path: PathBuf,
    },
    /// The destination is not empty.
    #[error("{}: the destination is not empty, and overwriting was not requested", path.display())]
    DestinationNotEmpty {
        /// The destination.
        path: PathBuf,
    },
    /// The file system could not read the top directory.
    #[error(transparent)]
    Fs(#[from] FsError),
}

impl TreeError {
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
