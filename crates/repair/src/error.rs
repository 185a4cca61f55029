//! Why a volume cannot be repaired.

use eraseblock_base::{ErrorClass, Findings, Location};
use eraseblock_jffs2::Jffs2Error;
use eraseblock_mtd::MtdError;
use eraseblock_ubi::UbiError;
use eraseblock_ubifs::UbifsError;
use std::fmt;
use std::io;

/// Why a repair is impossible or was not delivered.
#[derive(Debug)]
#[non_exhaustive]
pub enum RepairError {
    /// Nothing of a UBIFS is left, or no reader opens it.
    Unreadable(UbifsError),
    /// The device failed.
    Device(MtdError),
    /// The repair of this volume is not supported.
    Unsupported {
        /// The place that says so.
        at: Location,
        /// What it is.
        what: String,
    },
    /// The new index does not fit.
    NoSpace {
        /// LEBs that are needed.
        needed: u32,
        /// LEBs that can be used.
        available: u32,
    },
    /// A flash has no eraseblock left for what must be written.
    NoBlock,
    /// UBI cannot be read.
    Ubi(UbiError),
    /// JFFS2 cannot be read.
    Jffs2(Jffs2Error),
    /// The repaired volume still has problems: it is not delivered.
    StillWrong(Findings),
    /// Something would be lost that the plan does not name: nothing is delivered.
    UnnamedLoss(Vec<String>),
    /// An undo file, or the target of one, is not what it must be.
    Undo(String),
    /// The host failed.
    Host(io::Error),
}

impl fmt::Display for RepairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "nothing to repair is found: {error}"),
            Self::Device(error) => fmt::Display::fmt(error, f),
            Self::Unsupported { at, what } => write!(f, "{at}: {what}"),
            Self::NoSpace { needed, available } => write!(
                f,
                "the new index needs {needed} free LEBs, and {available} can be made free: the \
                 volume is too full to be repaired"
            ),
            Self::NoBlock => {
                f.write_str("no eraseblock is free for what must be written: repair a copy with -o")
            }
            Self::Ubi(error) => fmt::Display::fmt(error, f),
            Self::Jffs2(error) => fmt::Display::fmt(error, f),
            Self::StillWrong(findings) => {
                write!(f, "the repaired volume is not consistent")?;
                for finding in findings.iter().take(SHOWN) {
                    write!(f, "; {finding}")?;
                }
                Ok(())
            }
            Self::UnnamedLoss(lost) => {
                write!(f, "the repair would lose what its plan does not name")?;
                for one in lost.iter().take(SHOWN) {
                    write!(f, "; {one}")?;
                }
                Ok(())
            }
            Self::Undo(message) => f.write_str(message),
            Self::Host(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl RepairError {
    /// Returns how to react.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unreadable(error) => error.class(),
            Self::Device(error) => error.class(),
            Self::Unsupported { .. } => ErrorClass::Unsupported,
            Self::NoSpace { .. } | Self::NoBlock => ErrorClass::NoSpace,
            Self::Ubi(error) => error.class(),
            Self::Jffs2(error) => error.class(),
            Self::StillWrong(_) | Self::UnnamedLoss(_) => ErrorClass::Corruption,
            Self::Undo(_) => ErrorClass::Caller,
            Self::Host(_) => ErrorClass::Media,
        }
    }

    /// Returns the cause, whose message is part of that of this error.
    pub fn get_ref(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::Host(error) => Some(error),
            Self::Ubi(error) => Some(error),
            Self::Jffs2(error) => Some(error),
            _ => None,
        }
    }
}

/// Problems that a message lists.
const SHOWN: usize = 5;

impl std::error::Error for RepairError {}

impl From<MtdError> for RepairError {
    fn from(error: MtdError) -> Self {
        Self::Device(error)
    }
}

impl From<Jffs2Error> for RepairError {
    fn from(error: Jffs2Error) -> Self {
        Self::Jffs2(error)
    }
}

impl From<UbiError> for RepairError {
    fn from(error: UbiError) -> Self {
        Self::Ubi(error)
    }
}

impl From<io::Error> for RepairError {
    fn from(error: io::Error) -> Self {
        Self::Host(error)
    }
}
