//! Power cuts of UBI.

use super::page::Page;
use super::units::{self, Unit};
use super::{PowercutArgs, Watch, Workload, speed, violation};
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::lab::Shape;
use eraseblock::raw::lab::powercut::{Options, Plan, Report, StateId};
use eraseblock::raw::lab::ubi::{self, Campaign, Summary, UbiTarget, WORKLOADS, campaign_until};
use serde::Serialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The name that stands for all chips.
const ALL: &str = "all";

/// The fewest and the most states of one workload, before the next one begins.
const STATES_PER_WORKLOAD: (u64, u64) = (500, 10_000);

/// States of a campaign on one chip and on all of them, unless a budget is given.
const STATES: (u64, u64) = (50_000, 100_000);

/// UBI on the chip of this name.
pub(super) fn find(chip: Option<&str>) -> Result<UbiTarget, Failure> {
    let Some(name) = chip else { return Ok(UbiTarget::new(Shape::Mini)) };
    let found = Shape::named(name).and_then(|shape| shape.check_ubi().map(|()| shape));
    found.map(UbiTarget::new).map_err(|message| {
        let names: Vec<&str> = Shape::ALL.iter().map(|shape| shape.name()).collect();
        let names =
            format!("there are {} and {ALL}; --part and --peb describe others", names.join(", "));
        Failure::usage(format!("there is no chip `{name}`: {message}")).hint(names)
    })
}

