//! Mounts as programs use them: the model file system through the kernel. Without FUSE, the tests
//! report on standard error that they are skipped.

// Helpers of tests are test code, which clippy cannot detect.
#![allow(clippy::unwrap_used)]

mod access;
mod background;
mod cache;
mod helper;
mod model;
mod stage;
