//! LogFS in user space: opening an image and reading it (spec: readonly-formats A).
//!
//! [`Logfs::open`] reads the superblock and the newest commit of the journal; nothing else. Inodes,
//! directories and contents are found from there on demand, through trees of pointers. Every object is
//! verified each time it is read from the image: its header, its payload, its owner and its position.
//!
//! # Invariants
//! 1. Nothing that the newest readable commit does not reach is delivered.
//! 2. Memory is bounded: by the entries of one commit, and by `cache::KEPT` objects of each kind.

#![allow(
    clippy::cast_possible_truncation,
    reason = "blocks and segments are below 16 MiB, which the superblock is checked for"
)]

mod cache;
pub mod codes;
mod dir;
mod error;
mod fs;
mod journal;
mod medium;
mod object;
mod open;
mod raw;
mod superblock;
mod tree;

pub use error::LogfsError;
pub use open::{Info, Logfs};
pub use superblock::{MAGIC, Superblock};
