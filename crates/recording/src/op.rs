//! Operations (spec: ops 2).

use eraseblock_vfs::{FileKind, RenameMode};
use serde::{Deserialize, Serialize};

/// One line of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Nanoseconds since the recording began.
    pub at: u64,
    /// The thread or process, if it is known; otherwise 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub thread: u64,
    /// What was done.
    #[serde(flatten)]
    pub op: Op,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it with a reference
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A name, a path or a target: text, or any bytes in hexadecimal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Name {
    /// UTF-8.
    Text(String),
    /// Other bytes.
    Bytes {
        /// Two digits for each byte.
        hex: String,
    },
}

impl Name {
    /// Creates a name of any bytes.
    pub fn new(bytes: &[u8]) -> Self {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Self::Text(text.to_owned());
        }
        let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
        let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        Self::Bytes { hex: digits.collect() }
    }

    /// Returns the bytes; `None` if the digits are wrong.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Bytes { hex } => hex
                .as_bytes()
                .chunks(2)
                .map(|digits| {
                    let digits = std::str::from_utf8(digits).ok().filter(|it| it.len() == 2)?;
                    u8::from_str_radix(digits, 16).ok()
                })
                .collect(),
        }
    }
}

/// The kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe, a socket or a device, replayed as a named pipe.
    Special,
}

impl From<FileKind> for Kind {
    fn from(kind: FileKind) -> Self {
        match kind {
            FileKind::Regular => Self::File,
            FileKind::Directory => Self::Directory,
            FileKind::Symlink => Self::Symlink,
            FileKind::BlockDevice | FileKind::CharDevice | FileKind::Fifo | FileKind::Socket => {
                Self::Special
            }
        }
    }
}

/// What a rename does if the new name exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Replaces it.
    #[default]
    Replace,
    /// Refuses.
    NoReplace,
    /// Exchanges both names.
    Exchange,
    /// Replaces it, and leaves a whiteout.
    Whiteout,
}

impl From<RenameMode> for How {
    fn from(mode: RenameMode) -> Self {
        match mode {
            RenameMode::Replace => Self::Replace,
            RenameMode::NoReplace => Self::NoReplace,
            RenameMode::Exchange => Self::Exchange,
            RenameMode::Whiteout => Self::Whiteout,
        }
    }
}

impl From<How> for RenameMode {
    fn from(how: How) -> Self {
        match how {
            How::Replace => Self::Replace,
            How::NoReplace => Self::NoReplace,
            How::Exchange => Self::Exchange,
            How::Whiteout => Self::Whiteout,
        }
    }
}

/// An operation that succeeded. Files have numbers, which are not used again; 0 is the root.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Op {
    /// A file that existed before is used for the first time.
    Found {
        /// Its number from now on.
        file: u64,
        /// Its path from the root, without a slash at the start.
        path: Name,
        /// Its kind.
        kind: Kind,
        /// Its size in bytes.
        #[serde(default, skip_serializing_if = "is_zero")]
        size: u64,
    },
    /// A file gets its first name.
    Create {
        /// Its number from now on.
        file: u64,
        /// The directory.
        dir: u64,
        /// The name.
        name: Name,
        /// Its kind.
        kind: Kind,
        /// Permission bits.
        mode: u32,
        /// The target of a symbolic link.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<Name>,
    },
    /// A file without a name is created, and open.
    CreateUnnamed {
        /// Its number from now on.
        file: u64,
        /// A directory of the file system.
        dir: u64,
        /// Permission bits.
        mode: u32,
    },
    /// A file gets another name.
    Link {
        /// The file.
        file: u64,
        /// The directory of the name.
        dir: u64,
        /// The name.
        name: Name,
    },
    /// A name is removed.
    Unlink {
        /// The directory.
        dir: u64,
        /// The name.
        name: Name,
    },
    /// An empty directory is removed.
    RemoveDir {
        /// The directory it is in.
        dir: u64,
        /// The name.
        name: Name,
    },
    /// A name is changed.
    Rename {
        /// The old directory.
        dir: u64,
        /// The old name.
        name: Name,
        /// The new directory.
        to: u64,
        /// The new name.
        new: Name,
        /// What happens to a file that has the new name.
        #[serde(default)]
        how: How,
    },
    /// Data is written.
    Write {
        /// The file.
        file: u64,
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        len: u64,
        /// To which share of its size it could be compressed, in percent.
        #[serde(default = "whole", skip_serializing_if = "is_whole")]
        dense: u8,
    },
    /// Data is read.
    Read {
        /// The file.
        file: u64,
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
        len: u64,
    },
    /// The size of a file is set.
    Resize {
        /// The file.
        file: u64,
        /// Its new size in bytes.
        size: u64,
    },
    /// Other attributes are changed.
    SetAttr {
        /// The file.
        file: u64,
        /// Permission bits, if they are changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
    },
    /// An extended attribute is set.
    SetXattr {
        /// The file.
        file: u64,
        /// Its name, with the namespace.
        name: Name,
        /// Bytes of its value.
        len: u32,
    },
    /// An extended attribute is removed.
    RemoveXattr {
        /// The file.
        file: u64,
        /// Its name.
        name: Name,
    },
    /// A file is opened.
    Open {
        /// The file.
        file: u64,
    },
    /// An open file is closed.
    Release {
        /// The file.
        file: u64,
    },
    /// A file is made durable.
    SyncFile {
        /// The file.
        file: u64,
    },
    /// Everything is made durable.
    Sync,
}

/// The share of data that cannot be compressed, in percent.
fn whole() -> u8 {
    100
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it with a reference
fn is_whole(dense: &u8) -> bool {
    *dense >= whole()
}

impl Op {
    /// Returns its name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Found { .. } => "found",
            Self::Create { .. } => "create",
            Self::CreateUnnamed { .. } => "create-unnamed",
            Self::Link { .. } => "link",
            Self::Unlink { .. } => "unlink",
            Self::RemoveDir { .. } => "remove-dir",
            Self::Rename { .. } => "rename",
            Self::Write { .. } => "write",
            Self::Read { .. } => "read",
            Self::Resize { .. } => "resize",
            Self::SetAttr { .. } => "set-attr",
            Self::SetXattr { .. } => "set-xattr",
            Self::RemoveXattr { .. } => "remove-xattr",
            Self::Open { .. } => "open",
            Self::Release { .. } => "release",
            Self::SyncFile { .. } => "sync-file",
            Self::Sync => "sync",
        }
    }
}
