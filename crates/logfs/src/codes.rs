//! Codes of findings with a remedy of their own.

use eraseblock_base::{Code, Remedy};

/// The first superblock is damaged; the second one is used.
pub const SUPERBLOCK: Code = Code::new("logfs-superblock", Remedy::Rescue);
/// The newest commit cannot be read; an older one is used.
pub const COMMIT: Code = Code::new("logfs-commit", Remedy::Rescue);
/// The image is longer than the bytes there are.
pub const TRUNCATED: Code = Code::new("logfs-truncated", Remedy::Lost);
/// A power cut interrupted the removal, creation or renaming of a file.
pub const INTERRUPTED: Code = Code::new("logfs-interrupted", Remedy::Mount);
/// An entry or a part of a directory that cannot be shown.
pub const ENTRY: Code = Code::new("logfs-entry", Remedy::Lost);
