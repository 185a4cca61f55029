//! Codes of findings with a remedy of their own.

use eraseblock_base::{Code, Remedy};

/// An access-control list is not one.
pub const ACL_DAMAGED: Code = Code::new("acl-damaged", Remedy::Lost);
/// The newest inode node is damaged; an older one is used.
pub const ATTRIBUTES_LOST: Code = Code::new("attributes-lost", Remedy::Lost);
/// A name without an inode.
pub const DANGLING_NAME: Code = Code::new("dangling-name", Remedy::Mount);
/// Bytes that are no node.
pub const NO_NODE: Code = Code::new("no-node", Remedy::Lost);
/// A node with a wrong checksum.
pub const NODE_DAMAGED: Code = Code::new("node-damaged", Remedy::Lost);
/// A node that a power cut cut short.
pub const NODE_DROPPED: Code = Code::new("node-dropped", Remedy::Mount);
/// Damage may hide newer content: see `Verdict::doubtful`.
pub const OLDER_CONTENT: Code = Code::new("older-content", Remedy::Lost);
/// A program operation failed; its data is elsewhere.
pub const PROGRAM_FAILED: Code = Code::new("program-failed", Remedy::Mount);
/// A file is shorter than its newest damaged node says.
pub const SIZE_REDUCED: Code = Code::new("size-reduced", Remedy::Lost);
/// A summary is damaged; its eraseblock is scanned.
pub const SUMMARY_DAMAGED: Code = Code::new("summary-damaged", Remedy::Mount);
/// The device cannot read a place.
pub const UNREADABLE: Code = Code::new("unreadable", Remedy::Lost);
/// An attribute is damaged.
pub const XATTR_DAMAGED: Code = Code::new("xattr-damaged", Remedy::Mount);
/// A reference to an attribute is damaged.
pub const XREF_DAMAGED: Code = Code::new("xref-damaged", Remedy::Mount);
