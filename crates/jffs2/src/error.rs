//! Errors of opening and mounting.

use eraseblock_base::{ErrorClass, Location};
use eraseblock_mtd::MtdError;
use std::io;

/// A failure to read an image, with the message of its source.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[non_exhaustive]
pub enum ReadError {
    /// A file, or bytes in memory.
    Image(io::Error),
    /// A flash device.
    Device(MtdError),
}

/// An image that cannot be opened, or a medium that cannot be mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Jffs2Error {
    /// No JFFS2 node was found.
    #[error("no JFFS2 node in {bytes} bytes")]
    NotJffs2 {
        /// Number of bytes searched.
        bytes: u64,
    },
    /// The image cannot be read at all.
    #[error("cannot read image: {0}")]
    Read(#[from] ReadError),
    /// An option is out of its range.
    #[error("{option} is {found}, expected {expected}")]
    Option {
        /// The invalid option.
        option: &'static str,
        /// Its value.
        found: u64,
        /// The valid values.
        expected: &'static str,
    },
    /// The medium failed while it was mounted.
    #[error("cannot mount: {0}")]
    Device(#[from] MtdError),
    /// The medium contains data, but no JFFS2: mounting would erase it (spec: jffs2 12.6).
    #[error("{blocks} blocks hold something that is not JFFS2: mounting would erase it")]
    Foreign {
        /// Blocks that are neither empty nor bad.
        blocks: u32,
    },
    /// A node of unknown type forbids the mount (spec: jffs2 4.2).
    #[error("{at}: node type {node_type:#06x} is unknown and forbids {what}")]
    Incompatible {
        /// The place.
        at: Location,
        /// Its type.
        node_type: u16,
        /// `mounting` or `mounting for writing`.
        what: &'static str,
    },
    /// The mount failed after it had started.
    #[error("cannot mount: {0}")]
    FileSystem(#[from] eraseblock_vfs::FsError),
}

impl Jffs2Error {
    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotJffs2 { .. } | Self::Foreign { .. } => ErrorClass::Corruption,
            Self::Read(_) | Self::FileSystem(_) => ErrorClass::Media,
            Self::Option { .. } => ErrorClass::Caller,
            Self::Device(error) => error.class(),
            Self::Incompatible { .. } => ErrorClass::Unsupported,
        }
    }
}
