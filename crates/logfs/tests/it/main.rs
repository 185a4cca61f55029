//! LogFS images: the one that the reference wrote, and synthetic ones, read by us.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // also in the helpers of tests

mod golden;
mod hostile;
mod image;
#[allow(dead_code)] // it is shared with the tests of YAFFS
#[path = "../../../yaffs/tests/it/manifest.rs"]
mod manifest;
mod synthetic;
