//! Codes of findings with a remedy of their own.

use eraseblock_base::{Code, Remedy};

/// Nothing of a past commit is left.
pub const COMMIT_GONE: Code = Code::new("commit-gone", Remedy::Lost);
/// Index nodes of a past commit are gone.
pub const COMMIT_IN_PARTS: Code = Code::new("commit-in-parts", Remedy::Lost);
/// A data node is damaged.
pub const DATA_CORRUPT: Code = Code::new("data-corrupt", Remedy::Lost);
/// A directory entry is damaged.
pub const ENTRY_LOST: Code = Code::new("entry-lost", Remedy::Lost);
/// An operation that a power cut cut short is dropped.
pub const GROUP_DROPPED: Code = Code::new("group-dropped", Remedy::Mount);
/// The end of the image is missing.
pub const IMAGE_CUT_SHORT: Code = Code::new("image-cut-short", Remedy::Lost);
/// An inode whose creation a power cut cut short.
pub const INODE_UNBORN: Code = Code::new("inode-unborn", Remedy::Mount);
/// The journal was replayed.
pub const JOURNAL_REPLAYED: Code = Code::new("journal-replayed", Remedy::Mount);
/// The journal was found without the log.
pub const JOURNAL_SEARCHED: Code = Code::new("journal-searched", Remedy::Mount);
/// The journal ends in a torn write.
pub const JOURNAL_TORN: Code = Code::new("journal-torn", Remedy::Mount);
/// A node that the index names cannot be read.
pub const LEAF_LOST: Code = Code::new("leaf-lost", Remedy::Lost);
/// The log ends in a torn write.
pub const LOG_RECOVERED: Code = Code::new("log-recovered", Remedy::Mount);
/// One copy of the master node is used.
pub const MASTER_RECOVERED: Code = Code::new("master-recovered", Remedy::Mount);
/// Deleted inodes that were still open were removed.
pub const ORPHANS_REMOVED: Code = Code::new("orphans-removed", Remedy::Mount);
/// The size of a file is that of its content.
pub const SIZE_FIXED: Code = Code::new("size-fixed", Remedy::Mount);
