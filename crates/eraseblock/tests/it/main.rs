//! The library as a program uses it, on images that the tests build.

#![allow(clippy::unwrap_used)] // a test may end here

mod edit;
mod examples;
mod open;
mod readme;
mod report;
mod sample;
mod volumes;
