//! Runs sequences, cuts them everywhere, and counts.

use super::cut::{Cut, in_model};
use super::hash::{Marked, digest};
use super::id::{Plan, StateId};
use super::kept::Kept;
use super::report::{LabError, Options, Report, Violation, add_all};
use super::state::{ERASE, Known, Made, Origin, PROGRAM, State, chosen, distinct};
use super::target::{Broken, Choice, Part, Prepared, Sequence, Tally, Target, Trial};
use eraseblock_nandsim::Variant;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashSet};

/// Number of states that are made before they are judged.
const AT_ONCE: usize = 256;

/// Cuts all sequences of the options everywhere until a budget is used up. The result depends only
/// on the target and the options. Fails if the target cannot be prepared, or if an operation fails
/// without a cut.
pub fn explore(target: &dyn Target, options: &Options) -> Result<Report, LabError> {
    explore_until(target, options, &|| false)
}

/// Like [`explore`], and stops when `stop` returns true, for example after a time. Fails as
/// [`explore`] does.
pub fn explore_until(
    target: &dyn Target,
    options: &Options,
    stop: &dyn Fn() -> bool,
) -> Result<Report, LabError> {
    let lab = Lab::new(target, options)?;
    let name = target.name();
    let plan = if let [plan] = options.plans[..] { Some(plan) } else { None };
    let mut report =
        Report { target: name.0, chip: name.1, seed: options.seed, plan, ..Report::default() };
    for plan in &options.plans {
        let left = lab.left(&report);
        if left.is_used_up(&Report::default()) || stop() {
            report.cut_short = true;
            break;
        }
        report.add(&lab.unit(*plan, left, stop)?);
    }
    Ok(report)
}

/// What may still be judged.
#[derive(Clone, Copy)]
struct Budget {
    states: u64,
    violations: usize,
}

impl Budget {
    fn is_used_up(&self, report: &Report) -> bool {
        report.states >= self.states || report.violations.len() >= self.violations
    }
}

/// A sequence in progress. What is judged in it does not depend on other sequences, so that a
/// campaign may be divided between them.
struct Unit {
    report: Report,
    /// Hashes of the states judged.
    seen: HashSet<u64>,
    /// Where the counts begin that choose every n-th state.
    first: u64,
    budget: Budget,
}

/// The result of judging a state and the cuts of its recovery.
struct Outcome {
    violations: Vec<Violation>,
    /// Hash, cut and kind of the event of each state, the state itself first.
    states: Vec<(u64, Cut, &'static str)>,
    /// The kind of the operation that was cut.
    operation: String,
    duplicates: u64,
    came_later: u64,
    /// Of the states and their verdicts.
    digest: u128,
    happened: BTreeMap<&'static str, u64>,
}

/// The constant parts of a run.
pub(super) struct Lab<'a> {
    target: &'a dyn Target,
    options: &'a Options,
    choice: Choice,
    prepared: Box<dyn Prepared<'a> + 'a>,
}

impl<'a> Lab<'a> {
    /// Prepares the target.
    pub(super) fn new(target: &'a dyn Target, options: &'a Options) -> Result<Self, LabError> {
        let prepared = target.prepare(options.run_length).map_err(prepare)?;
        Ok(Self { target, options, choice: target.choice(), prepared })
    }

    /// Begins the sequence of an id.
    pub(super) fn start(&self, id: &StateId) -> Result<Box<dyn Sequence<'a> + 'a>, LabError> {
        let sequence = match &id.kept {
            Some(kept) => self.prepared.start_kept(id.plan, kept),
            None => self.prepared.start(id.plan),
        };
        sequence.map_err(prepare)?.ok_or_else(|| LabError::NoSuchEvent { id: id.clone() })
    }

    fn id(&self, plan: Plan) -> StateId {
        StateId::new(self.target.name(), plan)
    }

    /// Returns what the budgets leave after `report`.
    fn left(&self, report: &Report) -> Budget {
        let states = self.options.budget_states.unwrap_or(u64::MAX);
        Budget {
            states: states.saturating_sub(report.states),
            violations: self.options.max_violations.saturating_sub(report.violations.len()),
        }
    }

