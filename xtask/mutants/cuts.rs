//! Short power-cut campaigns, which judge mutants.
#![allow(missing_docs, clippy::unwrap_used)]

use eraseblock_lab::Shape;
use eraseblock_lab::files::{
    Jffs2Stack, big_lpt_ubifs, pair_count, single_count, tight_ubifs, ubifs,
};
use eraseblock_lab::powercut::{Options, Plan, Target, explore};
use eraseblock_lab::ubi::UbiTarget;

/// Judges the cuts of these sequences; the first broken rule fails.
fn survives(target: &dyn Target, options: Options) {
    let options = Options { max_violations: 1, ..options };
    let report = explore(target, &options).unwrap();
    assert!(report.states > 100, "{} states only", report.states);
    assert!(report.violations.is_empty(), "{:?}", report.violations[0]);
}

fn ubi(shape: Shape) {
    survives(&UbiTarget::new(shape), Options { judge_every: 7, ..Options::workload(1, Some(1200)) });
    let aged = UbiTarget { warm_up: 150, ..UbiTarget::new(shape) };
    survives(&aged, Options { judge_every: 3, ..Options::workload(2, Some(600)) });
}

#[test]
fn ubi_mini() {
    ubi(Shape::Mini);
}

#[test]
fn ubi_subpage() {
    ubi(Shape::Subpage);
}

#[test]
fn ubi_nor() {
    ubi(Shape::Nor);
}

#[test]
fn ubi_fastmap() {
    ubi(Shape::MiniFastmap);
}

/// Many failures, a full device, and blocks that are erased at once.
fn ubi_in_need(shape: Shape) {
    for plan in [Plan::Failing(3), Plan::Full(4), Plan::Eager(5)] {
        let options = Options { plans: vec![plan], ..Options::workload(1, Some(250)) };
        survives(&UbiTarget::new(shape), Options { judge_every: 13, ..options });
    }
}

#[test]
fn ubi_mini_in_need() {
    ubi_in_need(Shape::Mini);
}

#[test]
fn ubi_subpage_in_need() {
    ubi_in_need(Shape::Subpage);
}

#[test]
fn ubi_nor_in_need() {
    ubi_in_need(Shape::Nor);
}

#[test]
fn ubi_fastmap_in_need() {
    ubi_in_need(Shape::MiniFastmap);
}

fn jffs2(chip: &str) {
    let target = Jffs2Stack::find(chip).unwrap();
    let plans = (0..single_count()).step_by(5).map(Plan::Single).collect();
    survives(&target, Options { judge_every: 5, nested_every: 211, ..Options::of(plans) });
    let plans = (0..2).map(Plan::Run).collect();
    survives(&target, Options { judge_every: 7, run_length: 600, ..Options::of(plans) });
}

#[test]
fn jffs2_nand() {
    jffs2("nand");
}

#[test]
fn jffs2_nosum() {
    jffs2("nosum");
}

#[test]
fn jffs2_nor() {
    jffs2("nor");
}

/// Old file systems, with all their habits.
fn aged(target: &dyn Target, judge_every: u32, plans: std::ops::Range<u64>) {
    let plans = plans.map(Plan::Aged).collect();
    survives(target, Options { judge_every, nested_every: 307, ..Options::of(plans) });
}

#[test]
fn jffs2_nand_aged() {
    aged(&Jffs2Stack::find("nand").unwrap(), 31, 6..14);
}

#[test]
fn jffs2_nor_aged() {
    aged(&Jffs2Stack::find("nor").unwrap(), 31, 6..11);
}

#[test]
fn ubifs_habits() {
    aged(&tight_ubifs(), 211, 5..7);
}

#[test]
fn ubifs_more_habits() {
    aged(&tight_ubifs(), 211, 7..9);
}

#[test]
fn ubifs_other_habits() {
    aged(&tight_ubifs(), 211, 9..11);
}

#[test]
fn ubifs_habits_with_room() {
    aged(&ubifs(Shape::Mini), 211, 17..20);
}

#[test]
fn ubifs_habits_with_subpages() {
    aged(&ubifs(Shape::Subpage), 307, 29..37);
}

#[test]
fn ubifs_habits_on_nor() {
    aged(&ubifs(Shape::Nor), 307, 37..40);
}

#[test]
fn ubifs_single() {
    let plans = (0..single_count()).step_by(5).map(Plan::Single).collect();
    let options = Options { judge_every: 17, nested_every: 499, ..Options::of(plans) };
    survives(&ubifs(Shape::Mini), options);
}

#[test]
fn ubifs_pairs() {
    let plans = (0..pair_count()).step_by(1201).map(Plan::Pair).collect();
    let options = Options { judge_every: 17, nested_every: 499, ..Options::of(plans) };
    survives(&ubifs(Shape::Mini), options);
}

#[test]
fn ubifs_aged() {
    let plans = (1..=4).map(Plan::Aged).collect();
    let options = Options { judge_every: 151, nested_every: 499, ..Options::of(plans) };
    survives(&tight_ubifs(), options);
}

#[test]
fn ubifs_big_lpt() {
    let options = Options { judge_every: 127, nested_every: 0, ..Options::of(vec![Plan::Aged(1)]) };
    survives(&big_lpt_ubifs(), options);
}

#[test]
fn ubifs_nor() {
    let plans = (0..single_count()).step_by(17).map(Plan::Single).collect();
    let options = Options { judge_every: 61, nested_every: 499, ..Options::of(plans) };
    survives(&ubifs(Shape::Nor), options);
}
