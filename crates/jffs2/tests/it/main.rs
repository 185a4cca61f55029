//! JFFS2 as others use it, on simulated chips.
#![allow(clippy::unwrap_used)] // also in the helpers of tests

mod compressors;
mod full;
