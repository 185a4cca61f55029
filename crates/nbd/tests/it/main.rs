//! The server with clients that keep to the protocol and others that break it.

// Helpers of tests are test code, which clippy cannot detect; numbers are small.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

mod abuse;
mod client;
mod server;
