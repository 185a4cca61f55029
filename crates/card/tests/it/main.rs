//! Tests of cards through their public interface.

// Helpers of tests are test code, which clippy cannot detect; numbers are small.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_precision_loss)]

mod collapse;
mod hostile;
mod properties;
