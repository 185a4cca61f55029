//! The states that cuts leave: enumerated, made, and each kept once.

use super::cut::{Cut, in_model};
use super::hash::{Hashes, Marked};
use super::id::StateId;
use super::target::{Choice, Expected, Judge};
use eraseblock_nandsim::{Chip, EventKind, Recorded, Snapshot, Variant};
use rayon::prelude::*;
use std::collections::HashSet;

/// The kind of a program.
pub(super) const PROGRAM: &str = "program";

/// The kind of an erase.
pub(super) const ERASE: &str = "erase";

/// The origin of a state.
#[derive(Clone, Copy)]
pub(super) enum Origin<'p> {
    /// A cut during an event.
    Event(&'p Marked, Variant),
    /// A chip on which nothing was happening.
    Idle(&'p Snapshot),
}

/// A state to make and judge.
pub(super) struct State<'p> {
    pub(super) origin: Origin<'p>,
    pub(super) id: StateId,
    pub(super) operations: &'p [String],
    pub(super) judge: &'p (dyn Judge + 'p),
    /// Number of its judge among those of the part.
    pub(super) stage: usize,
}

impl<'p> State<'p> {
    /// Returns the state after a cut of the sequence `id`, or of the recovery of the state `id`.
    pub(super) fn new(
        id: &StateId,
        origin: Origin<'p>,
        expected: &'p Expected<'_>,
        stage: usize,
    ) -> Self {
        let id = match origin {
            Origin::Event(marked, variant) => id.then_during(marked.event.event.number, variant),
            Origin::Idle(snapshot) => id.then(snapshot.next_event(), Cut::Idle),
        };
        Self { origin, id, operations: &expected.operations, judge: &*expected.judge, stage }
    }

    /// Returns the state after a cut of its recovery.
    pub(super) fn nested<'q>(
        &'q self,
        event: &'q Marked,
        variant: Variant,
        judge: &'q (dyn Judge + 'q),
    ) -> State<'q> {
        State {
            origin: Origin::Event(event, variant),
            id: self.id.then_during(event.event.event.number, variant),
            operations: self.operations,
            judge,
            stage: 0,
        }
    }

    pub(super) fn cut(&self) -> Cut {
        match self.origin {
            Origin::Event(_, variant) => Cut::During(variant),
            Origin::Idle(_) => Cut::Idle,
        }
    }

    /// Returns the kind of the event that was cut.
    pub(super) fn event(&self) -> &'static str {
        match self.origin {
            Origin::Event(marked, _) => match marked.event.event.kind {
                EventKind::Program { .. } => PROGRAM,
                EventKind::Erase { .. } => ERASE,
                EventKind::MarkBad { .. } => "bad-block mark",
            },
            Origin::Idle(_) => "no event",
        }
    }

    /// Returns the kind of the operation that was cut: its description up to the first word that is
    /// a number or a path.
    pub(super) fn operation(&self) -> String {
        let Some(last) = self.operations.last() else { return "no operation".to_owned() };
        let words = last.split_once(": ").map_or(last.as_str(), |(_, words)| words);
        let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
        words.split(' ').take_while(is_word).collect::<Vec<_>>().join(" ")
    }

    /// Returns the chip before the cut.
    pub(super) fn before(&self) -> &Snapshot {
        match self.origin {
            Origin::Event(marked, _) => &marked.event.before,
            Origin::Idle(snapshot) => snapshot,
        }
    }

    /// Returns the chip, powered off; `None` if the variant does not apply to the event. `seed`
    /// chooses the random parts of the cut.
    pub(super) fn make(&self, seed: u64) -> Option<Chip> {
        match self.origin {
            Origin::Event(Marked { event, .. }, variant) => {
                let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ event.event.number;
                event.cut(variant, seed).ok()
            }
            Origin::Idle(snapshot) => {
                let chip = snapshot.to_chip();
                chip.power_off();
                Some(chip)
            }
        }
    }

    fn hash(&self, chip: &Chip, choice: Choice, buffer: &mut Vec<u8>) -> u64 {
        match self.origin {
            Origin::Event(event, variant) => event.after(chip, variant, choice, buffer),
            Origin::Idle(snapshot) => Hashes::of(snapshot, choice).sum(),
        }
    }
}

/// A state, and its chip.
pub(super) struct Made<'p> {
    pub(super) state: State<'p>,
    pub(super) chip: Chip,
    pub(super) hash: u64,
}

/// Hashes of states, each with the number of its judge.
pub(super) type Known = HashSet<(u64, usize)>;

/// Makes the states whose variants apply, and keeps one of those that are equal to the same judge;
/// `known` are the earlier ones. Also returns the number of the others.
pub(super) fn distinct<'p>(
    states: Vec<State<'p>>,
    seed: u64,
    choice: Choice,
    known: &mut Known,
) -> (Vec<Made<'p>>, u64) {
    let make = |buffer: &mut Vec<u8>, state: State<'p>| {
        let chip = state.make(seed)?;
        let hash = state.hash(&chip, choice, buffer);
        Some(Made { state, chip, hash })
    };
    let made: Vec<_> = states.into_par_iter().map_init(Vec::new, make).collect();
    let (mut chosen, mut equal) = (Vec::new(), 0);
    for made in made.into_iter().flatten() {
        if known.insert((made.hash, made.state.stage)) {
            chosen.push(made);
        } else {
            equal += 1;
        }
    }
    (chosen, equal)
}

/// Returns every n-th cut of the events, counted by `candidate`, and the events that have one.
/// `hashes` are passed from one list of events of a chip to the next.
pub(super) fn chosen(
    events: Vec<Recorded>,
    every: u32,
    candidate: &mut u64,
    hashes: &mut Option<Hashes>,
    choice: Choice,
) -> Vec<(Marked, Vec<Variant>)> {
    let every = u64::from(every.max(1));
    let with_variants = |event: Recorded| {
        let mut variants = in_model(&event);
        variants.retain(|_| {
            *candidate += 1;
            candidate.is_multiple_of(every)
        });
        (!variants.is_empty()).then(|| (Marked::new(event, hashes, choice), variants))
    };
    events.into_iter().filter_map(with_variants).collect()
}
