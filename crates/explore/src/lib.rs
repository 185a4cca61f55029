//! A local web page over one image: the server, its guards, and the page that it serves.
//!
//! The crate knows nothing of flash. A [`Source`] answers the page's questions with JSON documents; the
//! library `eraseblock` has one. [`report`] puts the same page and the answers into one file.
//!
//! # Invariants
//! 1. The server listens on loopback addresses only, and changes nothing.
//! 2. A request passes all guards before a source is asked (`guard`).
//! 3. Connections, sizes of requests and answers, and times are bounded.

mod assets;
mod guard;
mod question;
pub mod report;
mod server;

pub use question::{Answer, LARGEST, Question, Refusal, Source};
pub use server::{Server, ServerOptions};
