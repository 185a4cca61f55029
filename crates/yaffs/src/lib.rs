//! YAFFS1 and YAFFS2 in user space: finding the geometry of an image that does not state it, opening
//! it without writing, and reading it as the reference does (spec: yaffs2 6 to 8, 10 to 12); building
//! YAFFS2 images; mounting YAFFS2 for writing.
//!
//! [`Yaffs::open`] restores a valid checkpoint or scans the tags of every page. It keeps 16 bytes
//! for each chunk in use and the header of each object; contents are read on demand, and data whose
//! ECC fails is never delivered.

#![allow(
    clippy::cast_possible_truncation,
    reason = "pages are numbered with 32 bits, which opening makes sure of"
)]

pub mod codes;
mod detect;
mod error;
mod fs;
mod layout;
mod locate;
mod medium;
pub mod mkfs;
mod mount;
mod objects;
mod page;
mod restore;
pub mod rw;
mod scan;
mod small;
mod tree;

pub use detect::{Hints, detect};
pub use eraseblock_mtd::ReadError;
pub use error::YaffsError;
pub use layout::{DataEcc, Layout, TagsPlace, Version};
pub use locate::{HEADER_MAGIC_AT, HEADER_MAGICS, Located, locate};
pub use medium::Source;
pub use mount::{Info, OpenOptions, Origin, Yaffs};
pub use rw::{RwOptions, YaffsRw};
