//! The lab: complete stacks on simulated chips, under faults, judged by models that are independent
//! of their implementation.

pub mod card;
pub mod figures;
pub mod files;
pub mod forecast;
pub mod powercut;
mod shape;
pub mod story;
pub mod ubi;
mod volume;

pub use shape::{Custom, Shape};
pub use volume::one_volume;
