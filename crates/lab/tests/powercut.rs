//! The power-cut engine: the stack survives, and known bugs do not.
#![allow(clippy::unwrap_used)] // an integration test is test code throughout

use eraseblock_lab::powercut::{Options, Report, Shape, replay, ubi};
use eraseblock_ubi::sabotage::Sabotage;

fn run(shape: Shape, states: u64, sabotage: Sabotage) -> Report {
    ubi(&Options { shape, budget_states: Some(states), sabotage, ..Options::default() }).unwrap()
}

#[test]
fn nothing_is_lost_on_any_shape() {
    for shape in Shape::ALL {
        let options =
            Options { shape, budget_states: Some(1500), judge_every: 7, ..Options::default() };
        let report = ubi(&options).unwrap();
        println!(
            "{}: {} states, {} distinct, {} nested, {} events, {:.1} s",
            report.shape,
            report.states,
            report.distinct_states,
            report.nested_states,
            report.events,
            report.seconds
        );
        for violation in report.violations.iter().take(8) {
            println!(
                "{} {}: {}: {}",
                violation.id, violation.operation, violation.rule, violation.message
            );
        }
        assert!(report.violations.is_empty());
    }
}

#[test]
fn known_bugs_are_caught_and_replayed() {
    for sabotage in Sabotage::ALL {
        let shapes =
            [Shape::Mini, Shape::Subpage, Shape::Nor, Shape::MiniFastmap, Shape::SubpageFastmap];
        let caught = shapes.into_iter().find_map(|shape| {
            let options = Options {
                shape,
                budget_states: Some(1500),
                nested_every: 0,
                judge_every: 11,
                max_violations: 1,
                sabotage,
                ..Options::default()
            };
            let report = ubi(&options).unwrap();
            report.violations.first().cloned().map(|violation| (violation, options, report.states))
        });
        let (violation, options, states) = caught.unwrap_or_else(|| panic!("{sabotage:?}"));
        println!(
            "{sabotage:?}: {} after {states}: {}: {}",
            violation.id, violation.rule, violation.message
        );
        if !violation.id.cuts.is_empty() {
            let again = replay(&violation.id, &options).unwrap();
            assert_eq!(again.as_ref(), Some(&violation));
        }
    }
}

#[test]
fn the_same_options_give_the_same_report() {
    let reports = [(); 2].map(|()| {
        let mut report = run(Shape::Mini, 500, Sabotage::None);
        report.seconds = 0.0;
        report
    });
    assert_eq!(reports[0], reports[1]);
}
