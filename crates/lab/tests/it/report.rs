//! Prints the results of a campaign.

use eraseblock_lab::powercut::{Options, Report, Target, explore};

/// Explores, and prints the result.
pub(crate) fn explored(target: &dyn Target, options: &Options) -> Report {
    let report = explore(target, options).unwrap();
    println!(
        "{}/{}: {} plans, {} operations, {} states, {} duplicates, {} nested, {} events",
        report.target,
        report.chip,
        report.plans,
        report.operations,
        report.states,
        report.duplicates,
        report.nested_states,
        report.events
    );
    for found in &report.violations {
        println!(
            "{} {}: {}\n    after {:?}",
            found.id, found.rule, found.message, found.operations
        );
    }
    report
}
