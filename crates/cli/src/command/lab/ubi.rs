//! Power cuts of UBI.

use super::{PowercutArgs, ReplayArgs, per_second, violation};
use crate::failure::Failure;
use crate::session::Session;
use eraseblock_lab::powercut::{Options, ReplayId, Shape, replay as judge, ubi};

fn shape(name: Option<&str>) -> Result<Shape, Failure> {
    let Some(name) = name else { return Ok(Shape::Mini) };
    Shape::find(name).ok_or_else(|| {
        let names: Vec<&str> = Shape::ALL.iter().map(|shape| shape.name()).collect();
        Failure::usage(format!("there is no chip `{name}`"))
            .hint(format!("there are {}", names.join(", ")))
    })
}

/// Runs a campaign.
pub(super) fn powercut(args: &PowercutArgs, session: &mut Session) -> Result<(), Failure> {
    let options = Options {
        shape: shape(args.chip.as_deref())?,
        seed: args.seed,
        budget_states: args.states,
        budget_time: args.budget,
        nested_every: args.nested,
        judge_every: args.every,
        ..Options::default()
    };
    let report = ubi(&options)?;
    for found in &report.violations {
        violation(session, &found.id.to_string(), found.rule, &found.message);
    }
    if session.options.json {
        return session.json(&report);
    }
    let rate = per_second(report.states, report.seconds);
    session.lines([format!(
        "ubi/{}: {} operations, {} flash events, {} states judged ({rate} a second), {} violations",
        report.shape,
        report.operations,
        report.events,
        report.states,
        report.violations.len(),
    )])
}

/// Judges one state.
pub(super) fn replay(args: &ReplayArgs, session: &mut Session) -> Result<(), Failure> {
    let id: ReplayId = args.id.parse()?;
    let options = Options { seed: args.seed, ..Options::default() };
    match judge(&id, &options)? {
        Some(found) => violation(session, &args.id, found.rule, &found.message),
        None => session.lines([format!("{}: nothing wrong", args.id)])?,
    }
    Ok(())
}
