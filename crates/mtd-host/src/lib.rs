//! Devices of the host with the interfaces of `eraseblock-mtd`: MTD character devices
//! ([`MtdChar`]), UBI volumes of the kernel ([`UbiChar`]), and block devices used as flash
//! ([`block`]); and image files with holes ([`SparseFile`]). Only this crate calls drivers, and only this crate uses `unsafe`.
//!
//! # Invariants
//! 1. A device opened for writing has no other user: other openers, an attached UBI and a mounted
//!    file system are refused ([`HostError::Busy`]).
//! 2. Every buffer passed to a driver is at least as long as the length passed with it.

pub mod abi;
pub mod block;
mod busy;
mod error;
mod mtd_char;
mod node;
mod sparse;
mod sys;
mod ubi_char;

pub use block::{BlockDevice, BlockError, BlockShape, BlockVolume, is_block_flash};
pub use error::HostError;
pub use mtd_char::{MtdChar, MtdFacts, MtdOptions};
pub use node::{NodeKind, ubi_volume_node};
pub use sparse::SparseFile;
pub use ubi_char::{UbiChar, UbiFacts};
