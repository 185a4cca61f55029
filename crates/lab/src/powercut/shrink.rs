//! Finds the shortest sequence of operations and the simplest cut that still break a rule.
//!
//! Operations are left out in larger and then smaller groups as long as some cut of the last one
//! breaks the same rule. Then each variant of the cut is tried, the simplest first.
//!
//! # Invariants
//! 1. The result is a pure function of the id, the options and the budget; threads do not change it.
//! 2. Each id on the way breaks the rule, so that the work can stop at any time.

use super::cut::{Cut, in_model};
use super::explore::Lab;
use super::hash::Marked;
use super::id::StateId;
use super::kept::Kept;
use super::replay::explain;
use super::report::{Explained, LabError, Options};
use super::state::{Origin, State};
use super::target::{Part, Step, Target, Trial};
use eraseblock_nandsim::Variant;
use rayon::prelude::*;

/// A smaller state that breaks the same rule.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The state.
    pub id: StateId,
    /// How it arose.
    pub explained: Explained,
    /// Operations before and now.
    pub operations: (usize, usize),
    /// States judged on the way.
    pub states: u64,
    /// Whether the budget ended the search early.
    pub cut_short: bool,
}

/// A step of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Operations of the shortest sequence so far.
    pub operations: usize,
    /// States judged so far.
    pub states: u64,
}

/// Shrinks a state that breaks a rule; returns `None` if it breaks none. Judges approximately as
/// many states as the budget of the options at most. Fails if the target has no such sequence,
/// event or variant.
pub fn shrink(
    target: &dyn Target,
    id: &StateId,
    options: &Options,
    tell: &mut dyn FnMut(Progress),
) -> Result<Option<Shrunk>, LabError> {
    let Some(broken) = explain(target, id, options)?.violation else { return Ok(None) };
    let lab = Lab::new(target, options)?;
    let first = lab.operations_until(id, &broken.operations)?;
    let mut search = Search {
        lab,
        rule: broken.rule,
        best: id.clone(),
        seed: id.plan.seed_of_cuts(options.seed),
        budget: options.budget_states.unwrap_or(u64::MAX),
        states: 0,
        tell,
    };
    let mut kept = search.reduce(first.clone())?;
    if search.simplify(&kept)? {
        // A simpler cut may need fewer operations.
        kept = search.reduce(kept)?;
    }
    let Search { best: id, states, budget, .. } = search;
    let explained = explain(target, &id, options)?;
    let operations = (first.len(), kept.len());
    Ok(Some(Shrunk { id, explained, operations, states, cut_short: states >= budget }))
}

/// A search in progress.
struct Search<'a, 't> {
    lab: Lab<'a>,
    rule: &'static str,
    /// The smallest state so far that breaks the rule.
    best: StateId,
    seed: u64,
    budget: u64,
    states: u64,
    tell: &'t mut dyn FnMut(Progress),
}

/// Which cuts are tried.
#[derive(Clone, Copy)]
enum Wanted<'c> {
    /// Cuts of any events that leave these variants.
    Like(&'c [Cut]),
    /// One cut that leaves any variant.
    Any,
}

impl Lab<'_> {
    /// Returns the numbers of the operations up to the one that was cut, which is the last of
    /// `known`, or of all of them.
    fn operations_until(&self, id: &StateId, known: &[String]) -> Result<Vec<u32>, LabError> {
        let mut sequence = self.start(id)?;
        let mut done = 0;
        'parts: while sequence.has_more() {
            for step in &sequence.next().steps {
                done += 1;
                // Their descriptions have numbers.
                if step.during.operations == known {
                    break 'parts;
                }
            }
        }
        Ok(match &id.kept {
            Some(kept) => kept.numbers().take(done).collect(),
            None => (1..).take(done).collect(),
        })
    }
}

impl Search<'_, '_> {
    fn is_over(&self) -> bool {
        self.states >= self.budget
    }

    /// Leaves out operations, first half of them and finally each one, as long as a cut like the
    /// best one still breaks the rule. The last one, which is cut, stays.
    fn reduce(&mut self, all: Vec<u32>) -> Result<Vec<u32>, LabError> {
        let Some((last, mut before)) = all.split_last().map(|(last, rest)| (*last, rest.to_vec()))
        else {
            return Ok(all);
        };
        let with_last = |before: &[u32]| -> Vec<u32> { [before, &[last]].concat() };
        let mut groups = 1;
        while !before.is_empty() && !self.is_over() {
            let size = before.len().div_ceil(groups);
            let mut shorter = None;
            for start in (0..before.len()).step_by(size) {
                let rest = [&before[..start], &before[before.len().min(start + size)..]].concat();
                let cuts: Vec<Cut> = self.best.cuts.iter().map(|(_, cut)| *cut).collect();
                if self.breaks(&with_last(&rest), Wanted::Like(&cuts))? {
                    shorter = Some(rest);
                    break;
                }
            }
            match shorter {
                Some(rest) => {
                    before = rest;
                    groups = groups.saturating_sub(1).max(1);
                }
                None if size == 1 => break,
                None => groups = (2 * groups).min(before.len()),
            }
            (self.tell)(Progress { operations: before.len() + 1, states: self.states });
        }
        Ok(with_last(&before))
    }

