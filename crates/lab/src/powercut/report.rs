//! What a campaign tries and what it finds.

use super::id::{Plan, StateId};
use crate::story::Story;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// What to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The sequences of operations.
    pub plans: Vec<Plan>,
    /// Chooses the random parts of the cuts, except those of a [`Plan::Workload`].
    pub seed: u64,
    /// Operations of each [`Plan::Run`] and [`Plan::Aged`].
    pub run_length: u32,
    /// Stop after judging this many states.
    pub budget_states: Option<u64>,
    /// Cut the recovery of every n-th state as well; 0 for none.
    pub nested_every: u32,
    /// Judge every n-th state only, to cover more operations in the same time. 1 for all.
    pub judge_every: u32,
    /// Judge every n-th state of a file system closely: mount it read-only as well, and check its
    /// structure once more after what was written since; 0 for none.
    pub closely_every: u32,
    /// Stop after this many violations.
    pub max_violations: usize,
}

impl Options {
    /// Returns the usual options for these sequences, without a budget.
    pub fn of(plans: Vec<Plan>) -> Self {
        Self {
            plans,
            seed: 1,
            run_length: 400,
            budget_states: None,
            nested_every: 64,
            judge_every: 1,
            closely_every: 16,
            max_violations: 20,
        }
    }

    /// Returns the usual options for an endless sequence, which a budget must end.
    pub fn workload(seed: u64, budget_states: Option<u64>) -> Self {
        Self { seed, budget_states, ..Self::of(vec![Plan::Workload(seed)]) }
    }
}

/// What was tried and what was found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// What was tested.
    pub target: &'static str,
    /// The chip.
    pub chip: &'static str,
    /// The seed of the random parts of the cuts.
    pub seed: u64,
    /// The sequence, if there was only one.
    pub plan: Option<Plan>,
    /// Sequences of operations.
    pub plans: u64,
    /// Whether the run stopped early, at a budget or at the maximum number of violations.
    pub cut_short: bool,
    /// Operations in the sequences.
    pub operations: u64,
    /// Operations by kind, if the target counts kinds.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Flash events in the sequences.
    pub events: u64,
    /// States recovered and judged.
    pub states: u64,
    /// Different chip contents among them, counted in each sequence.
    pub distinct_states: u64,
    /// States not judged because an equal one had been.
    pub duplicates: u64,
    /// States judged that arose by a cut during recovery.
    pub nested_states: u64,
    /// States with decaying cells where a mount failed and a later one was correct.
    pub came_later: u64,
    /// States judged, by variant.
    pub variants: BTreeMap<String, u64>,
    /// States judged, by the kind of flash event that was cut.
    pub cut_events: BTreeMap<&'static str, u64>,
    /// States judged, by the kind of operation that was cut.
    pub cut_operations: BTreeMap<String, u64>,
    /// Counts of occasional activities (commits, garbage collection, blocks that go bad), and of
    /// what attaches and mounts after a cut do now and then.
    pub happened: BTreeMap<&'static str, u64>,
    /// Violations found.
    pub violations: Vec<Violation>,
    /// The sum of digests of all states with their verdicts. It depends on neither their order nor
    /// the division of a campaign, so that equal sums mean equal states and verdicts.
    pub digest: u128,
}

impl Report {
    /// Adds the counts and violations of another campaign.
    pub fn add(&mut self, other: &Self) {
        self.plans += other.plans;
        self.cut_short |= other.cut_short;
        self.operations += other.operations;
        self.events += other.events;
        self.states += other.states;
        self.distinct_states += other.distinct_states;
        self.duplicates += other.duplicates;
        self.nested_states += other.nested_states;
        self.came_later += other.came_later;
        self.digest = self.digest.wrapping_add(other.digest);
        add_all(&mut self.kinds, &other.kinds);
        add_all(&mut self.variants, &other.variants);
        add_all(&mut self.cut_events, &other.cut_events);
        add_all(&mut self.cut_operations, &other.cut_operations);
        add_all(&mut self.happened, &other.happened);
        self.violations.extend(other.violations.iter().cloned());
    }
}

/// Adds counts by name.
pub(super) fn add_all<K: Ord + Clone>(sum: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (what, count) in more {
        *sum.entry(what.clone()).or_default() += count;
    }
}

/// A state that breaks a rule.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Violation {
    /// The id with which `replay` reproduces it.
    pub id: StateId,
    /// The operations, up to the one that was interrupted.
    pub operations: Vec<String>,
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
    /// How it arose; only the operations if the id names a sequence without a cut.
    pub story: Story,
}

/// Why a campaign or a replay could not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// The target has no such sequence, the sequence has no such event, or the variant does not
    /// apply to it.
    NoSuchEvent {
        /// The id.
        id: StateId,
    },
    /// The chip could not be prepared.
    Prepare {
        /// Why.
        message: String,
    },
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchEvent { id } => {
                write!(f, "{id}: the sequence has no such event or variant")
            }
            Self::Prepare { message } => write!(f, "preparing the chip: {message}"),
        }
    }
}

impl Error for LabError {}
