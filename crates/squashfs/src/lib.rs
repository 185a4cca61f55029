//! SquashFS 4.0 in user space: reads images with every compressor, in both byte orders, from anything
//! that can be read at any offset (spec: readonly-formats C).
//!
//! Images of vendors are read, too: with other magic numbers, and with LZMA in streams without a header,
//! even if their superblocks say otherwise.
//!
//! Opening reads the superblock and nothing else that grows with the image. Everything is read on
//! demand, through two small caches, so that damage affects only what lies in it.
//!
//! # Invariants
//! 1. No size in an image decides about memory: a metadata block has at most 8 KiB, a data block at most
//!    1 MiB, a listing at most [`limits::LISTING`] bytes.
//! 2. A directory is reached in one way only. An image in which one has two names, or lies in itself, is
//!    damaged there; without this rule, small images would have endless trees.

mod cache;
mod dir;
mod error;
mod fs;
mod inode;
pub mod limits;
mod meta;
mod superblock;
mod tables;
mod unpack;
mod xattr;

pub use error::SquashfsError;
pub use fs::Squashfs;
pub use superblock::{Flags, MAGIC_BIG, MAGIC_LITTLE, MAGICS_OF_VENDORS, Superblock};
pub use unpack::Compressor;
