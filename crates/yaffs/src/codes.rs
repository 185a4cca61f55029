//! Codes of findings with a remedy of their own.

use eraseblock_base::{Code, Remedy};

/// A block was erased in part.
pub const BLOCK_HALF_ERASED: Code = Code::new("block-half-erased", Remedy::Mount);
/// A checkpoint is damaged: the next mount erases it.
pub const CHECKPOINT_DAMAGED: Code = Code::new("checkpoint-damaged", Remedy::Mount);
/// A hard link to an object that does not exist.
pub const DANGLING_LINK: Code = Code::new("dangling-link", Remedy::Lost);
/// Two entries of a directory have one name.
pub const DUPLICATE_NAME: Code = Code::new("duplicate-name", Remedy::Mount);
/// The newest header of an object is damaged; an older one is used, or none.
pub const HEADER_DAMAGED: Code = Code::new("header-damaged", Remedy::Lost);
/// A header whose replaced object is not known.
pub const SHADOW_LOST: Code = Code::new("shadow-lost", Remedy::Lost);
/// An object without a directory.
pub const NO_DIRECTORY: Code = Code::new("no-directory", Remedy::Mount);
/// A page that a power cut left without whole tags.
pub const PAGE_TORN: Code = Code::new("page-torn", Remedy::Mount);
/// Tags with more wrong bits than their ECC corrects, or with impossible values.
pub const TAGS_DAMAGED: Code = Code::new("tags-damaged", Remedy::Lost);
/// The device cannot read a place.
pub const UNREADABLE: Code = Code::new("unreadable", Remedy::Lost);
/// A file that was open without a name when the power went off.
pub const UNLINKED_FILE: Code = Code::new("unlinked-file", Remedy::Mount);
