//! Running a workload, cutting it everywhere, counting.

use super::judge::{Case, is_unstable};
use super::model::Allowed;
use super::workload::{Bench, Step};
use super::{LabError, Options, ReplayId, Report, Violation};
use eraseblock_base::Peb;
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, Recorded, Variant};
use rayon::prelude::*;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Instant;

/// A state to be made and judged.
struct Job<'a> {
    event: &'a Recorded,
    base: &'a BaseHash,
    variant: Variant,
    id: ReplayId,
    nested: bool,
}

/// What judging a job, and the cuts of its recovery, came to.
#[derive(Default)]
struct Outcome {
    violations: Vec<Violation>,
    /// Hash and variant of each state.
    states: Vec<(u64, Variant)>,
}

/// Cuts a mixed UBI workload everywhere until a budget is used up; 50,000 states if none is given.
///
/// With a budget of states the result depends on the options alone.
pub fn ubi(options: &Options) -> Result<Report, LabError> {
    let start = Instant::now();
    let mut bench = Bench::new(options)?;
    let mut report =
        Report { shape: options.shape.name(), seed: options.seed, ..Report::default() };
    let mut seen = HashSet::new();
    let limit = match (options.budget_states, options.budget_time) {
        (Some(limit), _) => limit,
        (None, Some(_)) => u64::MAX,
        (None, None) => 50_000,
    };
    let name = ReplayId { shape: options.shape, seed: options.seed, cuts: Vec::new() };
    loop {
        let step = bench.next();
        report.operations += 1;
        report.events += step.events.len() as u64;
        let failed = step.problem.as_ref().map(|problem| uncut(&name, &step.allowed, problem));
        let is_over = failed.is_some();
        report.violations.extend(failed);
        judge_step(options, &name, &step, &mut report, &mut seen, limit);
        let late = options.budget_time.is_some_and(|budget| start.elapsed() >= budget);
        let full = report.violations.len() >= options.max_violations;
        if is_over || late || full || report.states >= limit {
            break;
        }
    }
    report.distinct_states = seen.len() as u64;
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
    let mut jobs = Vec::new();
    let stride = u64::from(options.judge_every.max(1));
    let mut candidate = report.events;
    let bases: Vec<BaseHash> = step.events.par_iter().map(BaseHash::of).collect();
    for (event, base) in step.events.iter().zip(&bases) {
        for variant in in_model(event) {
            candidate += 1;
            if !candidate.is_multiple_of(stride) {
                continue;
            }
            let number = report.states + jobs.len() as u64;
            let every = u64::from(options.nested_every);
            let nested = every != 0 && number.is_multiple_of(every);
            let id = name.then(event.event.number, variant);
            jobs.push(Job { event, base, variant, id, nested });
        }
    }
    let left = usize::try_from(limit.saturating_sub(report.states)).unwrap_or(usize::MAX);
    jobs.truncate(left);
    let outcomes: Vec<Outcome> =
        jobs.par_iter().map(|job| run(options, &step.allowed, job)).collect();
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

fn run(options: &Options, allowed: &Allowed, job: &Job<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let case = Case { options, id: job.id.clone(), allowed };
    let cut = Cut { event: job.event, variant: job.variant, base: job.base };
    let Some(events) = cut_and_judge(&case, &cut, job.nested, &mut outcome) else {
        return outcome;
    };
    for event in &events {
        let base = BaseHash::of(event);
        for variant in in_model(event) {
            let id = job.id.then(event.event.number, variant);
            let case = Case { options, id, allowed };
            let cut = Cut { event, variant, base: &base };
            cut_and_judge(&case, &cut, false, &mut outcome);
        }
    }
    outcome
}

/// One cut.
struct Cut<'a> {
    event: &'a Recorded,
    variant: Variant,
    base: &'a BaseHash,
}

