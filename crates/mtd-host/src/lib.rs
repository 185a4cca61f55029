//! The host's own devices behind the seams of `eraseblock-mtd`: MTD character devices
//! ([`MtdChar`]), UBI volumes of the kernel ([`UbiChar`]), and block devices used as flash
//! ([`block`]). This is the only room that calls into drivers, and the only one with `unsafe`.
//!
//! # Invariants
//! 1. A device opened for writing is opened by us alone: other openers, an attached UBI and a
//!    mounted file system are refused ([`HostError::Busy`]).
//! 2. Every buffer handed to a driver is at least as long as the length handed over with it.

pub mod abi;
pub mod block;
mod busy;
mod error;
mod mtd_char;
mod node;
mod sys;
mod ubi_char;

pub use block::{BlockDevice, BlockError, BlockShape, BlockVolume, is_block_flash};
pub use error::HostError;
pub use mtd_char::{MtdChar, MtdFacts, MtdOptions};
pub use node::{NodeKind, ubi_volume_node};
pub use ubi_char::{UbiChar, UbiFacts};
