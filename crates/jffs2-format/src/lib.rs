//! The on-flash structures of JFFS2 and their checked types: node framing, INODE, DIRENT, XATTR,
//! XREF and SUMMARY nodes in both byte orders, the rules for scanning an eraseblock, and the stored
//! form of ACLs (spec: jffs2 2 to 5, 10, 12.2).
//!
//! This crate does no input or output. Flash does not record the byte order, so every function
//! takes a [`ByteOrder`], which is determined once per image.

#![cfg_attr(not(feature = "std"), no_std)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths are bounded by an erase block, which is below 4 GiB"
)]

extern crate alloc;

pub mod acl;
pub mod constants;
pub mod decode;
pub mod encode;
mod error;
pub mod fields;
pub mod node;
mod order;
pub mod scan;
pub mod summary;

pub use eraseblock_base::ByteOrder;
pub use error::FormatError;
pub use node::{Dirent, Header, Inode, NodeKind, UnknownClass, Xattr, Xref};
pub use order::{crc32, device, device_bytes};
