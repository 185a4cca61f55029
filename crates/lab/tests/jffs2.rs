//! JFFS2 under power cuts.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // an integration test is test code throughout

use eraseblock_lab::fscut::{FsOptions, FsReport, Jffs2Target, Plan, explore};

fn show(report: &FsReport) {
    println!(
        "{}: {} plans, {} operations, {} states, {} duplicates, {} nested, {} events, {:.1} s",
        report.target,
        report.plans,
        report.operations,
        report.states,
        report.duplicates,
        report.nested_states,
        report.events,
        report.seconds
    );
    for found in &report.violations {
        println!(
            "{} {}: {}\n    after {:?}",
            found.id, found.rule, found.message, found.operations
        );
    }
}

#[test]
fn every_single_operation_survives_every_cut() {
    for chip in Jffs2Target::CHIPS {
        let target = Jffs2Target::find(chip).unwrap();
        let options = FsOptions { judge_every: 3, ..FsOptions::default() };
        let report = explore(&target, &options).unwrap();
        show(&report);
        assert!(report.violations.is_empty());
    }
}

#[test]
fn random_operations_survive_cuts() {
    for chip in Jffs2Target::CHIPS {
        let target = Jffs2Target::find(chip).unwrap();
        let plans = (0..2).map(Plan::Run).collect();
        let options = FsOptions { plans, judge_every: 3, ..FsOptions::default() };
        let report = explore(&target, &options).unwrap();
        show(&report);
        assert!(report.violations.is_empty());
    }
}
