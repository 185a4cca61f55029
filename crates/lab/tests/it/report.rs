//! Prints the results of a campaign.

use eraseblock_lab::fscut::{FsOptions, FsReport, Target, explore};

/// Explores, and prints the result.
pub(crate) fn explored(target: &dyn Target, options: &FsOptions) -> FsReport {
    let report = explore(target, options).unwrap();
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
    report
}
