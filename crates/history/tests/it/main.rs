//! The past of volumes whose every state is known.

#![allow(clippy::cast_possible_truncation)] // volumes of tests are small
#![allow(clippy::unwrap_used)] // also in the helpers of tests

mod flash;
mod marked;
mod model;
mod past;
