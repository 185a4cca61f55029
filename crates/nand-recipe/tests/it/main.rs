//! Tests of the crate as a user sees it.

mod judged;
mod negatives;
mod recipes;
mod roundtrip;
mod support;
