//! UBI as a target of the power-cut engine: an endless workload, each operation judged by itself.

use super::device::UbiTarget;
use super::workload::Bench;
use crate::powercut::{Choice, Part, Plan, Prepared, Sequence, Target, Uncut};
use crate::story::flash;
use eraseblock_nandsim::Recorded;
use std::collections::BTreeMap;

impl Target for UbiTarget {
    fn name(&self) -> (&'static str, &'static str) {
        ("ubi", self.shape.name())
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
        let Plan::Workload(seed) = plan else { return Ok(None) };
        let bench = Bench::new(*self, seed).map_err(|error| error.to_string())?;
        Ok(Some(Box::new(Running { bench, warm_up: self.warm_up, failed: false })))
    }
}

/// A workload in progress.
struct Running {
    bench: Bench,
    /// Number of operations that are not judged yet.
    warm_up: u32,
    /// Whether an operation failed, so that the model no longer describes the device.
    failed: bool,
}

impl<'a> Sequence<'a> for Running {
    fn has_more(&self) -> bool {
        !self.failed
    }

    fn next(&mut self) -> Part<'a> {
        let (step, problem) = self.bench.next();
        self.failed = problem.is_some();
        let operations = self.bench.operations();
        let uncut = problem.map(|broken| Uncut { operations, broken });
        let is_judged = self.warm_up == 0;
        self.warm_up = self.warm_up.saturating_sub(1);
        Part { steps: vec![step], rest: None, uncut: uncut.into_iter().collect(), is_judged }
    }

    fn happened(&self) -> BTreeMap<&'static str, u64> {
        self.bench.background()
    }
}
