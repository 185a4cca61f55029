//! YAFFS2 under power cuts.

use crate::report::explored;
use eraseblock_lab::files::{Yaffs2Stack, pair_count, single_count};
use eraseblock_lab::powercut::{Options, Plan, StateId, replay};

fn targets() -> impl Iterator<Item = Yaffs2Stack> {
    Yaffs2Stack::CHIPS.into_iter().filter_map(Yaffs2Stack::find)
}

#[test]
fn single_operations_survive_cuts() {
    for (number, target) in (0..).zip(targets()) {
        let plans = (number..single_count()).step_by(4).map(Plan::Single).collect();
        let options = Options { judge_every: 13, nested_every: 97, ..Options::of(plans) };
        assert!(explored(&target, &options).violations.is_empty());
    }
}

#[test]
fn pairs_survive_cuts() {
    for (number, target) in (0..).zip(targets()) {
        let plans = (number..pair_count()).step_by(2411).map(Plan::Pair).collect();
        let options = Options { judge_every: 7, nested_every: 97, ..Options::of(plans) };
        assert!(explored(&target, &options).violations.is_empty());
    }
}

#[test]
fn random_operations_survive_cuts() {
    for target in targets() {
        let plans = (0..2).map(Plan::Run).collect();
        let options = Options { judge_every: 11, run_length: 400, ..Options::of(plans) };
        assert!(explored(&target, &options).violations.is_empty());
    }
}

/// Every block was collected many times. In 803, a mount collected a block before it had forgotten
/// deleted objects: what a cut erase had left of one could not be moved, and its block stayed in use.
#[test]
fn old_file_systems_survive_cuts() {
    for target in targets() {
        let plans = vec![Plan::Aged(1), Plan::Aged(803)];
        let options = Options { judge_every: 31, ..Options::of(plans) };
        let report = explored(&target, &options);
        assert!(report.violations.is_empty());
        assert!(report.cut_events.contains_key("erase"), "{:?}", report.cut_events);
    }
}

/// A failed program and two cuts used up the blocks that are kept for garbage collection.
#[test]
fn the_reserve_outlasts_a_failure_and_two_cuts() {
    let id: StateId = "yaffs2/failing/aged-800@955.P6k4+957.P1".parse().unwrap();
    let options = Options { seed: 800, ..Options::of(vec![id.plan]) };
    let target = Yaffs2Stack::find("failing").unwrap();
    let plans = Options { judge_every: 7, nested_every: 5, budget_states: Some(2500), ..options };
    assert!(explored(&target, &plans).violations.is_empty());
}

/// States in which the writer was wrong at first: a torn page whose tags are whole counted, although
/// what it replaced was durable (`P7oob`), or counted at the first mount and not at the next (`P5`);
/// a header that was torn while it made a file empty left the file without a name; the copy of the
/// page before a torn header undid what the header's tags had already voided (`run-505`); the copy came before what voids the
/// torn page (`run-503`).
#[test]
fn torn_pages_neither_count_nor_come_back() {
    for id in ["plain/seq1-109@31.P7oob", "plain/seq1-189@32.P7oob", "plain/run-505@210.P7oob"] {
        let id: StateId = format!("yaffs2/{id}").parse().unwrap();
        let target = Yaffs2Stack::find(id.target.1.as_str()).unwrap();
        let options = Options { seed: 500, ..Options::of(vec![id.plan]) };
        assert_eq!(replay(&target, &id, &options).unwrap(), None, "{id}");
    }
    let every = |plan, judge_every, nested_every| {
        let options = Options { seed: 500, run_length: 260, ..Options::of(vec![plan]) };
        Options { judge_every, nested_every, ..options }
    };
    for (chip, options) in
        [("inband", every(Plan::Single(106), 1, 2)), ("failing", every(Plan::Run(503), 3, 5))]
    {
        let target = Yaffs2Stack::find(chip).unwrap();
        assert!(explored(&target, &options).violations.is_empty());
    }
}
