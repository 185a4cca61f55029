//! Many workloads on many chips, until enough different states have been judged.

use super::device::UbiTarget;
use crate::Shape;
use crate::powercut::{LabError, Options, Plan, Report, Target, explore_until};
use std::collections::BTreeSet;

/// What to try.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Campaign {
    /// The chips, taken in turn.
    pub shapes: Vec<Shape>,
    /// The kinds of workloads, taken in turn; each chip begins with another one.
    pub workloads: Vec<fn(u64) -> Plan>,
    /// Stop after judging this many different states.
    pub states: u64,
    /// Stop after this many workloads.
    pub most: u64,
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
    /// Different chip contents among them, counted in each workload.
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
    let mut total = Summary::default();
    for mut unit in plan.units() {
        if total.distinct_states >= plan.states
            || total.workloads >= plan.most
            || total.violations > 0
            || stop()
        {
            break;
        }
        let left = plan.states - total.distinct_states;
        unit.options.budget_states = Some(plan.states_per_workload.min(left));
        let report = explore_until(&unit.target, &unit.options, stop)?;
        total.demanded.extend(unit.target.demanded(&unit.options.plans));
        total.add(&report);
        tell(&report);
    }
    Ok(total)
}

/// A workload of a campaign, which depends on no other one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// UBI on the chip.
    pub target: UbiTarget,
    /// The workload, and its budget of states.
    pub options: Options,
}

impl Campaign {
    /// Returns all workloads in order, without an end.
    pub fn units(&self) -> impl Iterator<Item = Unit> + '_ {
        let shapes = move |round| self.shapes.iter().enumerate().map(move |it| (round, it));
        (0..u64::MAX).flat_map(shapes).map(move |(round, (number, shape))| {
            let target = UbiTarget { warm_up: warm_up(round), ..UbiTarget::new(*shape) };
            let seed = self.options.seed.wrapping_add(round);
            let turn = usize::try_from(round).unwrap_or(0).wrapping_add(number);
            let workload = self.workloads[turn % self.workloads.len().max(1)](seed);
            let options = Options {
                plans: vec![workload],
                seed,
                budget_states: Some(self.states_per_workload),
                ..self.options.clone()
            };
            Unit { target, options }
        })
    }
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
