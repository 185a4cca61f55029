//! Errors of opening a device of the host.

use crate::block::BlockError;
use eraseblock_base::{ErrorClass, GeometryError};
use rustix::io::Errno;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A device that could not be opened, with the place, what was found and the next step.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostError {
    /// The kernel refused to open the node or to answer a query about it.
    Refused {
        /// The node.
        path: PathBuf,
        /// `open`, the name of an ioctl, or a file in sysfs.
        what: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The node is of another kind.
    WrongKind {
        /// The node.
        path: PathBuf,
        /// What was expected.
        expected: &'static str,
    },
    /// The device is in use.
    Busy {
        /// The node.
        path: PathBuf,
        /// The user.
        by: String,
    },
    /// The driver's description of the device is inconsistent or not supported.
    Unexpected {
        /// The node.
        path: PathBuf,
        /// The property.
        field: &'static str,
        /// Its value.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The driver describes an impossible geometry.
    Geometry {
        /// The node.
        path: PathBuf,
        /// The reason.
        source: GeometryError,
    },
    /// A disk cannot be used as flash.
    Block {
        /// The block device or file.
        path: PathBuf,
        /// The reason.
        source: BlockError,
    },
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { path, what, source } => {
                write!(f, "{path}: {what} failed: {source}", path = path.display())
            }
            Self::WrongKind { path, expected } => {
                write!(f, "{path}: this is not {expected}", path = path.display())
            }
            Self::Busy { path, by } => write!(f, "{path}: in use: {by}", path = path.display()),
            Self::Unexpected { path, field, found, expected } => {
                write!(f, "{path}: {field} is {found}, expected {expected}", path = path.display())
            }
            Self::Geometry { path, source } => {
                write!(f, "{path}: impossible geometry: {source}", path = path.display())
            }
            Self::Block { path, source } => write!(f, "{path}: {source}", path = path.display()),
        }
    }
}

impl Error for HostError {}

impl HostError {
    /// Returns the error that caused this one; the message of this one contains that of the cause.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused { source, .. } => Some(source),
            Self::Block { source, .. } => Some(source),
            _ => None,
        }
    }

    pub(crate) fn refused(path: &Path, what: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Refused { path: path.to_owned(), what, source: source.into() }
    }

    /// Returns the class, which decides how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused { .. } => ErrorClass::Media,
            Self::WrongKind { .. } | Self::Busy { .. } => ErrorClass::Caller,
            Self::Unexpected { .. } | Self::Geometry { .. } => ErrorClass::Unsupported,
            Self::Block { source, .. } => source.class(),
        }
    }

    /// Suggests what to do about the error.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Refused { source, .. } => match Errno::from_io_error(source)? {
                Errno::ACCESS | Errno::PERM => {
                    Some("device nodes belong to root: run as root, or change the node's group")
                }
                Errno::NODEV | Errno::NXIO => {
                    Some("the node has no driver: load its kernel module")
                }
                Errno::NOENT => Some("/proc/mtd and /sys/class/ubi list the devices"),
                Errno::NOTTY => Some("the running kernel does not support this call"),
                Errno::BUSY => Some("another process has it open for writing, perhaps a mount"),
                Errno::ROFS => Some("the driver does not allow writing to this device"),
                _ => None,
            },
            Self::Busy { .. } => Some("unmount or `ubidetach` it first"),
            Self::Block { .. }
            | Self::WrongKind { .. }
            | Self::Unexpected { .. }
            | Self::Geometry { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_next_steps() {
        let refused = |errno: Errno| HostError::refused(Path::new("/dev/mtd9"), "open", errno);
        assert!(refused(Errno::ACCESS).hint().unwrap().contains("root"));
        assert!(refused(Errno::NODEV).hint().unwrap().contains("module"));
        assert!(refused(Errno::NOTTY).hint().unwrap().contains("kernel"));
        assert_eq!(refused(Errno::NOSPC).hint(), None);
        assert!(refused(Errno::NODEV).to_string().starts_with("/dev/mtd9: open failed"));
        let busy = HostError::Busy { path: "/dev/mtd0".into(), by: "attached as ubi0".into() };
        assert_eq!(busy.to_string(), "/dev/mtd0: in use: attached as ubi0");
        assert_eq!(busy.class(), ErrorClass::Caller);
    }
}
