//! The C interface of the library: `eraseblock.h` and `liberaseblock`.
//!
//! Reads images, extracts, checks and builds them. The header is made of this crate (`make capi-header`),
//! so the comments of public items are written for C.
//!
//! # Invariants
//! 1. No panic leaves a function: it becomes an error with the code `EB_INTERNAL` (`guard`).
//! 2. A null pointer where an object, a path or a buffer is required is an error, never a crash.
//! 3. Objects are counted and can be used by all threads; callbacks are called by the calling thread,
//!    except those of `eb_io`.
//! 4. Structures that callers fill begin with their size, so that later versions can add fields.

pub mod build;
pub mod error;
pub mod finding;
pub mod fs;
mod guard;
pub mod image;
pub mod options;
pub mod source;
