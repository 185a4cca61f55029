//! `lab shrink`: the smallest state that breaks the same rule.

use super::{ShrinkArgs, find, story};
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::lab::powercut::{Options, Shrunk, StateId, shrink};
use serde_json::json;

/// Shrinks a state, and prints the result with its story.
pub(super) fn run(args: &ShrinkArgs, session: &mut Session) -> Result<(), Failure> {
    let id: StateId = args.state.id.parse()?;
    let target = find(&id)?;
    let options = Options { budget_states: Some(args.states), ..args.state.options(&id) };
    let progress = session.progress(args.states, "shrinking");
    let shrunk = shrink(target.as_ref(), &id, &options, &mut |step| {
        progress.set_message(format!("{} operations", step.operations));
        progress.set_position(step.states);
    })?;
    progress.finish_and_clear();
    let Some(shrunk) = shrunk else {
        if session.options.json {
            return session.json(&json!({ "id": args.state.id, "shrunk": null }));
        }
        return session.lines([format!("{id}: nothing wrong, so nothing to shrink")]);
    };
    let Shrunk { id: smallest, explained, operations: (before, after), states, cut_short } = shrunk;
    let smallest = smallest.to_string();
    if !session.options.json {
        let short = if cut_short { ", stopped at --states" } else { "" };
        session.lines([
            format!("{id}: {before} operations"),
            format!("{smallest}: {after} operations, {states} states judged{short}"),
            String::new(),
        ])?;
    }
    let shrinking = json!({
        "from": args.state.id, "operations_before": before, "operations": after,
        "states": states, "cut_short": cut_short,
    });
    story::print(&smallest, args.state.chip.as_deref(), session, &explained, Some(shrinking))
}
