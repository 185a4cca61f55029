//! Judges one state again, and explains how it arose.

use super::cut::Cut;
use super::explore::{Lab, violation};
use super::hash::Marked;
use super::id::StateId;
use super::report::{Explained, LabError, Options, Violation};
use super::state::{Origin, State};
use super::target::{Choice, Expected, Part, Step, Target, Trial};
use crate::story::{Chips, Diary, Story};
use eraseblock_nandsim::{Recorded, Snapshot};

/// Judges one state again; returns the broken rule, if any. Fails if the target has no such
/// sequence, event or variant.
pub fn replay(
    target: &dyn Target,
    id: &StateId,
    options: &Options,
) -> Result<Option<Violation>, LabError> {
    explain(target, id, options).map(|explained| explained.violation)
}

/// Judges one state again and explains how it arose. Of the options, only the seed of the cuts and
/// the length of random sequences count. Fails as [`replay`] does.
pub fn explain(
    target: &dyn Target,
    id: &StateId,
    options: &Options,
) -> Result<Explained, LabError> {
    let missing = || LabError::NoSuchEvent { id: id.clone() };
    if id.cuts.is_empty() && id.is_endless() {
        return Err(missing());
    }
    let lab = Lab::new(target, options)?;
    let mut sequence = lab.start(id)?;
    let mut teller = Teller {
        target,
        choice: target.choice(),
        seed: id.plan.seed_of_cuts(options.seed),
        id,
        met: id.cuts.is_empty(),
        is_past: false,
        story: Story::default(),
    };
    let mut violation = None;
    while sequence.has_more() && violation.is_none() && !teller.is_past {
        violation = teller.part(&sequence.next())?;
    }
    if teller.met { Ok(Explained { violation, story: teller.story }) } else { Err(missing()) }
}

/// The goal of a replay, and its results so far.
struct Teller<'a> {
    target: &'a dyn Target,
    choice: Choice,
    seed: u64,
    id: &'a StateId,
    met: bool,
    /// Whether the event of the first cut is over.
    is_past: bool,
    story: Story,
}

impl Teller<'_> {
    /// Follows the cuts of the id where they occur in a part.
    fn part(&mut self, part: &Part<'_>) -> Result<Option<Violation>, LabError> {
        let Some(first) = self.id.cuts.first().copied() else {
            let last = part.steps.last().map(|step| &step.during);
            if let Some(expected) = part.rest.as_ref().map(|(_, expected)| expected).or(last) {
                self.story.tell_operations(&expected.operations);
            }
            let uncut = part.uncut.first();
            return Ok(uncut.map(|it| violation(self.id, it.operations.clone(), it.broken.clone())));
        };
        for step in &part.steps {
            if let Some(violation) = self.step(step, first)? {
                return Ok(Some(violation));
            }
        }
        self.idle(part.rest.as_ref(), &[], first)
    }

    fn step(&mut self, step: &Step<'_>, first: (u64, Cut)) -> Result<Option<Violation>, LabError> {
        let (number, cut) = first;
        self.is_past |= step.events.iter().any(|event| event.event.number >= number);
        if let Cut::During(variant) = cut
            && let Some(event) = step.events.iter().find(|event| event.event.number == number)
        {
            let event = Marked::new(event.clone(), &mut None, self.choice);
            let sequence = self.sequence();
            let state = State::new(&sequence, Origin::Event(&event, variant), &step.during, 0);
            return self.begin(&state, &step.events);
        }
        self.idle(step.after.as_ref(), &step.events, first)
    }

    /// Follows a cut while nothing is happening. The same one may occur after several operations:
    /// the story is that of the last one.
    fn idle(
        &mut self,
        at: Option<&(Snapshot, Expected<'_>)>,
        events: &[Recorded],
        first: (u64, Cut),
    ) -> Result<Option<Violation>, LabError> {
        match at {
            Some((snapshot, expected)) if first == (snapshot.next_event(), Cut::Idle) => {
                let sequence = self.sequence();
                let state = State::new(&sequence, Origin::Idle(snapshot), expected, 0);
                self.begin(&state, events)
            }
            _ => Ok(None),
        }
    }

    fn sequence(&self) -> StateId {
        StateId { cuts: Vec::new(), ..self.id.clone() }
    }

    fn begin(
        &mut self,
        state: &State<'_>,
        events: &[Recorded],
    ) -> Result<Option<Violation>, LabError> {
        self.met = true;
        self.story = Story::default();
        self.story.tell_operations(state.operations);
        self.follow(state, events)
    }

    /// Returns the verdict on the state of the id, which is this one or results from it. `events`
    /// are those of the operation or of the recovery that was cut.
    fn follow(
        &mut self,
        state: &State<'_>,
        events: &[Recorded],
    ) -> Result<Option<Violation>, LabError> {
        let missing = || LabError::NoSuchEvent { id: self.id.clone() };
        let depth = state.id.cuts.len();
        let chip = state.make(self.seed).ok_or_else(missing)?;
        let words = |event: &Recorded| self.target.describe(event);
        let number = state.id.cuts[depth - 1].0;
        self.story.tell_cut(state.id.to_string(), state.cut().left(), events, number, &words);
        let cut = chip.snapshot();
        let deeper = self.id.cuts.get(depth).copied();
        let diary = Diary::default();
        let trial = Trial {
            unstable: state.id.is_unstable(),
            closely: true,
            keep_events: deeper.is_some(),
            diary: Some(&diary),
            tally: None,
        };
        let verdict = state.judge.judge(chip, &trial);
        let recovered = diary.recovered().unwrap_or_else(|| cut.clone());
        self.story.chips = Some(Chips { before: state.before().clone(), cut, recovered });
        self.story.tell_looks(diary);
        let Some((number, cut)) = deeper else {
            let operations = state.operations.to_vec();
            return Ok(verdict.broken.map(|it| violation(&state.id, operations, it)));
        };
        let Cut::During(variant) = cut else { return Err(missing()) };
        let event = verdict.events.iter().find(|event| event.event.number == number);
        let event = event.cloned().ok_or_else(missing)?;
        let event = Marked::new(event, &mut None, self.choice);
        let judge = verdict.then.as_deref().unwrap_or(state.judge);
        self.follow(&state.nested(&event, variant, judge), &verdict.events)
    }
}
