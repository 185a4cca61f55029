//! Many workloads on many chips, until enough different states have been judged.

use super::device::UbiTarget;
use crate::Shape;
use crate::powercut::{LabError, Options, Plan, Report, Target, explore_new};
use std::collections::{BTreeSet, HashSet};

/// What to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Campaign {
    /// The chips, taken in turn.
    pub shapes: Vec<Shape>,
    /// The kinds of workloads, taken in turn; each chip begins with another one.
    pub workloads: Vec<fn(u64) -> Plan>,
    /// Stop after judging this many different states.
    pub states: u64,
    /// States to judge of one workload, before the next one begins.
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
    /// The rare events that all these workloads together must have met.
    #[serde(skip)]
    pub demanded: BTreeSet<&'static str>,
}

/// The kinds of workloads of UBI.
pub const WORKLOADS: [fn(u64) -> Plan; 4] =
    [Plan::Workload, Plan::Failing, Plan::Full, Plan::Eager];

/// Runs a campaign and reports each completed workload. Stops after a workload with a violation.
/// Fails if a chip cannot be prepared, or if an operation fails without a cut.
pub fn campaign(plan: &Campaign, tell: &mut dyn FnMut(&Report)) -> Result<Summary, LabError> {
    campaign_until(plan, &|| false, tell)
}

/// Like [`campaign`], and stops when `stop` returns true, for example after a time. Fails as
/// [`campaign`] does.
pub fn campaign_until(
    plan: &Campaign,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Report),
) -> Result<Summary, LabError> {
    let mut seen = HashSet::new();
    let mut total = Summary::default();
    for round in 0..u64::MAX {
        for (number, shape) in plan.shapes.iter().enumerate() {
            if total.distinct_states >= plan.states || total.violations > 0 || stop() {
                return Ok(total);
            }
            let target = UbiTarget { warm_up: warm_up(round), ..UbiTarget::new(*shape) };
            let seed = plan.options.seed.wrapping_add(round);
            let turn = usize::try_from(round).unwrap_or(0).wrapping_add(number);
            let workload = plan.workloads[turn % plan.workloads.len().max(1)](seed);
            let left = plan.states - total.distinct_states;
            let options = Options {
                plans: vec![workload],
                seed,
                budget_states: Some(plan.states_per_workload.min(left)),
                ..plan.options.clone()
            };
            let report = explore_new(&target, &options, stop, &mut seen)?;
            total.demanded.extend(target.demanded(&options.plans));
            total.add(&report);
            tell(&report);
        }
    }
    Ok(total)
}

/// Every other workload begins on a device that has been in use for a while.
fn warm_up(round: u64) -> u32 {
    u32::try_from(round % 2 * (40 + round * 13 % 300)).unwrap_or(0)
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
