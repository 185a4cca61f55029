//! The story of a state: the preceding operations, the position of the power cut, what it left, and
//! what every attach or mount saw. For users, and for programs that classify violations.
//!
//! # Invariants
//! 1. A story is a pure function of the id of its state, like the verdict on it.
//! 2. Recording does not change the verdict: it uses only data that the judge reads in any case.

pub(crate) mod flash;
mod rules;

pub use rules::expected_by;

use eraseblock_nandsim::{Recorded, Snapshot};
use std::cell::RefCell;

/// Number of flash events shown before a cut.
const BEFORE: usize = 8;
/// Number of flash events shown that the cut prevented.
const AFTER: usize = 3;
/// Number of operations shown before the one that was cut.
const OPERATIONS: usize = 12;
/// Number of lines shown of one look at a state.
const LINES: usize = 60;

/// The history of a state, and the observations of it.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Story {
    /// The last operations, the interrupted one at the end.
    pub operations: Vec<String>,
    /// The cuts, in their order.
    pub cuts: Vec<CutStory>,
    /// The chip around the last cut.
    #[serde(skip)]
    pub chips: Option<Chips>,
}

/// The chip around a power cut.
#[derive(Clone, Debug)]
pub struct Chips {
    /// Just before the cut.
    pub before: Snapshot,
    /// As the cut left it, before anything was read.
    pub cut: Snapshot,
    /// After the recovery: the first attach or mount, and the work in the background that follows,
    /// as far as they succeeded.
    pub recovered: Snapshot,
}

/// A power cut, and the observations afterwards.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct CutStory {
    /// The id of the state it left.
    pub id: String,
    /// What the cut left of its event.
    pub left: String,
    /// The flash events around it.
    pub events: Vec<FlashEvent>,
    /// The observations of each attach or mount since then, until the next cut.
    pub looks: Vec<Sight>,
}

/// A flash event near a cut.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct FlashEvent {
    /// Its number.
    pub number: u64,
    /// What it does.
    pub what: String,
    /// Its fate.
    pub fate: Fate,
}

/// The fate of a flash event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It was complete before the cut.
    Done,
    /// The power went off during it.
    Cut,
    /// It did not happen.
    Never,
}

/// The observations of an attach or mount.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Sight {
    /// The attach or mount.
    pub by: String,
    /// The observations.
    pub lines: Vec<String>,
}

impl Story {
    /// Records the operations up to the one that was cut.
    pub(crate) fn tell_operations(&mut self, operations: &[String]) {
        let first = operations.len().saturating_sub(OPERATIONS);
        self.operations = operations[first..].to_vec();
    }

    /// Records a cut during one of `events`, or before all of them if none has this number.
    pub(crate) fn tell_cut(
        &mut self,
        id: String,
        left: String,
        events: &[Recorded],
        number: u64,
        words: &dyn Fn(&Recorded) -> String,
    ) {
        let at = events.iter().position(|event| event.event.number >= number);
        let at = at.unwrap_or(events.len());
        let near = &events[at.saturating_sub(BEFORE)..events.len().min(at + 1 + AFTER)];
        let fate = |event: &Recorded| match event.event.number.cmp(&number) {
            std::cmp::Ordering::Less => Fate::Done,
            std::cmp::Ordering::Equal => Fate::Cut,
            std::cmp::Ordering::Greater => Fate::Never,
        };
        let events = near
            .iter()
            .map(|event| FlashEvent {
                number: event.event.number,
                what: words(event),
                fate: fate(event),
            })
            .collect();
        self.cuts.push(CutStory { id, left, events, looks: Vec::new() });
    }

    /// Records the observations since the last cut.
    pub(crate) fn tell_looks(&mut self, diary: Diary) {
        if let Some(cut) = self.cuts.last_mut() {
            cut.looks = diary.sights.into_inner();
        }
    }
}

/// The observations of the judge, in order.
#[derive(Debug, Default)]
pub(crate) struct Diary {
    sights: RefCell<Vec<Sight>>,
    recovered: RefCell<Option<Snapshot>>,
}

impl Diary {
    /// Starts with an attach or mount.
    pub(crate) fn begin(&self, by: impl Into<String>) {
        self.sights.borrow_mut().push(Sight { by: by.into(), lines: Vec::new() });
    }

    /// Keeps the chip after the recovery.
    pub(crate) fn keep(&self, recovered: Snapshot) {
        *self.recovered.borrow_mut() = Some(recovered);
    }

    /// Returns the chip after the recovery, if that succeeded.
    pub(crate) fn recovered(&self) -> Option<Snapshot> {
        self.recovered.borrow().clone()
    }

    /// Adds to its observations.
    pub(crate) fn note(&self, lines: impl IntoIterator<Item = String>) {
        if let Some(sight) = self.sights.borrow_mut().last_mut() {
            sight.lines.extend(lines);
            let more = sight.lines.len().saturating_sub(LINES);
            if more > 0 {
                sight.lines.truncate(LINES);
                sight.lines.push(format!("and {more} lines more"));
            }
        }
    }
}
