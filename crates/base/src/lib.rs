//! Shared types without input or output: addresses, geometry, byte orders, checksums, rounding, sizes
//! in text form, places and findings.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod addr;
pub mod align;
pub mod crc;
pub mod field;
pub mod finding;
pub mod geometry;
pub mod order;
pub mod random;
pub mod raw;
pub mod size;

pub use addr::{Leb, Location, Peb, VolumeId};
pub use finding::{Code, ErrorClass, Finding, Findings, Remedy, Severity};
pub use geometry::{Geometry, GeometryError, MediumKind};
pub use order::ByteOrder;
