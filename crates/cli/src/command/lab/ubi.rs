//! Power cuts of UBI.

use super::{PowercutArgs, ReplayArgs, processor_seconds, speed, story, violation};
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::lab::powercut::{
    Campaign, Options, ReplayId, Report, Shape, Summary, campaign, explain, ubi,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The name that stands for all chips.
const ALL: &str = "all";

/// States of one workload of a campaign over all chips.
const STATES_PER_WORKLOAD: u64 = 10_000;

fn shape(name: Option<&str>) -> Result<Shape, Failure> {
    let Some(name) = name else { return Ok(Shape::Mini) };
    Shape::find(name).ok_or_else(|| {
        let names: Vec<&str> = Shape::ALL.iter().map(|shape| shape.name()).collect();
        Failure::usage(format!("there is no chip `{name}`"))
            .hint(format!("there are {} and {ALL}", names.join(", ")))
    })
}

/// Runs a campaign.
pub(super) fn powercut(args: &PowercutArgs, session: &mut Session) -> Result<(), Failure> {
    let options = Options {
        seed: args.seed,
        budget_states: args.states,
        budget_time: args.budget,
        nested_every: args.nested,
        judge_every: args.every,
        ..Options::default()
    };
    if args.chip.as_deref() == Some(ALL) {
        return everywhere(args, options, session);
    }
    let options = Options { shape: shape(args.chip.as_deref())?, ..options };
    let before = processor_seconds();
    let report = ubi(&options)?;
    print(&report, session);
    if session.options.json {
        return session.json(&report);
    }
    let busy = processor_seconds() - before;
    session.lines([line(&report), speed(report.states, report.seconds, busy)])
}

fn print(report: &Report, session: &mut Session) {
    for found in &report.violations {
        violation(session, &found.id.to_string(), found.rule, &found.message);
    }
}

fn line(report: &Report) -> String {
    format!(
        "ubi/{}/{}: {} operations, {} flash events, {} states judged, {} of them new, {} cut twice, \
         {} violations",
        report.shape,
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
        #[serde(flatten)]
        summary: Summary,
        processor_seconds: f64,
        operations: BTreeMap<&'static str, u64>,
        background: BTreeMap<&'static str, u64>,
        variants: BTreeMap<String, u64>,
        workloads_done: Vec<Report>,
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
    let before = processor_seconds();
    let (mut reports, json) = (Vec::new(), session.options.json);
    let summary = campaign(&plan, &mut |report| {
        if !json {
            session.remark(&line(report));
        }
        reports.push(report.clone());
    })?;
    let busy = processor_seconds() - before;
    for report in &reports {
        print(report, session);
    }
    let operations = sum(reports.iter().map(|report| &report.kinds));
    let background = sum(reports.iter().map(|report| &report.background));
    let variants = sum(reports.iter().map(|report| &report.variants));
    if json {
        let (processor_seconds, workloads_done) = (busy, reports);
        let document = Document {
            summary,
            processor_seconds,
            operations,
            background,
            variants,
            workloads_done,
        };
        return session.json(&document);
    }
    session.lines([
        format!("operations: {}", list(&operations)),
        format!("background: {}", list(&background)),
        format!("variants: {}", list(&variants)),
        speed(summary.states, summary.seconds, busy),
        format!(
            "ubi: {} workloads, {} states judged, {} different ones, {} cut twice, {} violations",
            summary.workloads,
            summary.states,
            summary.distinct_states,
            summary.nested_states,
            summary.violations
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

/// Judges one state.
pub(super) fn replay(args: &ReplayArgs, session: &mut Session) -> Result<(), Failure> {
    let id: ReplayId = args.id.parse()?;
    let options = Options { seed: args.seed, ..Options::default() };
    let explained = explain(&id, &options)?;
    let found = explained.violation.as_ref();
    let found = found.map(|found| (found.rule, found.message.as_str()));
    story::print(args, session, &explained.story, found)
}