    /// Judges a sequence.
    fn unit(
        &self,
        plan: Plan,
        budget: Budget,
        stop: &dyn Fn() -> bool,
    ) -> Result<Report, LabError> {
        let report = Report { plans: 1, ..Report::default() };
        let first = plan.first_count();
        let mut unit = Unit { report, seen: HashSet::new(), first, budget };
        let mut sequence = self.start(&self.id(plan))?;
        self.run(plan, sequence.as_mut(), stop, &mut unit);
        let Unit { mut report, seen, .. } = unit;
        add_all(&mut report.happened, &sequence.happened());
        report.distinct_states = seen.len() as u64;
        Ok(report)
    }

    /// Judges a sequence, part by part.
    fn run(
        &self,
        plan: Plan,
        sequence: &mut dyn Sequence<'a>,
        stop: &dyn Fn() -> bool,
        unit: &mut Unit,
    ) {
        let mut done = 0;
        while sequence.has_more() {
            let before = unit.report.violations.len();
            let part = sequence.next();
            done += u32::try_from(part.steps.len()).unwrap_or(0);
            unit.report.violations.extend(self.uncut(plan, &part, done));
            self.part(&self.id(plan), part, unit);
            if unit.report.violations.len() > before && !plan.is_endless() {
                break;
            }
            if sequence.has_more() && (unit.budget.is_used_up(&unit.report) || stop()) {
                unit.report.cut_short = true;
                break;
            }
        }
    }

    /// Names what a part found without a cut, `done` operations after the start. An endless sequence
    /// is named as far as it was run, so that a replay of it ends.
    fn uncut(&self, plan: Plan, part: &Part<'_>, done: u32) -> Vec<Violation> {
        let mut id = self.id(plan);
        if plan.is_endless() {
            id = id.keeping(Kept::until(done));
        }
        let named = part.uncut.iter();
        named.map(|it| violation(&id, it.operations.clone(), it.broken.clone())).collect()
    }

    /// Counts the operations of a part, and judges the cuts of all of them.
    fn part(&self, id: &StateId, part: Part<'a>, unit: &mut Unit) {
        let Part { mut steps, rest, is_judged, .. } = part;
        let report = &mut unit.report;
        let before = report.events;
        for step in &steps {
            report.operations += 1;
            report.events += step.events.len() as u64;
            if let Some(kind) = step.kind {
                *report.kinds.entry(kind).or_default() += 1;
            }
        }
        if !is_judged {
            return;
        }
        let events = if self.choice.counts_own_events { report.events } else { before };
        let mut candidate = unit.first + events;
        let mut hashes = None;
        let every = self.options.judge_every;
        let cuts: Vec<Vec<(Marked, Vec<Variant>)>> = steps
            .iter_mut()
            .map(|step| std::mem::take(&mut step.events))
            .map(|events| chosen(events, every, &mut candidate, &mut hashes, self.choice))
            .collect();
        let mut states = Vec::new();
        for (number, (step, cuts)) in steps.iter().zip(&cuts).enumerate() {
            for (event, variants) in cuts {
                let origins = variants.iter().map(|variant| Origin::Event(event, *variant));
                states.extend(origins.map(|it| State::new(id, it, &step.during, 2 * number)));
            }
            if let Some((snapshot, expected)) = &step.after {
                let origin = Origin::Idle(snapshot);
                states.push(State::new(id, origin, expected, 2 * number + 1));
            }
        }
        if let Some((snapshot, expected)) = &rest {
            states.push(State::new(id, Origin::Idle(snapshot), expected, 2 * steps.len()));
        }
        self.judge_all(states, unit);
    }