/// The JSON document of one workload.
#[derive(Serialize)]
struct Done {
    shape: &'static str,
    workload: String,
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

fn document(report: Report, seconds: f64) -> Done {
    let violations = report.violations.into_iter().map(|mut found| Found {
        id: found.id,
        operation: found.operations.pop().unwrap_or_default(),
        rule: found.rule,
        message: found.message,
    });
    Done {
        shape: report.chip,
        workload: report.plan.map_or_else(String::new, |plan| plan.to_string()),
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

fn line(report: &Report) -> String {
    format!(
        "{}/{}/{}: {} operations, {} flash events, {} states judged, {} of them new, {} cut twice, \
         {} violations",
        report.target,
        report.chip,
        report.plan.map_or_else(String::new, |plan| plan.to_string()),
        report.operations,
        report.events,
        report.states,
        report.distinct_states,
        report.nested_states,
        report.violations.len(),
    )
}

/// The JSON document of a campaign.
#[derive(Serialize)]
struct Document<'a> {
    workloads: u64,
    states: u64,
    distinct_states: u64,
    nested_states: u64,
    violations: u64,
    seconds: f64,
    processor_seconds: f64,
    operations: &'a BTreeMap<&'static str, u64>,
    background: &'a BTreeMap<&'static str, u64>,
    variants: &'a BTreeMap<String, u64>,
    cut_events: &'a BTreeMap<&'static str, u64>,
    cut_operations: &'a BTreeMap<String, u64>,
    rare: BTreeMap<&'static str, u64>,
    digest: String,
    workloads_done: Vec<Done>,
}

impl Workload {
    fn kinds(self) -> Vec<fn(u64) -> Plan> {
        match self {
            Self::All => WORKLOADS.to_vec(),
            Self::Mixed => vec![Plan::Workload],
            Self::Failing => vec![Plan::Failing],
            Self::Full => vec![Plan::Full],
            Self::Eager => vec![Plan::Eager],
        }
    }
}

/// Returns the campaign that the arguments describe.
fn plan(args: &PowercutArgs) -> Result<Campaign, Failure> {
    let name = args.chip()?;
    let (shapes, usual) = match name.as_deref() {
        Some(ALL) => (Shape::ALL.to_vec(), STATES.1),
        name => (vec![find(name)?.shape], STATES.0),
    };
    let workloads = args.workload.kinds();
    let is_open = args.budget.is_none() && args.division.units.is_none();
    let states = args.states.or(is_open.then_some(usual));
    let share = states.map_or(0, |states| states / (shapes.len() * workloads.len()) as u64);
    Ok(Campaign {
        shapes,
        workloads,
        most: args.division.units.unwrap_or(u64::MAX),
        states: states.unwrap_or(u64::MAX),
        states_per_workload: share.clamp(STATES_PER_WORKLOAD.0, STATES_PER_WORKLOAD.1),
        options: Options {
            nested_every: args.nested,
            judge_every: args.every,
            ..Options::workload(args.seed, None)
        },
    })
}

/// Returns the units of a campaign: as many workloads as judge its states.
pub(super) fn units(args: &PowercutArgs) -> Result<Vec<Unit>, Failure> {
    let plan = plan(args)?;
    let enough = plan.states.div_ceil(plan.states_per_workload);
    let most = usize::try_from(plan.most.min(enough)).unwrap_or(usize::MAX);
    if args.budget.is_some() {
        return Err(units::budget_refused());
    }
    let unit = |unit: ubi::Unit| Unit { target: Rc::new(unit.target), options: unit.options };
    Ok(plan.units().take(most).map(unit).collect())
}

/// Runs a campaign: workloads and chips in turn, until there are enough different states.
pub(super) fn powercut(args: &PowercutArgs, session: &mut Session) -> Result<(), Failure> {
    let plan = plan(args)?;
    let page = args.page(session)?;
    let watch = Watch::start();
    let (mut done, mut total, mut before) = (Vec::new(), Report::default(), 0.0);
    let stop = || watch.is_over(args.budget);
    let summary = campaign_until(&plan, &stop, &mut |report| {
        session.remark(&line(report));
        let (now, _) = watch.seconds();
        total.add(report);
        done.push(document(report.clone(), now - before));
        before = now;
    })?;
    let times = watch.seconds();
    for found in &total.violations {
        violation(session, &found.id.to_string(), found.rule, &found.message);
    }
    let count = |what: &&'static str| (*what, total.happened.get(what).copied().unwrap_or(0));
    let rare: BTreeMap<_, _> = summary.demanded.iter().map(count).collect();
    if args.thorough {
        for (what, _) in rare.iter().filter(|(_, count)| **count == 0) {
            violation(session, "ubi", "thorough", &format!("no {what} in any workload"));
        }
    }
    if let Some(output) = page {
        let title = format!("ubi/{}", args.chip()?.as_deref().unwrap_or(plan.shapes[0].name()));
        let demanded = summary.demanded.clone();
        Page { title: &title, report: &total, demanded, seconds: times }.write(output)?;
    }
    if session.options.json {
        return print_document(session, &summary, &total, rare, done, times);
    }
    print(session, &summary, &total, &rare, times)
}

fn print_document(
    session: &mut Session,
    summary: &Summary,
    total: &Report,
    rare: BTreeMap<&'static str, u64>,
    workloads_done: Vec<Done>,
    (seconds, processor_seconds): (f64, f64),
) -> Result<(), Failure> {
    session.json(&Document {
        workloads: summary.workloads,
        states: summary.states,
        distinct_states: summary.distinct_states,
        nested_states: summary.nested_states,
        violations: summary.violations,
        seconds,
        processor_seconds,
        operations: &total.kinds,
        background: &total.happened,
        variants: &total.variants,
        cut_events: &total.cut_events,
        cut_operations: &total.cut_operations,
        rare,
        digest: units::digest(total),
        workloads_done,
    })
}

fn print(
    session: &mut Session,
    summary: &Summary,
    total: &Report,
    rare: &BTreeMap<&'static str, u64>,
    (seconds, busy): (f64, f64),
) -> Result<(), Failure> {
    let Summary { workloads, states, distinct_states, nested_states, violations, .. } = summary;
    if !rare.is_empty() {
        session.lines([format!("rare events: {}", list(rare))])?;
    }
    session.lines([
        format!("operations: {}", list(&total.kinds)),
        format!("background: {}", list(&total.happened)),
        format!("variants: {}", list(&total.variants)),
        speed(*states, seconds, busy),
        format!(
            "ubi: {workloads} workloads, {states} states judged, {distinct_states} different ones, \
             {nested_states} cut twice, {violations} violations"
        ),
    ])
}

fn list<K: AsRef<str>>(counts: &BTreeMap<K, u64>) -> String {
    let items: Vec<String> =
        counts.iter().map(|(what, count)| format!("{} {count}", what.as_ref())).collect();
    items.join(", ")
}
