//! Runs a workload, cuts it everywhere, and counts.

use super::judge::{Case, Verdict, is_unstable};
use super::model::Allowed;
use super::workload::{Bench, Step};
use super::{Explained, LabError, Options, ReplayId, Report, Violation};
use crate::story::{Diary, Story, flash, left_by};
use eraseblock_base::Peb;
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, Recorded, Variant};
use rayon::prelude::*;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Instant;

/// The result of judging a job and the cuts of its recovery.
#[derive(Default)]
struct Outcome {
    violations: Vec<Violation>,
    /// Hash and variant of each state.
    states: Vec<(u64, Variant)>,
}

/// Cuts a mixed UBI workload everywhere until a budget is used up; 50,000 states by default.
///
/// With a budget of states the result depends only on the options.
pub fn ubi(options: &Options) -> Result<Report, LabError> {
    explore(options, &mut HashSet::new())
}

/// Like [`ubi`]; `seen` are the states found before, and by now.
pub(super) fn explore(options: &Options, seen: &mut HashSet<u64>) -> Result<Report, LabError> {
    let start = Instant::now();
    let mut bench = Bench::new(options)?;
    let mut report =
        Report { shape: options.shape.name(), seed: options.seed, ..Report::default() };
    let known = seen.len();
    let limit = match (options.budget_states, options.budget_time) {
        (Some(limit), _) => limit,
        (None, Some(_)) => u64::MAX,
        (None, None) => 50_000,
    };
    let name = ReplayId { shape: options.shape, seed: options.seed, cuts: Vec::new() };
    loop {
        let step = bench.next();
        report.operations += 1;
        *report.kinds.entry(step.kind).or_default() += 1;
        report.events += step.events.len() as u64;
        let failed = step.problem.as_ref().map(|problem| uncut(&name, &step.allowed, problem));
        let is_over = failed.is_some();
        report.violations.extend(failed);
        if report.operations > u64::from(options.warm_up) {
            judge_step(options, &name, &step, &mut report, seen, limit);
        }
        let late = options.budget_time.is_some_and(|budget| start.elapsed() >= budget);
        let full = report.violations.len() >= options.max_violations;
        if is_over || late || full || report.states >= limit {
            break;
        }
    }
    report.background = bench.background();
    report.distinct_states = (seen.len() - known) as u64;
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn uncut(id: &ReplayId, allowed: &Allowed, problem: &(&'static str, String)) -> Violation {
    let (rule, message) = problem;
    let operation = allowed.operation.clone();
    Violation { id: id.clone(), operation, rule, message: message.clone() }
}

fn judge_step(
    options: &Options,
    name: &ReplayId,
    step: &Step,
    report: &mut Report,
    seen: &mut HashSet<u64>,
    limit: u64,
) {
    let stride = u64::from(options.judge_every.max(1));
    let mut candidate = report.events;
    let bases = BaseHash::of_all(&step.events);
    let mut cuts = Vec::new();
    for (event, base) in step.events.iter().zip(&bases) {
        for variant in in_model(event) {
            candidate += 1;
            if candidate.is_multiple_of(stride) {
                cuts.push(Cut { event, variant, base });
            }
        }
    }
    let every = u64::from(options.nested_every);
    let mut jobs = Vec::new();
    for job in distinct(options, &cuts) {
        let number = report.states + jobs.len() as u64;
        let nested = every != 0 && number.is_multiple_of(every);
        let id = name.then(job.cut.event.event.number, job.cut.variant);
        jobs.push((job, id, nested));
    }
    let left = usize::try_from(limit.saturating_sub(report.states)).unwrap_or(usize::MAX);
    jobs.truncate(left);
    let outcomes: Vec<Outcome> = jobs
        .into_par_iter()
        .map(|(job, id, nested)| run(options, &step.allowed, job, &id, nested))
        .collect();
    for outcome in outcomes {
        report.nested_states += (outcome.states.len() as u64).saturating_sub(1);
        for (hash, variant) in outcome.states {
            report.states += 1;
            *report.variants.entry(variant.to_string()).or_default() += 1;
            seen.insert(hash);
        }
        report.violations.extend(outcome.violations);
    }
    report.violations.truncate(options.max_violations);
}

fn in_model(event: &Recorded) -> Vec<Variant> {
    event.variants().into_iter().filter(|variant| variant.is_in_model()).collect()
}

fn seed_of(options: &Options, event: &Recorded) -> u64 {
    options.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ event.event.number
}

/// One cut.
struct Cut<'a> {
    event: &'a Recorded,
    variant: Variant,
    base: &'a BaseHash,
}

/// The state after a cut.
struct Job<'a> {
    cut: &'a Cut<'a>,
    chip: Chip,
    hash: u64,
}

