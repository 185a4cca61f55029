//! JFFS2 in user space: opening an image or a device without writing, and reading it as Linux does
//! (spec: jffs2 6 to 10, 12).
//!
//! [`Jffs2::open`] scans every block once and keeps little: 4 bytes for a data node, 12 plus the
//! name for a directory entry, 24 for an inode. File contents are located on demand, and every
//! node's checksums are verified again when it is read.

#![allow(
    clippy::cast_possible_truncation,
    reason = "places on the medium are below 4 GiB, which opening makes sure of"
)]

mod build;
pub mod codes;
mod damage;
mod detect;
mod error;
mod fs;
mod inode;
mod medium;
pub mod mkfs;
mod mount;
mod past;
pub mod rw;
mod scan;
#[cfg(test)]
mod tests;
mod xattr;

pub use damage::DamagedPart;
pub use detect::Shape;
pub use eraseblock_mtd::ReadError;
pub use error::Jffs2Error;
pub use medium::Source;
pub use mount::{Highest, Info, Jffs2, NodeCounts, OpenOptions, Survey, compressor_name};
pub use past::{PastContent, PastNode};
pub use rw::{Compression, Jffs2Rw, MountReport, RwOptions};
