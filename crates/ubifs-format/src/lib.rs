//! The on-flash format of UBIFS: bytes to checked types and back. No input or output, no policy.
//!
//! `raw` has the structures byte for byte, `node` the checked types, `decode` and `verify` convert
//! the former to the latter, `encode` does the inverse, `scan` finds the nodes of a LEB, `key` has
//! the keys, `lpt` the bit-packed LEB properties tree, `layout` the areas of a volume and their
//! formulas.

#![cfg_attr(not(feature = "std"), no_std)]
// Lengths and offsets refer to one LEB, which is at most 1 GiB.
#![allow(clippy::cast_possible_truncation)]

extern crate alloc;

pub mod constants;
pub mod decode;
pub mod encode;
pub mod error;
pub mod fields;
pub mod key;
pub mod layout;
pub mod lpt;
pub mod node;
pub mod raw;
pub mod scan;
pub mod verify;

pub use decode::{Limits, Node};
pub use error::{Expected, FormatError};
pub use key::{Key, KeyHash, KeyKind};
pub use node::{
    Branch, CommitStart, Compression, Data, Dent, EntryKind, Header, IndexNode, Inode, Master,
    Orphan, Reference, Superblock, Time, Truncation,
};