/// Returns the applicable cuts, each distinct state once: all are judged by the same model.
fn distinct<'a>(options: &Options, cuts: &'a [Cut<'a>]) -> Vec<Job<'a>> {
    let make = |buffer: &mut Vec<u8>, cut: &'a Cut<'a>| {
        let chip = cut.event.cut(cut.variant, seed_of(options, cut.event)).ok()?;
        let hash = cut.base.after(cut.event, &chip, cut.variant, buffer);
        Some(Job { cut, chip, hash })
    };
    let jobs: Vec<Option<Job<'a>>> = cuts.par_iter().map_init(Vec::new, make).collect();
    let mut met = HashSet::new();
    jobs.into_iter().flatten().filter(|job| met.insert(job.hash)).collect()
}

fn run(options: &Options, allowed: &Allowed, job: Job<'_>, id: &ReplayId, nested: bool) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.states.push((job.hash, job.cut.variant));
    let case = Case::new(options, id.clone(), allowed);
    let Verdict { violation, events, floor } = case.judge(job.chip, nested);
    outcome.violations.extend(violation);
    let bases = BaseHash::of_all(&events);
    let mut cuts = Vec::new();
    for (event, base) in events.iter().zip(&bases) {
        cuts.extend(in_model(event).into_iter().map(|variant| Cut { event, variant, base }));
    }
    for job in distinct(options, &cuts) {
        outcome.states.push((job.hash, job.cut.variant));
        let id = id.then(job.cut.event.event.number, job.cut.variant);
        let case = Case { floor: floor.clone(), ..Case::new(options, id, allowed) };
        outcome.violations.extend(case.judge(job.chip, false).violation);
    }
    outcome
}

/// A hash of everything a driver can read of a chip: the sum of the hashes of its blocks, because
/// an event changes only one of them.
struct BaseHash {
    sum: u64,
}

impl BaseHash {
    /// Computes the hashes of the chips before the events, each without the block of its event.
    /// Blocks that did not change from one to the next are read once.
    fn of_all(events: &[Recorded]) -> Vec<Self> {
        let mut known: Option<(&Recorded, Vec<u64>)> = None;
        let mut bases = Vec::with_capacity(events.len());
        let mut buffer = Vec::new();
        for event in events {
            let chip = event.before.to_chip();
            let hashes = match known.take() {
                None => {
                    let pebs = chip.geometry().pebs();
                    pebs.map(|peb| hash_peb(&chip, peb, &mut buffer)).collect()
                }
                Some((last, mut hashes)) => {
                    for peb in last.before.differing_pebs(&event.before) {
                        hashes[peb.index()] = hash_peb(&chip, peb, &mut buffer);
                    }
                    hashes
                }
            };
            let own = hashes.get(event.event.kind.peb().index()).copied().unwrap_or(0);
            let all = hashes.iter().fold(0_u64, |sum, hash| sum.wrapping_add(*hash));
            bases.push(Self { sum: all.wrapping_sub(own) });
            known = Some((event, hashes));
        }
        bases
    }

    /// Returns the hash of the chip after the event was cut.
    fn after(&self, event: &Recorded, chip: &Chip, variant: Variant, buffer: &mut Vec<u8>) -> u64 {
        // Reading may wear unstable cells, so a copy is read.
        let copy = chip.snapshot().to_chip();
        copy.power_on();
        let mut hasher = DefaultHasher::new();
        if is_unstable(variant) {
            variant.hash(&mut hasher);
        }
        hasher.write_u64(self.sum);
        hasher.write_u64(hash_peb(&copy, event.event.kind.peb(), buffer));
        hasher.finish()
    }
}

fn hash_peb(chip: &Chip, peb: Peb, buffer: &mut Vec<u8>) -> u64 {
    let geometry = chip.geometry();
    let mut hasher = DefaultHasher::new();
    hasher.write_u32(peb.get());
    buffer.resize(geometry.peb_size() as usize, 0);
    if let Ok(outcome) = chip.read(geometry.address_of(peb), buffer) {
        hasher.write_u32(eraseblock_base::crc::crc32(buffer));
        hasher.write_u16(outcome.corrected_bits);
        hasher.write_u8(u8::from(outcome.uncorrectable));
    }
    hasher.write_u8(u8::from(chip.is_bad(peb).unwrap_or(true)));
    hasher.finish()
}

/// Judges one state again; returns the broken rule, if any.
pub fn replay(id: &ReplayId, options: &Options) -> Result<Option<Violation>, LabError> {
    explain(id, options).map(|explained| explained.violation)
}

/// Judges one state again and explains how it arose.
pub fn explain(id: &ReplayId, options: &Options) -> Result<Explained, LabError> {
    let options = Options { shape: id.shape, seed: id.seed, ..options.clone() };
    let missing = || LabError::NoSuchEvent { id: id.clone() };
    let mut bench = Bench::new(&options)?;
    let (first, rest) = id.cuts.split_first().ok_or_else(missing)?;
    let mut operations = Vec::new();
    loop {
        let step = bench.next();
        operations.push(step.allowed.operation.clone());
        if step.events.iter().any(|event| event.event.number == first.0) {
            let mut story = Story::default();
            story.tell_operations(&operations);
            let case = Case::new(&options, id.clone(), &step.allowed);
            let violation = replay_from(case, id, &step.events, rest, &mut story)?;
            return Ok(Explained { violation, story });
        }
        let beyond = step.events.iter().any(|event| event.event.number > first.0);
        if beyond || step.problem.is_some() {
            return Err(missing());
        }
    }
}

/// Replays from `case`, the state before one of `events`, with its allowed states.
fn replay_from(
    case: Case<'_>,
    id: &ReplayId,
    events: &[Recorded],
    rest: &[(u64, Variant)],
    story: &mut Story,
) -> Result<Option<Violation>, LabError> {
    let missing = || LabError::NoSuchEvent { id: id.clone() };
    let depth = id.cuts.len() - rest.len();
    let here = ReplayId { cuts: id.cuts[..depth].to_vec(), ..id.clone() };
    let (number, variant) = id.cuts[depth - 1];
    let (options, allowed) = (case.options, case.allowed);
    let event = events.iter().find(|event| event.event.number == number).ok_or_else(missing)?;
    let chip = event.cut(variant, seed_of(options, event)).map_err(|_| missing())?;
    let layout = options.shape.layout();
    let words = |event: &Recorded| flash::on_ubi(event, &layout, &|_| None);
    story.tell_cut(here.to_string(), left_by(variant), events, number, &words);
    story.chips = Some((event.before.clone(), chip.snapshot()));
    let diary = Diary::default();
    let verdict = Case { id: here, diary: Some(&diary), ..case }.judge(chip, !rest.is_empty());
    story.tell_looks(diary);
    let Some((_, rest)) = rest.split_first() else { return Ok(verdict.violation) };
    let case = Case { floor: verdict.floor, ..Case::new(options, id.clone(), allowed) };
    replay_from(case, id, &verdict.events, rest, story)
}
