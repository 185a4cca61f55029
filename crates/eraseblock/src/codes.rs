//! Codes of findings with a remedy of their own.

use eraseblock_base::{Code, Remedy};
pub use eraseblock_jffs2::codes::{NO_NODE, NODE_DAMAGED, UNREADABLE};
pub use eraseblock_ubi::codes::{AFTER_END_MARK, STATIC_DATA_CORRUPT};
pub use eraseblock_ubifs::codes::{DATA_CORRUPT, IMAGE_CUT_SHORT};
use eraseblock_vfs::FsErrorKind;

/// A name leads to no inode.
pub const INODE_MISSING: Code = Code::new("inode-missing", Remedy::Lost);
/// No mount accepts the file system, but it can be read.
pub const NOT_MOUNTABLE: Code = Code::new("not-mountable", Remedy::Read);
/// The device cannot read a place.
pub const READ_FAILED: Code = Code::new("read-failed", Remedy::Lost);
/// A volume cannot be opened.
pub const NOT_OPENED: Code = Code::new("not-opened", Remedy::Rescue);

/// Returns the code of a finding made of the refusal of a file system.
pub fn of_trouble(kind: FsErrorKind) -> Code {
    match kind {
        FsErrorKind::NotFound => INODE_MISSING,
        FsErrorKind::Corrupted => DATA_CORRUPT,
        FsErrorKind::Io => READ_FAILED,
        FsErrorKind::NoKey => "encrypted".into(),
        FsErrorKind::Unsupported => "unsupported".into(),
        _ => "not-delivered".into(),
    }
}
