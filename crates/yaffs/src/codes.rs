//! Codes of findings with a remedy of their own.

use eraseblock_base::{Code, Remedy};

/// A hard link to an object that does not exist.
pub const DANGLING_LINK: Code = Code::new("dangling-link", Remedy::Lost);
/// The newest header of an object is damaged; an older one is used, or none.
pub const HEADER_DAMAGED: Code = Code::new("header-damaged", Remedy::Lost);
/// A header whose replaced object is not known.
pub const SHADOW_LOST: Code = Code::new("shadow-lost", Remedy::Lost);
/// Tags with more wrong bits than their ECC corrects, or with impossible values.
pub const TAGS_DAMAGED: Code = Code::new("tags-damaged", Remedy::Lost);
