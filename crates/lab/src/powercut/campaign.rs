//! Many workloads on many chips, until enough different states have been judged.

use super::engine::explore;
use super::{LabError, Options, Report, Shape};
use std::collections::HashSet;
use std::time::Instant;

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
    /// Seconds it took.
    pub seconds: f64,
}

/// Runs a campaign and reports each completed workload. Stops after a workload with a violation.
pub fn campaign(plan: &Campaign, tell: &mut dyn FnMut(&Report)) -> Result<Summary, LabError> {
    let start = Instant::now();
    let mut seen = HashSet::new();
    let mut total = Summary::default();
    let mut round = 0;
    while total.distinct_states < plan.states && total.violations == 0 {
        for shape in &plan.shapes {
            let options = Options {
                shape: *shape,
                seed: plan.options.seed.wrapping_add(round),
                // Every other workload begins on a device that has been in use for a while.
                warm_up: u32::try_from(round % 2 * (40 + round * 13 % 300)).unwrap_or(0),
                budget_states: Some(plan.states_per_workload),
                ..plan.options.clone()
            };
            let report = explore(&options, &mut seen)?;
            total.add(&report);
            tell(&report);
            if total.distinct_states >= plan.states {
                break;
            }
        }
        round += 1;
    }
    total.seconds = start.elapsed().as_secs_f64();
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
