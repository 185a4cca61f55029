//! Runs sequences, cuts them everywhere, and counts.

mod replay;

pub use replay::{explain, replay};

use super::allowed::{Allowed, Broken};
use super::hash::{BaseHash, Hashes, with_hash};
use super::id::{CutId, Plan};
use super::judge::{Case, Verdict};
use super::live::{Live, Start, Step, empty};
use super::target::{Rules, Target};
use super::workload::{setup, short};
use super::{FsLabError, FsOptions, FsReport, FsViolation, words};
use crate::cuts::Cut;
use eraseblock_nandsim::{Chip, Recorded, Rng, Snapshot, Variant};
use eraseblock_vfs::ops::Op;
use rayon::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

/// Number of operations of a run that are judged together.
const BATCH: usize = 24;

/// Number of operations on an old file system before it is tested.
const AGE: u32 = 1200;

/// The origin of a state.
#[derive(Clone)]
enum Origin {
    Event(Arc<(Recorded, BaseHash)>, Variant),
    Idle(Arc<Snapshot>),
}

/// A state to create and judge.
struct Job {
    origin: Origin,
    allowed: Arc<Allowed>,
    id: CutId,
}

impl Job {
    fn make(&self, seed: u64) -> Option<Chip> {
        match &self.origin {
            Origin::Event(event, variant) => {
                event.0.cut(*variant, seed_of(seed, event.0.event.number)).ok()
            }
            Origin::Idle(snapshot) => {
                let chip = snapshot.to_chip();
                chip.power_off();
                Some(chip)
            }
        }
    }

    fn variant(&self) -> String {
        match &self.origin {
            Origin::Event(_, variant) => variant.to_string(),
            Origin::Idle(_) => "off".into(),
        }
    }

    fn hash(&self, chip: &Chip) -> u64 {
        match &self.origin {
            Origin::Event(event, variant) => event.1.after(&event.0, chip, *variant),
            Origin::Idle(snapshot) => Hashes::of(snapshot).sum(),
        }
    }
}

/// The result of judging a job and the cuts of its recovery.
#[derive(Default)]
struct Outcome {
    violations: Vec<FsViolation>,
    variants: Vec<String>,
    duplicates: u64,
    came_later: u64,
}

/// The constant parts of a run.
struct Lab<'a> {
    target: &'a dyn Target,
    options: &'a FsOptions,
    rules: Rules,
    small: Start,
    started: Instant,
}

/// Cuts all sequences of the options everywhere until a budget is used up.
///
/// Without a time budget the result depends only on the options.
pub fn explore(target: &dyn Target, options: &FsOptions) -> Result<FsReport, FsLabError> {
    let lab = Lab::new(target, options)?;
    let name = target.name();
    let mut report = FsReport { target: format!("{}/{}", name.0, name.1), ..FsReport::default() };
    for plan in &options.plans {
        if lab.is_over(&report) {
            report.cut_short = true;
            break;
        }
        report.plans += 1;
        match plan {
            Plan::Run(seed) | Plan::Aged(seed) => lab.run(*plan, *seed, &mut report)?,
            plan => {
                let ops = short(*plan).ok_or_else(|| missing(&lab.id(*plan)))?;
                let mut live = Live::new(target, &lab.small)?;
                lab.sequence(&lab.id(*plan), &mut live, Ops::Listed(&ops), &mut report);
                report.add_happened(&live);
            }
        }
    }
    report.seconds = lab.started.elapsed().as_secs_f64();
    Ok(report)
}

/// Returns the start of short sequences.
pub(super) fn small(target: &dyn Target, empty: &Start) -> Result<Start, FsLabError> {
    let mut live = Live::new(target, empty)?;
    for op in setup() {
        if let Some((rule, message)) = live.step(&op).problem {
            return Err(FsLabError::Prepare {
                message: format!("{}: {rule}: {message}", words::op(&op)),
            });
        }
    }
    live.finish()
}

impl<'a> Lab<'a> {
    fn new(target: &'a dyn Target, options: &'a FsOptions) -> Result<Self, FsLabError> {
        let empty = empty(target)?;
        let small = small(target, &empty)?;
        let (rules, started) = (target.rules(), Instant::now());
        Ok(Self { target, options, rules, small, started })
    }

    fn id(&self, plan: Plan) -> CutId {
        let name = self.target.name();
        CutId { target: (name.0.into(), name.1.into()), plan, cuts: Vec::new() }
    }

