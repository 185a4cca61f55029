//! Tests of the judge: a correct file system passes, planted bugs are found.

use super::toy::{BUGS, Bug, ToyTarget};
use super::*;

fn options(plans: Vec<Plan>) -> FsOptions {
    FsOptions { plans, ..FsOptions::default() }
}

fn describe(report: &FsReport) -> String {
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
    let report = explore(&ToyTarget(Bug::None), &options(plans)).unwrap();
    println!(
        "{} states, {} duplicates, {} nested, {:.1} s",
        report.states, report.duplicates, report.nested_states, report.seconds
    );
    assert!(report.violations.is_empty(), "{}", describe(&report));
    assert!(report.states > 2000);
}

#[test]
fn planted_bugs_are_caught_and_replayed() {
    for bug in BUGS {
        let target = ToyTarget(bug);
        let all = FsOptions { max_violations: 1, ..FsOptions::default() };
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
        let mut report =
            pool.install(|| explore(&ToyTarget(Bug::LazyFsync), &options(plans.clone())).unwrap());
        report.seconds = 0.0;
        report
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn budgets_end_a_campaign() {
    let few = FsOptions { budget_states: Some(50), nested_every: 0, ..FsOptions::default() };
    assert_eq!(explore(&ToyTarget(Bug::None), &few).unwrap().states, 50);
    let none = FsOptions { budget_time: Some(Duration::ZERO), ..FsOptions::default() };
    assert_eq!(explore(&ToyTarget(Bug::None), &none).unwrap().states, 0);
}