    /// Looks for a simpler cut of the last operation; returns whether there is one.
    fn simplify(&mut self, kept: &[u32]) -> Result<bool, LabError> {
        let known = self.best.clone();
        if known.cuts.is_empty() || self.is_over() {
            return Ok(false);
        }
        self.breaks(kept, Wanted::Any)?;
        Ok(self.best.cuts != known.cuts)
    }

    /// Performs these operations and judges cuts of the last one; remembers the first that breaks
    /// the rule.
    fn breaks(&mut self, kept: &[u32], wanted: Wanted<'_>) -> Result<bool, LabError> {
        let id = self.best.keeping(Kept::of(kept.iter().copied()));
        let mut sequence = self.lab.start(&id)?;
        let mut last = None;
        while sequence.has_more() {
            last = Some(sequence.next());
        }
        let Some(part) = last else { return Ok(false) };
        let found = if matches!(wanted, Wanted::Like([])) {
            self.states += 1;
            part.uncut.iter().any(|it| it.broken.0 == self.rule).then_some(id)
        } else {
            self.first_broken(&id, &part, wanted)
        };
        let is_found = found.is_some();
        self.best = found.unwrap_or_else(|| self.best.clone());
        Ok(is_found)
    }

    /// Returns the first state after a cut of the last operation that breaks the rule.
    fn first_broken(
        &mut self,
        id: &StateId,
        part: &Part<'_>,
        wanted: Wanted<'_>,
    ) -> Option<StateId> {
        let step = part.steps.last()?;
        let events: Vec<Marked> = step.events.iter().cloned().map(Marked::unhashed).collect();
        let mut states = Vec::new();
        for variant in simpler_cuts(step, wanted) {
            for event in events.iter().filter(|it| in_model(&it.event).contains(&variant)) {
                states.push(State::new(id, Origin::Event(event, variant), &step.during, 0));
            }
        }
        if matches!(wanted, Wanted::Any | Wanted::Like([Cut::Idle, ..])) {
            for (snapshot, expected) in step.after.iter().chain(&part.rest) {
                states.push(State::new(id, Origin::Idle(snapshot), expected, 0));
            }
        }
        let second = match wanted {
            Wanted::Like([_, second]) => Some(*second),
            _ => None,
        };
        // Threads may judge states after the one that is found: all of them count.
        self.states += states.len() as u64;
        let (seed, rule) = (self.seed, self.rule);
        let broken = |state: State<'_>| match second {
            None => breaks_rule(&state, seed, rule).then(|| state.id.clone()),
            Some(Cut::During(variant)) => broken_in_recovery(&state, variant, seed, rule),
            Some(Cut::Idle) => None,
        };
        states.into_par_iter().find_map_first(broken)
    }
}

/// Returns the variants to be tried, the simplest first: that is their order in the fault model.
fn simpler_cuts(step: &Step<'_>, wanted: Wanted<'_>) -> Vec<Variant> {
    let mut variants = Vec::new();
    match wanted {
        Wanted::Like([Cut::During(variant), ..]) => variants.push(*variant),
        Wanted::Like(_) => {}
        Wanted::Any => {
            for variant in step.events.iter().flat_map(in_model) {
                if !variants.contains(&variant) {
                    variants.push(variant);
                }
            }
        }
    }
    variants
}

fn breaks_rule(state: &State<'_>, seed: u64, rule: &str) -> bool {
    let Some(chip) = state.make(seed) else { return false };
    let trial = Trial { unstable: state.id.is_unstable(), closely: true, ..Trial::default() };
    state.judge.judge(chip, &trial).broken.is_some_and(|(broken, _)| broken == rule)
}

/// Returns the first cut of the recovery of a state that leaves this variant and breaks the rule.
fn broken_in_recovery(
    state: &State<'_>,
    variant: Variant,
    seed: u64,
    rule: &str,
) -> Option<StateId> {
    let trial = Trial { unstable: state.id.is_unstable(), keep_events: true, ..Trial::default() };
    let verdict = state.judge.judge(state.make(seed)?, &trial);
    let judge = verdict.then.as_deref().unwrap_or(state.judge);
    let fits = |event: &&_| in_model(event).contains(&variant);
    verdict.events.iter().filter(fits).find_map(|event| {
        let event = Marked::unhashed(event.clone());
        let nested = state.nested(&event, variant, judge);
        breaks_rule(&nested, seed, rule).then(|| nested.id.clone())
    })
}
