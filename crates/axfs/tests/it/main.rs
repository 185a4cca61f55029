//! Images that the reference wrote and images that we make, read by us.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // also in the helpers of tests

mod golden;
mod hostile;
mod mkfs;
mod store;
