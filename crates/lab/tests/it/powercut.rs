//! The power-cut engine: the stack survives.

use eraseblock_lab::powercut::{Campaign, Options, Report, Shape, campaign, ubi};

fn run(shape: Shape, states: u64) -> Report {
    ubi(&Options { shape, budget_states: Some(states), ..Options::default() }).unwrap()
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

/// The first cut loses the counter of a worn block. The recovery restarts that counter at the mean;
/// then the second cut happens.
#[test]
fn a_lost_erase_counter_may_begin_again_at_the_mean() {
    let options = Options {
        shape: Shape::Large,
        seed: 1000,
        warm_up: 17,
        budget_states: Some(24),
        nested_every: 1,
        ..Options::default()
    };
    let report = ubi(&options).unwrap();
    assert!(report.violations.is_empty(), "{:?}", report.violations[0]);
    assert!(report.nested_states > 100, "{report:?}");
}

#[test]
fn a_campaign_counts_different_states() {
    let plan = Campaign {
        shapes: vec![Shape::Mini, Shape::Nor],
        states: 900,
        states_per_workload: 300,
        options: Options { nested_every: 0, judge_every: 3, ..Options::default() },
    };
    let mut reports = Vec::new();
    let summary = campaign(&plan, &mut |report| reports.push(report.clone())).unwrap();
    assert_eq!((summary.violations, summary.workloads), (0, reports.len() as u64));
    assert!(summary.workloads >= 3 && summary.distinct_states >= 900, "{summary:?}");
    assert!(summary.distinct_states <= summary.states);
    assert_eq!((reports[0].seed, reports[1].seed, reports[2].seed), (1, 1, 2));
    assert!(reports[2].operations > 53, "a device with a history: {:?}", reports[2]);
}

#[test]
fn the_same_options_give_the_same_report() {
    let reports = [(); 2].map(|()| {
        let mut report = run(Shape::Mini, 500);
        report.seconds = 0.0;
        report
    });
    assert_eq!(reports[0], reports[1]);
}
