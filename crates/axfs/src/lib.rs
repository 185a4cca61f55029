//! AXFS in user space: opening an image, reading it, and making one (spec: readonly-formats B).
//!
//! [`Axfs::open`] reads the superblock and all tables, which are as long as the image says and never
//! longer than the image itself, or 64 MiB if they are compressed. Contents are located on demand: a
//! page is stored as it is, or is part of a zlib stream, whose checksum is verified.
//!
//! # Invariants
//! 1. An inode is in one directory at most, and that directory comes before it. Thus every walk ends.
//! 2. Pages stored as they are have no checksum; no finding can vouch for them.

#![allow(
    clippy::cast_possible_truncation,
    reason = "images that are made are below 4 GiB, which is checked; what is read fits a page or a link"
)]

mod codes;
mod error;
mod fs;
pub mod mkfs;
mod open;
mod pages;
mod raw;
mod split;
mod superblock;
mod table;
mod tree;

pub use error::AxfsError;
pub use open::{Axfs, Info};
pub use split::Split;
pub use superblock::{MAGIC, Superblock};
