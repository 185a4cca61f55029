//! Exhaustive power cuts of UBI. A workload runs once on a simulated chip. At every flash event a
//! copy of the chip is made for each variant of a cut, in the state that the cut may leave. Each
//! copy is switched on, attached and judged; then the recovery itself is cut.
//!
//! # Invariants
//! 1. A violation is a pure function of its [`ReplayId`]: [`replay`] finds it again.
//! 2. The judge uses only the model and the results of public operations, no internal state.

mod campaign;
mod engine;
mod id;
mod judge;
mod model;
mod shape;
mod workload;

pub use campaign::{Campaign, Summary, campaign};
pub use engine::{explain, replay, ubi};
pub use id::ReplayId;
pub use shape::Shape;

use crate::story::Story;
use std::collections::BTreeMap;
use std::time::Duration;

/// What to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The chip.
    pub shape: Shape,
    /// Chooses the operations and the random parts of the cuts.
    pub seed: u64,
    /// Stop after judging this many states.
    pub budget_states: Option<u64>,
    /// Stop after this time.
    pub budget_time: Option<Duration>,
    /// Operations performed before anything is judged, so that the device has a history.
    pub warm_up: u32,
    /// Cut the recovery of every n-th state as well; 0 for none.
    pub nested_every: u32,
    /// Judge every n-th state only, to cover more operations in the same time. 1 for all.
    pub judge_every: u32,
    /// Stop after this many violations.
    pub max_violations: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shape: Shape::Mini,
            seed: 1,
            budget_states: None,
            budget_time: None,
            warm_up: 0,
            nested_every: 64,
            judge_every: 1,
            max_violations: 20,
        }
    }
}

/// What was tried and what was found.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub struct Report {
    /// The chip.
    pub shape: &'static str,
    /// The seed.
    pub seed: u64,
    /// Operations of the workload.
    pub operations: u64,
    /// Operations by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Counts of background work and of injected faults.
    pub background: BTreeMap<&'static str, u64>,
    /// Flash events of the workload.
    pub events: u64,
    /// States attached and judged.
    pub states: u64,
    /// Different chip contents among them.
    pub distinct_states: u64,
    /// States judged that arose by a cut during recovery.
    pub nested_states: u64,
    /// States by variant.
    pub variants: BTreeMap<String, u64>,
    /// Seconds it took.
    pub seconds: f64,
    /// Violations found.
    pub violations: Vec<Violation>,
}

/// A state that breaks a rule.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Violation {
    /// The id with which `replay` reproduces it.
    pub id: ReplayId,
    /// The operation that was interrupted.
    pub operation: String,
    /// The rule that is broken.
    pub rule: &'static str,
    /// What was found and what was expected.
    pub message: String,
}

/// A state judged again, and how it arose.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The broken rule, if one is.
    pub violation: Option<Violation>,
    /// How it arose.
    pub story: Story,
}

/// Why a campaign or a replay could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The text is no replay id.
    #[error("`{text}` is not a replay id: expected ubi/SHAPE/SEED@EVENT.VARIANT[+EVENT.VARIANT]")]
    Id {
        /// The text.
        text: String,
    },
    /// The workload has no such event, or the variant does not apply to it.
    #[error("{id}: the workload has no such event or variant")]
    NoSuchEvent {
        /// The id.
        id: ReplayId,
    },
    /// The chip could not be prepared.
    #[error("preparing the chip: {0}")]
    Prepare(#[from] eraseblock_ubi::UbiError),
}
