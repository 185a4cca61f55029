//! File systems under power cuts. A [`Stack`] is a file system on a simulated chip; every stack is
//! a target of the [engine](crate::powercut).
//!
//! The judge knows what the operations mean from a model file system, and looks at the file system
//! under test through `vfs` only, apart from its own structural check.

mod allowed;
mod below;
mod copies;
mod habit;
mod history;
mod jffs2;
mod judge;
mod live;
mod on_ubi;
mod sequence;
mod stack;
mod tree;
mod ubifs;
mod witness;
mod words;
mod workload;
mod yaffs2;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod toy;

pub use habit::Habit;
pub use jffs2::Jffs2Stack;
pub use on_ubi::{MountFn, OnUbi};
pub use stack::{Happened, Mounted, Order, Rules, Stack};
pub use ubifs::{big_lpt_ubifs, tight_ubifs, ubifs};
pub use witness::{Returned, Witness};
pub use workload::{pair_count, single_count, singles};
pub use yaffs2::Yaffs2Stack;
