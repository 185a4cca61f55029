//! Tests of the crate as a user sees it.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used)]

mod judged;
mod merged;
mod negatives;
mod recipes;
mod roundtrip;
mod support;
