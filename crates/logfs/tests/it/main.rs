//! LogFS images: the one that the reference wrote, and synthetic ones, read by us.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // also in the helpers of tests

mod golden;
mod hostile;
mod image;
mod synthetic;