    fn is_over(&self, report: &FsReport) -> bool {
        let options = self.options;
        options.budget_states.is_some_and(|limit| report.states >= limit)
            || options.budget_time.is_some_and(|limit| self.started.elapsed() >= limit)
            || report.violations.len() >= options.max_violations
    }

    /// Runs a long random sequence, judged in batches, including restarts.
    fn run(&self, plan: Plan, seed: u64, report: &mut FsReport) -> Result<(), FsLabError> {
        let mut live = self.start(plan)?;
        let mut rng = Rng::new(seed, 0);
        for count in self.batches() {
            if self.is_over(report) {
                report.cut_short = true;
                break;
            }
            let before = report.violations.len();
            let ops = Ops::Random(&mut rng, count);
            self.sequence(&self.id(plan), &mut live, ops, report);
            if report.violations.len() > before {
                break;
            }
        }
        report.add_happened(&live);
        Ok(())
    }

    /// Splits a random sequence into parts. The file system is read after each, which loads data; a
    /// replay must read at the same times.
    fn batches(&self) -> impl Iterator<Item = usize> + use<> {
        let length = self.options.run_length as usize;
        (0..length).step_by(BATCH).map(move |from| BATCH.min(length - from))
    }

    /// Mounts the start of a plan.
    fn start(&self, plan: Plan) -> Result<Live<'a>, FsLabError> {
        let mut live = Live::new(self.target, &self.small)?;
        let Plan::Aged(seed) = plan else { return Ok(live) };
        live.age(&mut Rng::new(seed, 1), AGE)?;
        Live::new(self.target, &live.finish()?)
    }

    /// Performs the operations, then judges the cuts of all of them.
    fn sequence(&self, id: &CutId, live: &mut Live<'_>, mut ops: Ops<'_>, report: &mut FsReport) {
        let mut jobs = Vec::new();
        let mut hashes = None;
        let mut candidate = report.events;
        let mut problem = None;
        while let Some(op) = ops.next(live) {
            let step = live.step(&op);
            report.operations += 1;
            report.events += step.events.len() as u64;
            problem.clone_from(&step.problem);
            let operations = step.during.operations.clone();
            self.jobs(id, step, &mut jobs, &mut hashes, &mut candidate);
            if problem.is_some() {
                report.violations.extend(problem.take().map(|it| uncut(id, operations, it)));
                break;
            }
        }
        let (snapshot, allowed) = live.at_rest();
        let operations = allowed.operations.clone();
        let idle = id.then(snapshot.next_event(), Cut::Idle);
        jobs.push(Job { origin: Origin::Idle(Arc::new(snapshot)), allowed, id: idle });
        if let Some(broken) = problem.or_else(|| live.compare()) {
            report.violations.push(uncut(id, operations, broken));
        }
        self.judge_all(jobs, report);
    }

    /// Returns the states of a step to judge. `hashes` are passed from one step of a file system to
    /// the next.
    fn jobs(
        &self,
        id: &CutId,
        step: Step,
        jobs: &mut Vec<Job>,
        hashes: &mut Option<Hashes>,
        candidate: &mut u64,
    ) {
        let stride = u64::from(self.options.judge_every.max(1));
        let mut chosen = Vec::new();
        for event in step.events {
            let mut variants = in_model(&event);
            variants.retain(|_| {
                *candidate += 1;
                candidate.is_multiple_of(stride)
            });
            if !variants.is_empty() {
                chosen.push((event, variants));
            }
        }
        for (event, variants) in chosen {
            let event = with_hash(event, hashes);
            for variant in variants {
                let id = id.then(event.0.event.number, Cut::During(variant));
                let origin = Origin::Event(event.clone(), variant);
                jobs.push(Job { origin, allowed: step.during.clone(), id });
            }
        }
        if let Some((snapshot, allowed)) = step.after {
            let id = id.then(snapshot.next_event(), Cut::Idle);
            jobs.push(Job { origin: Origin::Idle(Arc::new(snapshot)), allowed, id });
        }
    }

    /// Judges distinct states in parallel, and counts in order.
    fn judge_all(&self, jobs: Vec<Job>, report: &mut FsReport) {
        let seed = self.options.seed;
        let made: Vec<(Job, Option<Chip>, u64)> = jobs
            .into_par_iter()
            .map(|job| {
                let chip = job.make(seed);
                let hash = chip.as_ref().map_or(0, |chip| job.hash(chip));
                (job, chip, hash)
            })
            .collect();
        let mut seen = HashSet::new();
        let mut chosen = Vec::new();
        for (job, chip, hash) in made {
            let Some(chip) = chip else { continue };
            if seen.insert((hash, Arc::as_ptr(&job.allowed) as usize)) {
                chosen.push((job, chip, report.states + chosen.len() as u64));
            } else {
                report.duplicates += 1;
            }
        }
        if let Some(limit) = self.options.budget_states {
            let left = limit.saturating_sub(report.states);
            chosen.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        let outcomes: Vec<Outcome> = chosen
            .into_par_iter()
            .map(|(job, chip, number)| self.judge_one(&job, chip, number))
            .collect();
        for outcome in outcomes {
            report.states += outcome.variants.len() as u64;
            report.nested_states += (outcome.variants.len() as u64).saturating_sub(1);
            report.duplicates += outcome.duplicates;
            report.came_later += outcome.came_later;
            for variant in outcome.variants {
                *report.variants.entry(variant).or_default() += 1;
            }
            report.violations.extend(outcome.violations);
        }
        report.violations.truncate(self.options.max_violations);
    }

    fn judge_one(&self, job: &Job, chip: Chip, number: u64) -> Outcome {
        let every = |n: u32| n != 0 && number.is_multiple_of(u64::from(n));
        let nested = every(self.options.nested_every);
        let closely = every(self.options.closely_every);
        let mut outcome = Outcome::default();
        outcome.variants.push(job.variant());
        let case = self.case(job.id.clone(), &job.allowed, closely);
        let Verdict { violation, events, came_later } = case.judge(chip, nested);
        outcome.violations.extend(violation);
        outcome.came_later += u64::from(came_later);
        let mut seen = HashSet::new();
        let mut chosen = Vec::new();
        let mut hashes = None;
        for event in events {
            let event = with_hash(event, &mut hashes);
            for variant in in_model(&event.0) {
                let origin = Origin::Event(event.clone(), variant);
                let id = job.id.then(event.0.event.number, Cut::During(variant));
                let job = Job { origin, allowed: job.allowed.clone(), id };
                let Some(chip) = job.make(self.options.seed) else { continue };
                if seen.insert(job.hash(&chip)) {
                    outcome.variants.push(job.variant());
                    chosen.push((job, chip));
                } else {
                    outcome.duplicates += 1;
                }
            }
        }
        let verdicts: Vec<Verdict> = chosen
            .into_par_iter()
            .map(|(job, chip)| self.case(job.id.clone(), &job.allowed, false).judge(chip, false))
            .collect();
        for verdict in verdicts {
            outcome.violations.extend(verdict.violation);
            outcome.came_later += u64::from(verdict.came_later);
        }
        outcome
    }

    fn case<'b>(&'b self, id: CutId, allowed: &'b Allowed, closely: bool) -> Case<'b> {
        Case { target: self.target, rules: &self.rules, id, allowed, closely, diary: None }
    }
}

