//! What every other room needs and that knows no input or output: coordinates, geometry, checksums,
//! named rounding, sizes as people write them, places and findings.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod addr;
pub mod align;
pub mod crc;
pub mod finding;
pub mod geometry;
pub mod random;
pub mod size;

pub use addr::{Leb, Location, Peb, VolumeId};
pub use finding::{ErrorClass, Finding, Findings, Severity};
pub use geometry::{Geometry, GeometryError, MediumKind};
