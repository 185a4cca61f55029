//! The on-flash format of UBIFS: bytes to checked types and back. No input or output, no policy.
//!
//! `raw` holds the structures byte for byte, `key` and `hash` the keys, `lpt` the bit-packed LEB
//! properties tree, `layout` the areas of a volume and the formulas behind them.

pub mod constants;
pub mod encode;
pub mod key;
pub mod layout;
pub mod lpt;
pub mod raw;

pub use key::{Key, KeyHash, KeyKind};
