//! UBI as a target of the power-cut engine: an endless workload, each operation judged by itself.

use super::device::UbiTarget;
use super::workload::style::Style;
use super::workload::{Bench, Planned};
use crate::powercut::{Choice, Kept, Part, Plan, Prepared, Sequence, Target, Uncut};
use crate::story::flash;
use eraseblock_nandsim::Recorded;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

impl Target for UbiTarget {
    fn name(&self) -> (&'static str, &'static str) {
        ("ubi", self.shape.name())
    }

    fn demanded(&self, plans: &[Plan]) -> Vec<&'static str> {
        let styles = plans.iter().filter_map(|plan| Style::of(*plan));
        let demanded = styles.flat_map(|(style, _)| style.demanded(self.shape));
        demanded.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn choice(&self) -> Choice {
        // UBI uses no out-of-band bytes.
        Choice { spare: false, place: true, counts_own_events: true }
    }

    fn describe(&self, event: &Recorded) -> String {
        flash::on_ubi(event, &self.shape.layout(), &|_| None)
    }

    fn prepare<'a>(&'a self, _run_length: u32) -> Result<Box<dyn Prepared<'a> + 'a>, String> {
        Ok(Box::new(*self))
    }
}

/// The seed chooses the workload, which begins on an empty chip.
impl<'a> Prepared<'a> for UbiTarget {
    fn start(&self, plan: Plan) -> Result<Option<Box<dyn Sequence<'a> + 'a>>, String> {
        let Some(bench) = self.bench(plan)? else { return Ok(None) };
        Ok(Some(Box::new(Running { bench, warm_up: self.warm_up, failed: false })))
    }

    fn start_kept(
        &self,
        plan: Plan,
        kept: &Kept,
    ) -> Result<Option<Box<dyn Sequence<'a> + 'a>>, String> {
        let (Some(mut whole), Some(bench)) = (self.bench(plan)?, self.bench(plan)?) else {
            return Ok(None);
        };
        let mut left = VecDeque::new();
        for number in 1..=kept.last() {
            // The next operation depends on what all before it did.
            let planned = whole.plan();
            let (_, problem) = whole.perform(&planned);
            if kept.contains(number) {
                left.push_back(planned);
            }
            if problem.is_some() || whole.is_over() {
                break;
            }
        }
        Ok(Some(Box::new(Reduced { bench, left, failed: false })))
    }
}

impl UbiTarget {
    fn bench(&self, plan: Plan) -> Result<Option<Bench>, String> {
        let Some((style, seed)) = Style::of(plan) else { return Ok(None) };
        let bench = Bench::new(*self, style, seed).map_err(|error| error.to_string())?;
        match bench.available() {
            lebs if lebs < LEAST_LEBS => Err(format!(
                "UBI has room for {lebs} LEBs, the workloads need {LEAST_LEBS}: use more blocks"
            )),
            _ => Ok(Some(bench)),
        }
    }
}

/// The LEBs of the first two volumes, and one more.
const LEAST_LEBS: u32 = 14;

/// A workload in progress.
struct Running {
    bench: Bench,
    /// Number of operations that are not judged yet.
    warm_up: u32,
    /// Whether an operation failed, so that the model no longer describes the device.
    failed: bool,
}

/// A workload of which only some operations happen.
struct Reduced {
    bench: Bench,
    left: VecDeque<Planned>,
    failed: bool,
}

/// Performs an operation as a part of its own.
fn part<'a>(bench: &mut Bench, planned: &Planned, failed: &mut bool) -> Part<'a> {
    let (step, problem) = bench.perform(planned);
    *failed = problem.is_some() || bench.is_over();
    let operations = bench.operations();
    let uncut = problem.map(|broken| Uncut { operations, broken });
    Part { steps: vec![step], rest: None, uncut: uncut.into_iter().collect(), is_judged: true }
}

impl<'a> Sequence<'a> for Running {
    fn has_more(&self) -> bool {
        !self.failed
    }

    fn next(&mut self) -> Part<'a> {
        let planned = self.bench.plan();
        let is_judged = self.warm_up == 0 && self.bench.is_ready();
        self.warm_up = self.warm_up.saturating_sub(1);
        Part { is_judged, ..part(&mut self.bench, &planned, &mut self.failed) }
    }

    fn happened(&self) -> BTreeMap<&'static str, u64> {
        self.bench.background()
    }
}

impl<'a> Sequence<'a> for Reduced {
    fn has_more(&self) -> bool {
        let possible = |planned| self.bench.can_perform(planned);
        !self.failed && self.left.iter().any(possible)
    }

    fn next(&mut self) -> Part<'a> {
        while let Some(planned) = self.left.pop_front() {
            if self.bench.can_perform(&planned) {
                return part(&mut self.bench, &planned, &mut self.failed);
            }
        }
        Part { steps: Vec::new(), rest: None, uncut: Vec::new(), is_judged: true }
    }

    fn happened(&self) -> BTreeMap<&'static str, u64> {
        self.bench.background()
    }
}
