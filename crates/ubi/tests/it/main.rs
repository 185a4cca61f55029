//! UBI from the outside: attaching, reading and writing images.
#![allow(clippy::unwrap_used)] // an integration test is test code throughout

mod batches;
mod builder;
mod conformance;
mod detection;
mod end_marks;
mod fastmap;
mod image;
mod image_fastmap;
mod locate;
mod mutation;
mod odd;
mod random;
mod retention;
mod running;
mod unstable;
