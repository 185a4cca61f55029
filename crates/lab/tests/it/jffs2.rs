//! JFFS2 under power cuts.

use crate::report::explored;
use eraseblock_lab::files::{Jffs2Stack, singles};
use eraseblock_lab::powercut::{LabError, Options, Plan, StateId, replay};

#[test]
fn single_operations_survive_cuts() {
    for chip in Jffs2Stack::CHIPS {
        let target = Jffs2Stack::find(chip).unwrap();
        let options = Options { judge_every: 25, nested_every: 512, ..Options::of(singles()) };
        let report = explored(&target, &options);
        assert!(report.violations.is_empty() && !report.cut_short);
        let few = Options { budget_states: Some(10), ..options };
        assert!(explored(&target, &few).cut_short);
    }
}

#[test]
fn random_operations_survive_cuts() {
    for chip in Jffs2Stack::CHIPS {
        let target = Jffs2Stack::find(chip).unwrap();
        let plans = (0..2).map(Plan::Run).collect();
        let options = Options { judge_every: 3, run_length: 600, ..Options::of(plans) };
        assert!(explored(&target, &options).violations.is_empty());
    }
}

// A mount copied the live nodes of a suspect page with their versions. The erase of the page's
// block was cut while the page still read correctly, for the last time. The next mount chose
// the old copy as the newest one, and then lost the page.
#[test]
fn what_a_suspect_page_held_survives_the_cut_of_its_erasure() {
    let target = Jffs2Stack::find("nosum").unwrap();
    let mut judged = 0;
    for event in 276..304 {
        let id: StateId = format!("jffs2/nosum/run-82@275.P7oob+{event}.E4").parse().unwrap();
        let options = Options { seed: 77, run_length: 1200, ..Options::of(vec![id.plan]) };
        match replay(&target, &id, &options) {
            Ok(violation) => {
                judged += 1;
                assert_eq!(violation, None, "{id}");
            }
            Err(error) => assert!(matches!(error, LabError::NoSuchEvent { .. }), "{error}"),
        }
    }
    assert!(judged > 0);
}

/// A medium that holds two copies of nodes, one of them in a block that is half erased but still
/// lists it in its summary.
#[test]
fn media_that_another_driver_collected_survive_cuts() {
    for chip in Jffs2Stack::CHIPS {
        let target = Jffs2Stack::find(chip).unwrap();
        let plans = [6, 8, 14, 16].map(Plan::Aged).to_vec();
        let options = Options { judge_every: 101, nested_every: 997, ..Options::of(plans) };
        let report = explored(&target, &options);
        assert!(report.violations.is_empty());
        for (what, count) in &report.happened {
            assert!(*count > 0, "no {what} on {chip}: {:?}", report.happened);
        }
    }
}
