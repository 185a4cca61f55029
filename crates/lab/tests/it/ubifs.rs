//! UBIFS under power cuts.

use crate::report::explored;
use eraseblock_lab::fscut::{
    FsOptions, Plan, explore, pair_count, replay, sabotaged_ubifs, single_count, tight_ubifs, ubifs,
};
use eraseblock_lab::powercut::Shape;
use eraseblock_ubifs::rw::sabotage::Sabotage;

#[test]
fn single_operations_survive_cuts_on_nand() {
    for shape in [Shape::Mini, Shape::Subpage, Shape::Large] {
        let plans = (0..single_count()).step_by(11).map(Plan::Single).collect();
        let options =
            FsOptions { plans, judge_every: 9, nested_every: 997, ..FsOptions::default() };
        assert!(explored(&ubifs(shape), &options).violations.is_empty());
    }
}

#[test]
fn pairs_survive_cuts() {
    let plans = (0..pair_count()).step_by(1709).map(Plan::Pair).collect();
    let options = FsOptions { plans, judge_every: 17, nested_every: 997, ..FsOptions::default() };
    assert!(explored(&ubifs(Shape::Mini), &options).violations.is_empty());
}

/// What a mount writes to say that the file system is in use was appended behind the last master
/// node. Where that write had been cut, the page read erased and could not be programmed, so that
/// no later mount was possible; the same where the clean master node before it read well once and
/// not again (`seq1-4@349.P7oob`, `seq1-9@348.P5r2+352.P5r1`).
#[test]
fn a_mount_that_was_cut_is_followed_by_others() {
    let plans = vec![Plan::Single(4)];
    let options = FsOptions { plans, nested_every: 61, ..FsOptions::default() };
    assert!(explored(&ubifs(Shape::Mini), &options).violations.is_empty());
}

/// A copy of the master that reads well at one mount and not at the next: the journal's and the
/// LPT's heads were cut to what one copy says before the choice was written down, and the next
/// mount went by the other copy (found as `seq1-224@363.P5r2+372.P5r2`).
#[test]
fn a_mount_chooses_its_master_once() {
    let plans = vec![Plan::Single(224)];
    let options = FsOptions { plans, nested_every: 5, ..FsOptions::default() };
    assert!(explored(&ubifs(Shape::Mini), &options).violations.is_empty());
}

/// A whiteout in a set-group-id directory belonged to nobody instead of the directory's group
/// (`aged-2`).
#[test]
fn an_old_file_system_survives_cuts() {
    let plans = (1..=8).map(Plan::Aged).collect();
    let options = FsOptions { plans, judge_every: 199, nested_every: 0, ..FsOptions::default() };
    let report = explored(&tight_ubifs(), &options);
    assert!(report.violations.is_empty());
    for (what, count) in &report.happened {
        assert!(*count > 0, "no {what}: {:?}", report.happened);
    }
}

/// Old file systems on which everything happens find most bugs soon, short sequences others; for
/// some, recoveries have to be cut.
fn searches() -> [FsOptions; 2] {
    let mut plans: Vec<Plan> = (1..=4).map(Plan::Aged).collect();
    plans.extend((0..single_count()).step_by(7).map(Plan::Single));
    let wide = FsOptions {
        plans,
        judge_every: 17,
        nested_every: 0,
        run_length: 240,
        max_violations: 1,
        ..FsOptions::default()
    };
    let plans = vec![Plan::Run(1), Plan::Run(2)];
    let deep =
        FsOptions { plans, judge_every: 101, nested_every: 2, run_length: 72, ..wide.clone() };
    [wide, deep]
}

fn find(sabotage: Sabotage, options: &FsOptions) -> Option<String> {
    let target = sabotaged_ubifs(sabotage);
    let report = match explore(&target, options) {
        Ok(report) => report,
        // Not even an empty file system comes about.
        Err(error) => return Some(error.to_string()),
    };
    let found = report.violations.first()?;
    let again = replay(&target, &found.id, options).unwrap();
    let rule = again.map(|again| again.rule);
    // Without a cut the replay looks more often and may see the same bug sooner.
    let same = if found.id.cuts.is_empty() { rule.is_some() } else { rule == Some(found.rule) };
    assert!(same, "{sabotage:?} {} {rule:?}", found.id);
    Some(format!("after {} states: {} {}", report.states, found.id, found.rule))
}

#[test]
fn planted_bugs_are_caught() {
    let mut missed = Vec::new();
    for sabotage in Sabotage::ALL {
        match searches().iter().find_map(|options| find(sabotage, options)) {
            Some(how) => println!("{sabotage:?} {how}"),
            None => missed.push(sabotage),
        }
    }
    assert!(missed.len() * 20 <= Sabotage::ALL.len(), "missed: {missed:?}");
}
