//! The on-flash structures of YAFFS1 and YAFFS2 and their checked types: tags and their ECC, object
//! headers, xattr records, block summaries and checkpoints in both byte orders (spec: yaffs2 2 to 4,
//! 7, 8, 11).
//!
//! This crate does no input or output. Flash does not record the byte order, so every function
//! takes a [`ByteOrder`], which is determined once per image.

#![cfg_attr(not(feature = "std"), no_std)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths are bounded by a page, which is below 4 GiB"
)]

extern crate alloc;

pub mod checkpoint;
pub mod constants;
pub mod ecc;
mod error;
mod header;
pub mod small;
pub mod summary;
mod tags;
pub mod xattr;

pub use eraseblock_base::ByteOrder;
pub use error::FormatError;
pub use header::{Header, ObjectKind};
pub use tags::{Extra, PackedTags, Tags};
