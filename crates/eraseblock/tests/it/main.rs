//! The library as a program uses it, on images that the tests build.

mod edit;
mod examples;
mod open;
mod readme;
mod sample;
