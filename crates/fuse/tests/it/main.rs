//! Mounts as programs meet them: the model file system through the kernel.
//! Where there is no FUSE the tests say on standard error that they are left out.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used)]

mod access;
mod cache;
mod helper;
mod model;
mod stage;
