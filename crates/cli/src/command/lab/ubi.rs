//! Power cuts of UBI.

use super::{PowercutArgs, Watch, speed, violation};
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::lab::Shape;
use eraseblock::raw::lab::powercut::{Options, Report, StateId, explore_until};
use eraseblock::raw::lab::ubi::{Campaign, Summary, UbiTarget, campaign};
use serde::Serialize;
use std::collections::BTreeMap;

/// The name that stands for all chips.
const ALL: &str = "all";

/// States of one workload of a campaign over all chips.
const STATES_PER_WORKLOAD: u64 = 10_000;

/// States of a campaign on one chip, unless a budget is given.
const STATES: u64 = 50_000;

/// UBI on the chip of this name.
pub(super) fn find(chip: Option<&str>) -> Result<UbiTarget, Failure> {
    let Some(name) = chip else { return Ok(UbiTarget::new(Shape::Mini)) };
    Shape::find(name).map(UbiTarget::new).ok_or_else(|| {
        let names: Vec<&str> = Shape::ALL.iter().map(|shape| shape.name()).collect();
        Failure::usage(format!("there is no chip `{name}`"))
            .hint(format!("there are {} and {ALL}", names.join(", ")))
    })
}

/// The JSON document of one workload.
#[derive(Serialize)]
struct Workload {
    shape: &'static str,
    seed: u64,
    operations: u64,
    kinds: BTreeMap<&'static str, u64>,
    background: BTreeMap<&'static str, u64>,
    events: u64,
    states: u64,
    distinct_states: u64,
    nested_states: u64,
    variants: BTreeMap<String, u64>,
    seconds: f64,
    violations: Vec<Found>,
}

/// A violation in the JSON document.
#[derive(Serialize)]
struct Found {
    id: StateId,
    operation: String,
    rule: &'static str,
    message: String,
}

fn document(report: Report, seconds: f64) -> Workload {
    let violations = report.violations.into_iter().map(|mut found| Found {
        id: found.id,
        operation: found.operations.pop().unwrap_or_default(),
        rule: found.rule,
        message: found.message,
    });
    Workload {
        shape: report.chip,
        seed: report.seed,
        operations: report.operations,
        kinds: report.kinds,
        background: report.happened,
        events: report.events,
        states: report.states,
        distinct_states: report.distinct_states,
        nested_states: report.nested_states,
        variants: report.variants,
        seconds,
        violations: violations.collect(),
    }
}

/// Runs a campaign.
pub(super) fn powercut(args: &PowercutArgs, session: &mut Session) -> Result<(), Failure> {
    let states = args.states.or(args.budget.is_none().then_some(STATES));
    let options = Options {
        nested_every: args.nested,
        judge_every: args.every,
        ..Options::workload(args.seed, states)
    };
    if args.chip.as_deref() == Some(ALL) {
        return everywhere(args, options, session);
    }
    let target = find(args.chip.as_deref())?;
    let watch = Watch::start();
    let report = explore_until(&target, &options, &|| watch.is_over(args.budget))?;
    let (seconds, busy) = watch.seconds();
    print(&report, session);
    if session.options.json {
        return session.json(&document(report, seconds));
    }
    session.lines([line(&report), speed(report.states, seconds, busy)])
}

fn print(report: &Report, session: &mut Session) {
    for found in &report.violations {
        violation(session, &found.id.to_string(), found.rule, &found.message);
    }
}

fn line(report: &Report) -> String {
    format!(
        "{}/{}/{}: {} operations, {} flash events, {} states judged, {} of them new, {} cut twice, \
         {} violations",
        report.target,
        report.chip,
        report.seed,
        report.operations,
        report.events,
        report.states,
        report.distinct_states,
        report.nested_states,
        report.violations.len(),
    )
}

/// All chips in turn, until there are enough different states.
fn everywhere(args: &PowercutArgs, options: Options, session: &mut Session) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Document {
        workloads: u64,
        states: u64,
        distinct_states: u64,
        nested_states: u64,
        violations: u64,
        seconds: f64,
        processor_seconds: f64,
        operations: BTreeMap<&'static str, u64>,
        background: BTreeMap<&'static str, u64>,
        variants: BTreeMap<String, u64>,
        workloads_done: Vec<Workload>,
    }
    if args.budget.is_some() {
        let text = "a campaign over all chips ends with a number of states, not with a time";
        return Err(Failure::usage(text).hint("give --states N"));
    }
    let plan = Campaign {
        shapes: Shape::ALL.to_vec(),
        states: args.states.unwrap_or(100_000),
        states_per_workload: STATES_PER_WORKLOAD,
        options,
    };
    let watch = Watch::start();
    let (mut reports, mut before, json) = (Vec::new(), 0.0, session.options.json);
    let summary = campaign(&plan, &mut |report| {
        if !json {
            session.remark(&line(report));
        }
        let (now, _) = watch.seconds();
        reports.push((report.clone(), now - before));
        before = now;
    })?;
    let (seconds, busy) = watch.seconds();
    for (report, _) in &reports {
        print(report, session);
    }
    let operations = sum(reports.iter().map(|(report, _)| &report.kinds));
    let background = sum(reports.iter().map(|(report, _)| &report.happened));
    let variants = sum(reports.iter().map(|(report, _)| &report.variants));
    let Summary { workloads, states, distinct_states, nested_states, violations } = summary;
    if json {
        return session.json(&Document {
            workloads,
            states,
            distinct_states,
            nested_states,
            violations,
            seconds,
            processor_seconds: busy,
            operations,
            background,
            variants,
            workloads_done: reports
                .into_iter()
                .map(|(it, seconds)| document(it, seconds))
                .collect(),
        });
    }
    session.lines([
        format!("operations: {}", list(&operations)),
        format!("background: {}", list(&background)),
        format!("variants: {}", list(&variants)),
        speed(states, seconds, busy),
        format!(
            "ubi: {workloads} workloads, {states} states judged, {distinct_states} different ones, \
             {nested_states} cut twice, {violations} violations"
        ),
    ])
}

fn sum<'a, K: Ord + Clone + 'a>(
    maps: impl Iterator<Item = &'a BTreeMap<K, u64>>,
) -> BTreeMap<K, u64> {
    let mut total = BTreeMap::new();
    for (what, count) in maps.flatten() {
        *total.entry(what.clone()).or_default() += count;
    }
    total
}

fn list<K: AsRef<str>>(counts: &BTreeMap<K, u64>) -> String {
    let items: Vec<String> =
        counts.iter().map(|(what, count)| format!("{} {count}", what.as_ref())).collect();
    items.join(", ")
}
