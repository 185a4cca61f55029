//! Repairs of volumes that were damaged on purpose.

#![allow(clippy::unwrap_used, missing_docs)]

mod campaign;
mod rebuild;
mod rules;
mod volume;
