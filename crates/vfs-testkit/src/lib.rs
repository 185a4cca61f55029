//! The test kit of file systems: a model of what every operation means, operations to perform on a
//! file system and on the model, and comparisons of the results. Tests and the power-cut lab use
//! it; reading and writing images do not.

pub mod compare;
pub mod drive;
pub mod everything;
pub mod fill;
#[cfg(feature = "manifest")]
pub mod golden;
#[cfg(feature = "manifest")]
pub mod manifest;
pub mod memory;
pub mod model;
pub mod ops;
pub mod scripted;

pub use compare::{CompareOptions, Difference, same_tree};
pub use everything::read_everything;
pub use memory::MemoryFs;
pub use model::{ModelFs, ModelRules};
