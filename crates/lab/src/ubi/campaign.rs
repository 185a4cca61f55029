//! Many workloads on many chips, until enough different states have been judged.

use super::device::UbiTarget;
use crate::Shape;
use crate::powercut::{LabError, Options, Plan, Report, explore_new};
use std::collections::HashSet;

/// What to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Campaign {
    /// The chips, taken in turn.
    pub shapes: Vec<Shape>,
    /// Stop after judging this many different states.
    pub states: u64,
    /// States to judge of one workload, before the next one begins with the next seed.
    pub states_per_workload: u64,
    /// Everything else; the seed is that of the first workload on each chip.
    pub options: Options,
}

/// The result of a campaign.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub struct Summary {
    /// Workloads completed.
    pub workloads: u64,
    /// States attached and judged.
    pub states: u64,
    /// Different chip contents among them.
    pub distinct_states: u64,
    /// States that arose by a cut during recovery.
    pub nested_states: u64,
    /// States that break a rule.
    pub violations: u64,
}

/// Runs a campaign and reports each completed workload. Stops after a workload with a violation.
/// Fails if a chip cannot be prepared, or if an operation fails without a cut.
pub fn campaign(plan: &Campaign, tell: &mut dyn FnMut(&Report)) -> Result<Summary, LabError> {
    let mut seen = HashSet::new();
    let mut total = Summary::default();
    let mut round = 0;
    while total.distinct_states < plan.states && total.violations == 0 {
        for shape in &plan.shapes {
            // Every other workload begins on a device that has been in use for a while.
            let warm_up = u32::try_from(round % 2 * (40 + round * 13 % 300)).unwrap_or(0);
            let target = UbiTarget { warm_up, ..UbiTarget::new(*shape) };
            let seed = plan.options.seed.wrapping_add(round);
            let options = Options {
                plans: vec![Plan::Workload(seed)],
                seed,
                budget_states: Some(plan.states_per_workload),
                ..plan.options.clone()
            };
            let report = explore_new(&target, &options, &|| false, &mut seen)?;
            total.add(&report);
            tell(&report);
            if total.distinct_states >= plan.states {
                break;
            }
        }
        round += 1;
    }
    Ok(total)
}

impl Summary {
    fn add(&mut self, report: &Report) {
        self.workloads += 1;
        self.states += report.states;
        self.distinct_states += report.distinct_states;
        self.nested_states += report.nested_states;
        self.violations += report.violations.len() as u64;
    }
}
