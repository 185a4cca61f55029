//! The on-flash structures of UBI and the checked types decoded from them: erase-counter headers,
//! volume identifier headers, the volume table and the fastmap. No input or output happens here.
//!
//! [`raw`] has the structures as stored on flash (every bit pattern is legal there), [`decode`]
//! turns them into the checked types of [`types`], [`encode`] is its inverse, [`classify`] sorts
//! the results of header reads (spec: ubi 8.2), [`table`] handles the whole volume table,
//! [`fastmap`] the checkpoint of all this, and [`layout`] the offsets inside an eraseblock.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod classify;
pub mod constants;
pub mod decode;
pub mod encode;
pub mod error;
pub mod fastmap;
pub mod fields;
pub mod layout;
pub mod raw;
pub mod table;
pub mod types;

pub use classify::{HeaderState, ReadQuality, classify_ec, classify_vid};
pub use error::{Expected, FormatError};
pub use fastmap::{Fastmap, FastmapPool, FastmapVolume};
pub use layout::{HeaderLayout, LayoutError};
pub use types::{
    Compat, EcHeader, EraseCount, SqNum, VidHeader, VolumeFlags, VolumeKind, VolumeName,
    VolumeRecord,
};
