//! UBI under power cuts.

use crate::report::explored;
use eraseblock_lab::Shape;
use eraseblock_lab::powercut::{Options, explore};
use eraseblock_lab::ubi::{Campaign, UbiTarget, campaign};

#[test]
fn nothing_is_lost_on_any_shape() {
    for shape in Shape::ALL {
        let options = Options { judge_every: 7, ..Options::workload(1, Some(1500)) };
        let report = explored(&UbiTarget::new(shape), &options);
        assert!(report.violations.is_empty());
    }
}

/// The first cut loses the counter of a worn block. The recovery restarts that counter at the mean;
/// then the second cut happens.
#[test]
fn a_lost_erase_counter_may_begin_again_at_the_mean() {
    let target = UbiTarget { warm_up: 17, ..UbiTarget::new(Shape::Large) };
    let options = Options { nested_every: 1, ..Options::workload(1000, Some(24)) };
    let report = explore(&target, &options).unwrap();
    assert!(report.violations.is_empty(), "{:?}", report.violations[0]);
    assert!(report.nested_states > 100, "{report:?}");
}

#[test]
fn a_campaign_counts_different_states() {
    let plan = Campaign {
        shapes: vec![Shape::Mini, Shape::Nor],
        states: 900,
        states_per_workload: 300,
        options: Options { nested_every: 0, judge_every: 3, ..Options::workload(1, None) },
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
    let reports = [(); 2]
        .map(|()| explore(&UbiTarget::new(Shape::Mini), &Options::workload(1, Some(500))).unwrap());
    assert_eq!(reports[0], reports[1]);
}
