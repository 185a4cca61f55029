//! Codes of findings with a remedy of their own.

use eraseblock_base::{Code, Remedy};

/// The magic number is missing at the end; Linux refuses the image.
pub(crate) const END_MAGIC: Code = Code::new("axfs-end-magic", Remedy::Read);
/// The image is longer than the bytes there are.
pub(crate) const TRUNCATED: Code = Code::new("axfs-truncated", Remedy::Lost);
/// A directory whose entries are elsewhere than entries can be.
pub(crate) const DIRECTORY: Code = Code::new("axfs-directory", Remedy::Lost);
/// A name that no file can have.
pub(crate) const NAME: Code = Code::new("axfs-name", Remedy::Lost);
/// Inodes in no directory.
pub(crate) const UNREACHABLE: Code = Code::new("axfs-unreachable", Remedy::Lost);
/// Names out of order: Linux does not find all of them.
pub(crate) const ORDER: Code = Code::new("axfs-order", Remedy::Read);
/// A version that was never seen.
pub(crate) const VERSION: Code = Code::new("axfs-version", Remedy::Read);