fn uncut(id: &CutId, operations: Vec<String>, broken: Broken) -> FsViolation {
    let (rule, message) = broken;
    FsViolation { id: id.clone(), operations, rule, message }
}

fn in_model(event: &Recorded) -> Vec<Variant> {
    event.variants().into_iter().filter(|variant| variant.is_in_model()).collect()
}

fn missing(id: &CutId) -> FsLabError {
    FsLabError::NoSuchEvent { id: id.clone() }
}

fn seed_of(seed: u64, event: u64) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ event
}

impl FsReport {
    fn add_happened(&mut self, live: &Live<'_>) {
        for (what, count) in live.happened() {
            *self.happened.entry(what.to_owned()).or_default() += count;
        }
    }
}

/// The source of operations.
enum Ops<'a> {
    Listed(&'a [Op]),
    /// This many random operations, depending on the current state.
    Random(&'a mut Rng, usize),
}

impl Ops<'_> {
    fn next(&mut self, live: &Live<'_>) -> Option<Op> {
        match self {
            Self::Listed(ops) => {
                let (first, rest) = ops.split_first()?;
                *ops = rest;
                Some(*first)
            }
            Self::Random(rng, left) => {
                *left = left.checked_sub(1)?;
                Some(live.random(rng))
            }
        }
    }
}
