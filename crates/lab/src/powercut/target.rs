//! The subject of a campaign, as the engine sees it.

use super::id::Plan;
use super::kept::Kept;
use crate::story::Diary;
use eraseblock_nandsim::{Chip, Recorded, Snapshot};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A broken rule and what was found.
pub type Broken = (&'static str, String);

/// What is tested, on the chip it lives on.
pub trait Target: Sync + Debug {
    /// Returns the first two words of replay ids: the target and the chip.
    fn name(&self) -> (&'static str, &'static str);

    /// Returns the rare events that a thorough campaign of these sequences must have met, by the
    /// names under which [`Sequence::happened`] and judges count them.
    fn demanded(&self, _plans: &[Plan]) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns how its states are chosen and distinguished.
    fn choice(&self) -> Choice;

    /// Describes a flash event.
    fn describe(&self, event: &Recorded) -> String;

    /// Makes the chip with which sequences begin. Random sequences that end have `run_length`
    /// operations.
    fn prepare<'a>(&'a self, run_length: u32) -> Result<Box<dyn Prepared<'a> + 'a>, String>;
}

/// A target with the chip with which its sequences begin.
pub trait Prepared<'a> {
    /// Begins a sequence on a copy of the chip; `None` if the target has no such sequence.
    fn start(&self, plan: Plan) -> Result<Option<Box<dyn Sequence<'a> + 'a>>, String>;

    /// Begins a sequence that ends, in which only some operations happen: those that [`Self::start`]
    /// would choose, as far as they are possible without the others. `None` if the target has no
    /// such sequence.
    fn start_kept(
        &self,
        _plan: Plan,
        _kept: &Kept,
    ) -> Result<Option<Box<dyn Sequence<'a> + 'a>>, String> {
        Ok(None)
    }
}

/// A sequence of operations in progress.
pub trait Sequence<'a> {
    /// Returns whether another part follows.
    fn has_more(&self) -> bool;

    /// Performs the next operations, as many as are judged together. A replay performs the same
    /// ones in the same parts.
    fn next(&mut self) -> Part<'a>;

    /// Returns counts of occasional activities so far.
    fn happened(&self) -> BTreeMap<&'static str, u64>;
}

/// Operations that are judged together.
#[derive(Debug)]
pub struct Part<'a> {
    /// The operations.
    pub steps: Vec<Step<'a>>,
    /// The chip after the last one, and what may be found there if nothing more happens.
    pub rest: Option<(Snapshot, Expected<'a>)>,
    /// What was found wrong without a cut.
    pub uncut: Vec<Uncut>,
    /// Whether it is judged; otherwise it only gives the device a history.
    pub is_judged: bool,
}

/// A rule that is broken without a cut.
#[derive(Debug)]
pub struct Uncut {
    /// The operations up to then.
    pub operations: Vec<String>,
    /// The rule, and what was found.
    pub broken: Broken,
}

/// A completed operation.
#[derive(Debug)]
pub struct Step<'a> {
    /// Its kind, if the target counts kinds.
    pub kind: Option<&'static str>,
    /// Its flash events, each with the chip before it.
    pub events: Vec<Recorded>,
    /// What may be found after a cut while it was in progress.
    pub during: Expected<'a>,
    /// The chip after it had returned and what may be found then, if that promises more.
    pub after: Option<(Snapshot, Expected<'a>)>,
}

/// What may be found after a cut.
#[derive(Debug)]
pub struct Expected<'a> {
    /// The last operations so far, the interrupted one at the end.
    pub operations: Vec<String>,
    /// Decides on a state.
    pub judge: Box<dyn Judge + 'a>,
}

/// Knows what a cut may leave.
pub trait Judge: Send + Sync + Debug {
    /// Switches the chip on, attaches or mounts what is on it, and judges the result.
    fn judge<'s>(&'s self, chip: Chip, trial: &Trial<'_>) -> Verdict<'s>;
}

/// How a state is judged.
#[derive(Debug, Default)]
pub struct Trial<'a> {
    /// Whether cells may change while they are read: parts may be lost, but nothing may be wrong.
    pub unstable: bool,
    /// Whether to try what is not tried on every state, because it takes long.
    pub closely: bool,
    /// Whether the flash events of the recovery are needed.
    pub keep_events: bool,
    /// Records the observations of every attach or mount, if requested.
    pub(crate) diary: Option<&'a Diary>,
    /// Counts what attaches and mounts do now and then, if requested.
    pub(crate) tally: Option<&'a Tally>,
}

/// Counts of what attaches and mounts do now and then, by name.
#[derive(Debug, Default)]
pub(crate) struct Tally(RefCell<BTreeMap<&'static str, u64>>);

impl Tally {
    /// Counts one more.
    pub(crate) fn count(&self, what: &'static str) {
        *self.0.borrow_mut().entry(what).or_default() += 1;
    }

    /// Returns the counts.
    pub(super) fn into_counts(self) -> BTreeMap<&'static str, u64> {
        self.0.into_inner()
    }
}

/// The verdict on a state.
#[derive(Debug)]
pub struct Verdict<'s> {
    /// The broken rule, if one is.
    pub broken: Option<Broken>,
    /// Flash events of the recovery, if requested.
    pub events: Vec<Recorded>,
    /// Whether decaying cells made a recovery fail and a later one was right.
    pub came_later: bool,
    /// Decides on states after a cut of the recovery, if that is not the same judge.
    pub then: Option<Box<dyn Judge + 's>>,
}

/// Which states of a target are judged. Another value changes which states a campaign with given
/// arguments judges, but never the meaning of an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Whether states with different out-of-band bytes differ.
    pub spare: bool,
    /// Whether states with the same content differ if events of different blocks were cut.
    pub place: bool,
    /// Whether `judge_every` counts from the number of flash events after a part, not before it.
    pub counts_own_events: bool,
}

/// Number of operations that an [`Expected`] keeps.
const RECENT: usize = 40;

/// Returns the last operations.
pub(crate) fn recent(operations: &[String]) -> Vec<String> {
    operations[operations.len().saturating_sub(RECENT)..].to_vec()
}
