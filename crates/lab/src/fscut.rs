//! Exhaustive power cuts of file systems. A sequence of operations runs once on a simulated chip.
//! At every flash event a copy of the chip is made for each variant of a cut, in the state that
//! the cut may leave. Each copy is mounted and judged; then the recovery itself is cut.
//!
//! The judge knows what the operations mean from the model file system in `vfs`, and looks at
//! the file system under test through `vfs` only, apart from its own structural check.
//!
//! # Invariants
//! 1. A violation is a pure function of its [`CutId`]: [`replay`] finds it again.
//! 2. Threads do not change what is found, nor the order in which it is reported.

mod allowed;
mod engine;
mod hash;
mod history;
mod id;
mod jffs2;
mod judge;
mod live;
mod on_ubi;
mod target;
mod tree;
mod ubifs;
mod witness;
mod words;
mod workload;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod toy;

pub use crate::cuts::Cut;
pub use engine::{explain, explore, replay};
pub use id::{CutId, Plan};
pub use jffs2::Jffs2Target;
pub use on_ubi::{MountFn, OnUbi};
pub use target::{Mounted, Order, Rules, Target};
pub use ubifs::{big_lpt_ubifs, tight_ubifs, ubifs};
pub use witness::{Returned, Witness};
pub use workload::{pair_count, single_count};

use crate::story::Story;
use std::collections::BTreeMap;
use std::time::Duration;

/// What to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsOptions {
    /// The sequences of operations.
    pub plans: Vec<Plan>,
    /// Chooses the random parts of the cuts.
    pub seed: u64,
    /// Operations of each [`Plan::Run`] and [`Plan::Aged`].
    pub run_length: u32,
    /// Stop after judging this many states.
    pub budget_states: Option<u64>,
    /// Stop after this time.
    pub budget_time: Option<Duration>,
    /// Cut the recovery of every n-th state as well; 0 for none.
    pub nested_every: u32,
    /// Judge every n-th state only. 1 for all.
    pub judge_every: u32,
    /// Mount every n-th state read-only as well, and check its structure once more after what was
    /// written since; 0 for none.
    pub closely_every: u32,
    /// Stop after this many violations.
    pub max_violations: usize,
}

impl Default for FsOptions {
    fn default() -> Self {
        Self {
            plans: (0..single_count()).map(Plan::Single).collect(),
            seed: 1,
            run_length: 400,
            budget_states: None,
            budget_time: None,
            nested_every: 64,
            judge_every: 1,
            closely_every: 16,
            max_violations: 20,
        }
    }
}

/// What was tried and what was found.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub struct FsReport {
    /// The file system.
    pub target: String,
    /// Sequences of operations.
    pub plans: u64,
    /// Whether the run stopped early, at a budget or at the maximum number of violations.
    pub cut_short: bool,
    /// Operations in them.
    pub operations: u64,
    /// Flash events in them.
    pub events: u64,
    /// States mounted and judged, each different from the others of its sequence.
    pub states: u64,
    /// States not judged because an equal one had been.
    pub duplicates: u64,
    /// States judged that arose by a cut during recovery.
    pub nested_states: u64,
    /// States with decaying cells where a mount failed and a later one was correct.
    pub came_later: u64,
    /// States judged, by variant.
    pub variants: BTreeMap<String, u64>,
    /// Counts of occasional activities (commits, garbage collection), if there are any.
    pub happened: BTreeMap<String, u64>,
    /// Seconds it took.
    pub seconds: f64,
    /// Violations found.
    pub violations: Vec<FsViolation>,
}

/// A state that breaks a rule.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct FsViolation {
    /// The id with which `replay` reproduces it.
    pub id: CutId,
    /// The operations, up to the one that was interrupted.
    pub operations: Vec<String>,
    /// The rule that is broken.
    pub rule: &'static str,
    /// What was found and what was expected.
    pub message: String,
}

/// A state judged again, and how it arose.
#[derive(Clone, Debug)]
pub struct FsExplained {
    /// The broken rule, if one is.
    pub violation: Option<FsViolation>,
    /// How it arose; only the operations if the id names a sequence without a cut.
    pub story: Story,
}

/// Why a campaign or a replay could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsLabError {
    /// The text is no id.
    #[error("`{text}` is no replay id: expected FS/CHIP/SEQUENCE@EVENT.VARIANT[+EVENT.VARIANT]")]
    Id {
        /// The text.
        text: String,
    },
    /// The sequence has no such event, or the variant does not apply to it.
    #[error("{id}: the sequence has no such event or variant")]
    NoSuchEvent {
        /// The id.
        id: CutId,
    },
    /// The chip could not be prepared.
    #[error("preparing the chip: {message}")]
    Prepare {
        /// Why.
        message: String,
    },
}
