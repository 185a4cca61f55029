//! Tests of the judge: a correct file system passes, planted bugs are found.

use super::toy::{BUGS, Bug, ToyStack};
use super::*;
use crate::powercut::{Options, Plan, Report, explore, explore_until, replay, shrink};

fn describe(report: &Report) -> String {
    let lines: Vec<String> = report
        .violations
        .iter()
        .map(|found| {
            format!("{} {}: {} after {:?}", found.id, found.rule, found.message, found.operations)
        })
        .collect();
    lines.join("\n")
}

#[test]
fn a_right_file_system_passes() {
    // The toy stores no flags, which only later operations use.
    let mut plans: Vec<Plan> = (0..305).step_by(3).map(Plan::Single).collect();
    plans.extend((0..pair_count()).step_by(911).map(Plan::Pair));
    let report = explore(&ToyStack(Bug::None), &Options::of(plans)).unwrap();
    println!(
        "{} states, {} duplicates, {} nested",
        report.states, report.duplicates, report.nested_states
    );
    assert!(report.violations.is_empty(), "{}", describe(&report));
    assert!(report.states > 2000);
}

#[test]
fn planted_bugs_are_caught_and_replayed() {
    for bug in BUGS {
        let target = ToyStack(bug);
        let all = Options { max_violations: 1, ..Options::of(singles()) };
        let report = explore(&target, &all).unwrap_or_else(|error| panic!("{bug:?}: {error}"));
        let found = report.violations.first().unwrap_or_else(|| panic!("{bug:?} is not caught"));
        println!("{bug:?} after {} states: {} {}", report.states, found.id, found.rule);
        let again = replay(&target, &found.id, &all).unwrap();
        assert_eq!(again.map(|again| again.rule), Some(found.rule), "{bug:?} {}", found.id);
    }
}

#[test]
fn threads_do_not_change_the_result() {
    let plans = vec![Plan::Single(50), Plan::Pair(4000)];
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let options = Options::of(plans.clone());
        pool.install(|| explore(&ToyStack(Bug::LazyFsync), &options).unwrap())
    };
    assert_eq!(run(1), run(3));
}

/// Counts that choose every n-th state once ran through the whole campaign, so that what was judged
/// in a sequence depended on those before it.
#[test]
fn a_campaign_is_the_sum_of_its_sequences() {
    let mut plans = vec![Plan::Single(50), Plan::Pair(4000), Plan::Run(3)];
    plans.extend((100..130).map(Plan::Single));
    let options =
        |plans| Options { judge_every: 3, nested_every: 5, run_length: 48, ..Options::of(plans) };
    let whole = explore(&ToyStack(Bug::None), &options(plans.clone())).unwrap();
    let mut sum = Report { target: whole.target, chip: whole.chip, seed: 1, ..Report::default() };
    for plan in plans.iter().rev() {
        sum.add(&explore(&ToyStack(Bug::None), &options(vec![*plan])).unwrap());
    }
    assert!(whole.states > 100, "{whole:?}");
    assert_eq!(sum, whole);
    let other = Options { seed: 2, ..options(plans) };
    assert_ne!(explore(&ToyStack(Bug::None), &other).unwrap().digest, whole.digest);
}

#[test]
fn budgets_end_a_campaign() {
    let few = Options { budget_states: Some(50), nested_every: 0, ..Options::of(singles()) };
    assert_eq!(explore(&ToyStack(Bug::None), &few).unwrap().states, 50);
    let none = explore_until(&ToyStack(Bug::None), &few, &|| true).unwrap();
    assert_eq!((none.plans, none.states, none.cut_short), (0, 0, true));
}

/// The caller's clock decides between two parts: a part that has begun is judged completely.
#[test]
fn a_campaign_stops_between_parts() {
    let options = Options { run_length: 72, ..Options::of(vec![Plan::Run(3)]) };
    let asked = std::cell::Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) == 2;
    let report = explore_until(&ToyStack(Bug::None), &options, &stop).unwrap();
    assert_eq!((report.operations, report.cut_short), (48, true));
    let all = explore(&ToyStack(Bug::None), &options).unwrap();
    assert_eq!((all.operations, all.cut_short), (72, false));
    assert!(0 < report.states && report.states < all.states);
}

/// A long random sequence that shows a bug becomes a few operations and one cut, which break the
/// same rule.
#[test]
fn violations_shrink() {
    for bug in [Bug::LazyFsync, Bug::SplitRename, Bug::ForgetModes] {
        let target = ToyStack(bug);
        let options = Options {
            max_violations: 1,
            nested_every: 7,
            budget_states: Some(50_000),
            ..Options::of((0..40).map(Plan::Run).collect())
        };
        let report = explore(&target, &options).unwrap();
        let found = report.violations.first().unwrap_or_else(|| panic!("{bug:?} is not caught"));
        let mut steps = Vec::new();
        let shrunk = shrink(&target, &found.id, &options, &mut |step| steps.push(step)).unwrap();
        let shrunk = shrunk.unwrap();
        println!(
            "{bug:?}: {} -> {} {:?} {}",
            found.id, shrunk.id, shrunk.operations, shrunk.states
        );
        println!("{:?}", shrunk.explained.story.operations);
        let (before, after) = shrunk.operations;
        assert!(after <= 4 && after < before, "{bug:?}: {before} operations, then {after}");
        let violation = shrunk.explained.violation.unwrap();
        assert_eq!(violation.rule, found.rule);
        let again = replay(&target, &shrunk.id.to_string().parse().unwrap(), &options).unwrap();
        assert_eq!(again, Some(violation));
        assert!(!steps.is_empty() && !shrunk.cut_short);
        let repeated = shrink(&target, &found.id, &options, &mut |_| {}).unwrap().unwrap();
        assert_eq!((repeated.id, repeated.states), (shrunk.id, shrunk.states));
    }
}

/// The search ends at its budget, with the shortest sequence until then.
#[test]
fn a_budget_ends_shrinking() {
    let target = ToyStack(Bug::LazyFsync);
    let options = Options { max_violations: 1, ..Options::of((0..40).map(Plan::Run).collect()) };
    let report = explore(&target, &options).unwrap();
    let few = Options { budget_states: Some(1), ..options };
    let shrunk = shrink(&target, &report.violations[0].id, &few, &mut |_| {}).unwrap().unwrap();
    assert!(shrunk.cut_short);
    assert_eq!(shrunk.explained.violation.unwrap().rule, report.violations[0].rule);
    let right = shrink(&ToyStack(Bug::None), &report.violations[0].id, &few, &mut |_| {});
    assert!(right.unwrap().is_none());
}
