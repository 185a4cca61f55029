//! UBIFS under power cuts.

use crate::report::explored;
use eraseblock_lab::Shape;
use eraseblock_lab::files::{pair_count, single_count, tight_ubifs, ubifs};
use eraseblock_lab::powercut::{Options, Plan};

#[test]
fn single_operations_survive_cuts_on_nand() {
    for shape in [Shape::Mini, Shape::Subpage, Shape::Large] {
        let plans = (0..single_count()).step_by(11).map(Plan::Single).collect();
        let options = Options { judge_every: 9, nested_every: 997, ..Options::of(plans) };
        assert!(explored(&ubifs(shape), &options).violations.is_empty());
    }
}

/// The singles that are in no pair: data written to a synchronous file must be durable when the
/// write has returned.
#[test]
fn flags_and_rarer_forms_survive_cuts() {
    let plans = (305..single_count()).map(Plan::Single).collect();
    let options = Options { judge_every: 13, nested_every: 997, ..Options::of(plans) };
    assert!(explored(&ubifs(Shape::Mini), &options).violations.is_empty());
}

#[test]
fn pairs_survive_cuts() {
    let plans = (0..pair_count()).step_by(1709).map(Plan::Pair).collect();
    let options = Options { judge_every: 17, nested_every: 997, ..Options::of(plans) };
    assert!(explored(&ubifs(Shape::Mini), &options).violations.is_empty());
}

/// The node that a mount writes to mark the file system as in use was appended after the last
/// master node. If that write had been cut, the page read as erased and could not be programmed, so
/// that no later mount was possible. The same happened if the preceding clean master node read
/// correctly once and not again (`seq1-4@349.P7oob`, `seq1-9@348.P5r2+352.P5r1`).
#[test]
fn a_mount_that_was_cut_is_followed_by_others() {
    let plans = vec![Plan::Single(4)];
    let options = Options { nested_every: 61, ..Options::of(plans) };
    assert!(explored(&ubifs(Shape::Mini), &options).violations.is_empty());
}

/// A master copy read correctly at one mount and not at the next. The first mount truncated the
/// heads of journal and LPT to what this copy says before it had made its choice durable. The next
/// mount used the other copy (found as `seq1-224@363.P5r2+372.P5r2`).
#[test]
fn a_mount_chooses_its_master_once() {
    let plans = vec![Plan::Single(224)];
    let options = Options { nested_every: 5, ..Options::of(plans) };
    assert!(explored(&ubifs(Shape::Mini), &options).violations.is_empty());
}

/// A whiteout in a set-group-id directory had group 0 instead of the directory's group (`aged-2`).
#[test]
fn an_old_file_system_survives_cuts() {
    let plans = (1..=8).map(Plan::Aged).collect();
    let options = Options { judge_every: 199, nested_every: 0, ..Options::of(plans) };
    let report = explored(&tight_ubifs(), &options);
    assert!(report.violations.is_empty());
    for (what, count) in &report.happened {
        assert!(*count > 0, "no {what}: {:?}", report.happened);
    }
}
