//! UBI under power cuts.

use crate::report::explored;
use eraseblock_lab::Shape;
use eraseblock_lab::powercut::{Cut, Kept, Options, Plan, StateId, Target, explain, explore};
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
        workloads: vec![Plan::Workload],
        states: 900,
        most: u64::MAX,
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

/// Operations fail in the same way when they are chosen from a list: a replay of the first ones gave
/// every operation of a device with few free blocks success.
#[test]
fn all_operations_kept_are_the_sequence_itself() {
    for plan in [Plan::Failing(1), Plan::Eager(2)] {
        let target = UbiTarget { warm_up: 160, ..UbiTarget::new(Shape::Subpage) };
        let options =
            Options { plans: vec![plan], nested_every: 0, ..Options::workload(1, Some(60)) };
        let report = explored(&target, &options);
        // The chip was formatted before.
        let events = (report.events - 1..report.events + 100).rev();
        let id = StateId::new(target.name(), plan);
        let whole = id.keeping(Kept::until(u32::try_from(report.operations).unwrap()));
        let story =
            |id: &StateId| explain(&target, id, &options).map(|it| it.story.cuts[0].clone());
        let mut compared = 0;
        for event in events {
            let cut: Cut = "P3".parse().unwrap();
            let (all, kept) = (story(&id.then(event, cut)), story(&whole.then(event, cut)));
            if let (Ok(all), Ok(kept)) = (all, kept) {
                assert_eq!((&all.events, &all.looks), (&kept.events, &kept.looks));
                compared += 1;
            }
            if compared > 5 {
                break;
            }
        }
        assert!(compared > 5, "{compared} states of {plan}");
    }
}

/// The rare events of each kind of workload occur within few states, on NOR as well.
#[test]
fn rare_events_occur_in_their_workloads() {
    for shape in [Shape::Mini, Shape::Subpage, Shape::Nor, Shape::MiniFastmap] {
        for plan in [Plan::Failing(1), Plan::Full(1), Plan::Eager(1)] {
            let target = UbiTarget::new(shape);
            let options = Options {
                plans: vec![plan],
                judge_every: 97,
                nested_every: 0,
                ..Options::workload(1, Some(1200))
            };
            let report = explored(&target, &options);
            assert!(report.violations.is_empty());
            println!("{:?}", report.happened);
            for what in target.demanded(&options.plans) {
                let count = report.happened.get(what).copied().unwrap_or(0);
                assert!(
                    count > 0,
                    "no {what} in {plan} on {}: {:?}",
                    shape.name(),
                    report.happened
                );
            }
            if plan == Plan::Failing(1) && shape == Shape::Mini {
                let count = |what| report.happened[what];
                let inside = count("failed programs in appends to mapped LEBs")
                    + count("failed erases in appends to mapped LEBs");
                let all = count("failed programs") + count("failed erases");
                assert!(3 * inside >= all, "{inside} of {all}");
            }
        }
    }
}
