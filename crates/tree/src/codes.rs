//! Codes of findings with a remedy of their own.

use eraseblock_base::{Code, Remedy};

/// A range of a file cannot be read.
pub const CONTENT_LOST: Code = Code::new("content-lost", Remedy::Lost);
/// A directory cannot be read.
pub const DIRECTORY_UNREADABLE: Code = Code::new("directory-unreadable", Remedy::Lost);
/// An inode cannot be read.
pub const INODE_UNREADABLE: Code = Code::new("inode-unreadable", Remedy::Lost);
/// An attribute cannot be read.
pub const XATTR_LOST: Code = Code::new("xattr-lost", Remedy::Lost);
