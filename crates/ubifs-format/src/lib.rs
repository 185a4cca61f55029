//! The on-flash format of UBIFS: bytes to checked types and back. No input or output, no policy.
//!
//! `raw` holds the structures byte for byte, `node` the checked ones, `decode` and `verify` the way
//! from one to the other, `encode` the way back, `scan` what lies one behind the other in a LEB,
//! `key` the keys, `lpt` the bit-packed LEB properties tree, `layout` the areas of a volume and the
//! formulas behind them.

#![cfg_attr(not(feature = "std"), no_std)]
// Lengths and offsets are those inside one LEB, which is at most 1 GiB.
#![allow(clippy::cast_possible_truncation)]

extern crate alloc;

pub mod constants;
pub mod decode;
pub mod encode;
pub mod error;
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