/// `None` if the variant does not apply after all.
fn cut_and_judge(
    case: &Case<'_>,
    cut: &Cut<'_>,
    keep_events: bool,
    outcome: &mut Outcome,
) -> Option<Vec<Recorded>> {
    let chip = cut.event.cut(cut.variant, seed_of(case.options, cut.event)).ok()?;
    outcome.states.push((cut.base.after(cut.event, &chip, cut.variant), cut.variant));
    let (violation, events) = case.judge(chip, keep_events);
    outcome.violations.extend(violation);
    Some(events)
}

/// A hash of everything a driver could read of a chip: the sum of the hashes of its blocks, since
/// an event changes only one of them.
struct BaseHash {
    sum: u64,
}

impl BaseHash {
    /// Of the chip before an event, its block left out.
    fn of(event: &Recorded) -> Self {
        let chip = event.before.to_chip();
        let other = |peb: &Peb| *peb != event.event.kind.peb();
        let pebs = chip.geometry().pebs().filter(other);
        Self { sum: pebs.fold(0_u64, |sum, peb| sum.wrapping_add(hash_peb(&chip, peb))) }
    }

    /// Of the chip after the event was cut.
    fn after(&self, event: &Recorded, chip: &Chip, variant: Variant) -> u64 {
        // Reading may wear unstable cells: a copy is read.
        let copy = chip.snapshot().to_chip();
        copy.power_on();
        let mut hasher = DefaultHasher::new();
        if is_unstable(variant) {
            variant.hash(&mut hasher);
        }
        hasher.write_u64(self.sum);
        hasher.write_u64(hash_peb(&copy, event.event.kind.peb()));
        hasher.finish()
    }
}

fn hash_peb(chip: &Chip, peb: Peb) -> u64 {
    let geometry = chip.geometry();
    let mut hasher = DefaultHasher::new();
    hasher.write_u32(peb.get());
    let mut block = vec![0; geometry.peb_size() as usize];
    if let Ok(outcome) = chip.read(geometry.address_of(peb), &mut block) {
        hasher.write_u32(eraseblock_base::crc::crc32(&block));
        hasher.write_u16(outcome.corrected_bits);
        hasher.write_u8(u8::from(outcome.uncorrectable));
    }
    hasher.write_u8(u8::from(chip.is_bad(peb).unwrap_or(true)));
    hasher.finish()
}

/// Judges one state again; the broken rule, if one is.
pub fn replay(id: &ReplayId, options: &Options) -> Result<Option<Violation>, LabError> {
    let options = Options { shape: id.shape, seed: id.seed, ..options.clone() };
    let missing = || LabError::NoSuchEvent { id: id.clone() };
    let mut bench = Bench::new(&options)?;
    let (first, rest) = id.cuts.split_first().ok_or_else(missing)?;
    loop {
        let step = bench.next();
        let event = step.events.iter().find(|event| event.event.number == first.0);
        if let Some(event) = event {
            return replay_from(&options, id, &step.allowed, event, rest);
        }
        let beyond = step.events.iter().any(|event| event.event.number > first.0);
        if beyond || step.problem.is_some() {
            return Err(missing());
        }
    }
}

fn replay_from(
    options: &Options,
    id: &ReplayId,
    allowed: &Allowed,
    event: &Recorded,
    rest: &[(u64, Variant)],
) -> Result<Option<Violation>, LabError> {
    let missing = || LabError::NoSuchEvent { id: id.clone() };
    let depth = id.cuts.len() - rest.len();
    let id_here = ReplayId { cuts: id.cuts[..depth].to_vec(), ..id.clone() };
    let variant = id.cuts[depth - 1].1;
    let case = Case { options, id: id_here, allowed };
    let chip = event.cut(variant, seed_of(options, event)).map_err(|_| missing())?;
    let (violation, events) = case.judge(chip, !rest.is_empty());
    let Some((next, rest)) = rest.split_first() else { return Ok(violation) };
    let event = events.iter().find(|event| event.event.number == next.0).ok_or_else(missing)?;
    replay_from(options, id, allowed, event, rest)
}
