//! UBIFS: building, reading, checking and changing it.

// Lengths and offsets are those inside one LEB, which is at most 2 MiB.
#![allow(clippy::cast_possible_truncation)]

pub mod mkfs;
