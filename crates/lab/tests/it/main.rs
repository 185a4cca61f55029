//! The laboratory from the outside: stacks survive, figures hold.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // an integration test is test code throughout

mod faults;
mod figures;
mod forecast;
mod jffs2;
mod promises;
mod report;
mod semantics;
mod side_by_side;
mod story;
mod ubi;
mod ubifs;
mod yaffs2;