    /// Judges distinct states in parallel, and counts in order.
    fn judge_all(&self, states: Vec<State<'_>>, unit: &mut Unit) {
        let Some(plan) = states.first().map(|state| state.id.plan) else { return };
        let (options, choice, first) = (self.options, self.choice, unit.first);
        let seed = plan.seed_of_cuts(options.seed);
        let (mut number, mut known) = (unit.report.states, Known::new());
        let end = unit.budget.states;
        let mut states = states.into_iter();
        // Not all at once: the chips of many states take so much memory that the system has to
        // clear new pages for each of them.
        while number < end && states.len() > 0 {
            let some = states.by_ref().take(AT_ONCE).collect();
            let (mut made, duplicates) = distinct(some, seed, choice, &mut known);
            unit.report.duplicates += duplicates;
            made.truncate(usize::try_from(end - number).unwrap_or(usize::MAX));
            let numbered: Vec<(u64, Made<'_>)> = (first + number..).zip(made).collect();
            number += numbered.len() as u64;
            let outcomes = numbered
                .into_par_iter()
                .map(|(number, made)| judge_one(options, choice, seed, made, number))
                .collect();
            Self::count(outcomes, unit);
        }
        unit.report.violations.truncate(unit.budget.violations);
    }

    /// Counts verdicts, in order.
    fn count(outcomes: Vec<Outcome>, unit: &mut Unit) {
        let Unit { report, seen, .. } = unit;
        for outcome in outcomes {
            report.states += outcome.states.len() as u64;
            report.nested_states += (outcome.states.len() as u64).saturating_sub(1);
            report.duplicates += outcome.duplicates;
            report.came_later += outcome.came_later;
            report.digest = report.digest.wrapping_add(outcome.digest);
            add_all(&mut report.happened, &outcome.happened);
            *report.cut_operations.entry(outcome.operation).or_default() +=
                outcome.states.len() as u64;
            for (hash, cut, event) in outcome.states {
                *report.variants.entry(cut.to_string()).or_default() += 1;
                *report.cut_events.entry(event).or_default() += 1;
                seen.insert(hash);
            }
            report.violations.extend(outcome.violations);
        }
    }
}

/// Judges a state; cuts its recovery, too, if its number asks for that.
fn judge_one(options: &Options, choice: Choice, seed: u64, made: Made<'_>, number: u64) -> Outcome {
    let every = |n: u32| n != 0 && number.is_multiple_of(u64::from(n));
    let Made { state, chip, hash } = made;
    let tally = Tally::default();
    let trial = Trial {
        unstable: state.id.is_unstable(),
        closely: every(options.closely_every),
        keep_events: every(options.nested_every),
        tally: Some(&tally),
        ..Trial::default()
    };
    let verdict = state.judge.judge(chip, &trial);
    let mut outcome = Outcome {
        violations: Vec::new(),
        states: vec![(hash, state.cut(), state.event())],
        operation: state.operation(),
        duplicates: 0,
        came_later: u64::from(verdict.came_later),
        digest: digest(&state.id, hash, verdict.came_later, verdict.broken.as_ref()),
        happened: BTreeMap::new(),
    };
    let broken =
        |state: &State<'_>, broken| violation(&state.id, state.operations.to_vec(), broken);
    outcome.violations.extend(verdict.broken.map(|it| broken(&state, it)));
    let mut hashes = None;
    let events = verdict.events.into_iter();
    let events: Vec<_> = events.map(|event| Marked::new(event, &mut hashes, choice)).collect();
    let judge = verdict.then.as_deref().unwrap_or(state.judge);
    let nested = events.iter().flat_map(|event| {
        let variants = in_model(&event.event).into_iter();
        variants.map(|variant| state.nested(event, variant, judge))
    });
    let nested = nested.collect();
    let (nested, duplicates) = distinct(nested, seed, choice, &mut Known::new());
    outcome.duplicates += duplicates;
    outcome.states.extend(nested.iter().map(of_recovery));
    let judge = |Made { state, chip, hash }: Made<'_>| {
        let unstable = state.id.is_unstable();
        let tally = Tally::default();
        let trial = Trial { unstable, tally: Some(&tally), ..Trial::default() };
        let verdict = state.judge.judge(chip, &trial);
        let came_later = verdict.came_later;
        let digest = digest(&state.id, hash, came_later, verdict.broken.as_ref());
        let violation = verdict.broken.map(|it| broken(&state, it));
        (violation, came_later, digest, tally.into_counts())
    };
    let verdicts: Vec<_> = nested.into_par_iter().map(judge).collect();
    outcome.happened = tally.into_counts();
    for (violation, came_later, digest, happened) in verdicts {
        outcome.violations.extend(violation);
        outcome.came_later += u64::from(came_later);
        outcome.digest = outcome.digest.wrapping_add(digest);
        add_all(&mut outcome.happened, &happened);
    }
    outcome
}

fn of_recovery(made: &Made<'_>) -> (u64, Cut, &'static str) {
    let event = match made.state.event() {
        PROGRAM => "program of a recovery",
        ERASE => "erase of a recovery",
        _ => "bad-block mark of a recovery",
    };
    (made.hash, made.state.cut(), event)
}

/// Names a broken rule.
pub(super) fn violation(id: &StateId, operations: Vec<String>, broken: Broken) -> Violation {
    let (rule, message) = broken;
    Violation { id: id.clone(), operations, rule, message }
}

fn prepare(message: String) -> LabError {
    LabError::Prepare { message }
}
