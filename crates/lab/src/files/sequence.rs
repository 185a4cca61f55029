//! File systems as targets of the power-cut engine: one operation or two on a small tree, judged
//! together, and long random sequences, judged in parts.

use super::habit::Habit;
use super::live::{Live, Start};
use super::stack::{Order, Stack};
use super::workload::short;
use crate::powercut::{Choice, Kept, Part, Plan, Prepared, Sequence, Target, Uncut};
use eraseblock_nandsim::{Recorded, Rng};
use eraseblock_vfs_testkit::ops::Op;
use std::collections::{BTreeMap, VecDeque};

/// Number of operations of a random sequence that are judged together.
const BATCH: u32 = 24;

/// Number of operations on an old file system before it is tested.
const AGE: u32 = 1200;

impl<S: Stack> Target for S {
    fn name(&self) -> (&'static str, &'static str) {
        Stack::name(self)
    }

    fn choice(&self) -> Choice {
        // JFFS2 keeps its clean markers in the out-of-band bytes of NAND.
        Choice { spare: true, place: false, counts_own_events: false }
    }

    fn describe(&self, event: &Recorded) -> String {
        Stack::describe(self, event)
    }

    fn prepare<'a>(&'a self, run_length: u32) -> Result<Box<dyn Prepared<'a> + 'a>, String> {
        Ok(Box::new(Small { stack: self, start: Start::small(self)?, run_length }))
    }
}

/// The small tree that sequences begin with.
struct Small<'a> {
    stack: &'a dyn Stack,
    start: Start,
    run_length: u32,
}

impl<'a> Prepared<'a> for Small<'a> {
    fn start(&self, plan: Plan) -> Result<Option<Box<dyn Sequence<'a> + 'a>>, String> {
        Ok(self.begin(plan)?.map(|running| Box::new(running) as Box<dyn Sequence<'a> + 'a>))
    }

    fn start_kept(
        &self,
        plan: Plan,
        kept: &Kept,
    ) -> Result<Option<Box<dyn Sequence<'a> + 'a>>, String> {
        let (Some(mut whole), Some(reduced)) = (self.begin(plan)?, self.begin(plan)?) else {
            return Ok(None);
        };
        // The next operation depends on what all before it did.
        while whole.done.len() < kept.last() as usize && whole.has_more() {
            whole.next();
        }
        let numbered = (1..).zip(whole.done);
        let left = numbered.filter(|(number, _)| kept.contains(*number)).map(|(_, op)| op);
        Ok(Some(Box::new(Running { ops: Ops::Listed(left.collect()), ..reduced })))
    }
}

impl<'a> Small<'a> {
    fn begin(&self, plan: Plan) -> Result<Option<Running<'a>>, String> {
        let random = |seed| Ops::Random { rng: Rng::new(seed, 0), left: self.run_length };
        let ops = match plan {
            Plan::Run(seed) | Plan::Aged(seed) => random(seed),
            plan => match short(plan) {
                Some(ops) => Ops::Listed(ops.into()),
                None => return Ok(None),
            },
        };
        let habit = Habit::of(plan, self.stack.rules().order == Order::Names);
        // Blocks that go bad while it ages cannot go bad while it is judged.
        let mut live = Live::new(self.stack, &self.start, habit.of_recovery())?;
        let mut rare = Vec::new();
        if let Plan::Aged(seed) = plan {
            live.age(&mut Rng::new(seed, 1), AGE)?;
            live = Live::new(self.stack, &live.finish()?, habit)?;
            rare = self.stack.rare();
        }
        Ok(Some(Running { live, ops, done: Vec::new(), rare, failed: false }))
    }
}

/// The operations that follow.
enum Ops {
    Listed(VecDeque<Op>),
    /// This many random ones, which depend on the state before them.
    Random {
        rng: Rng,
        left: u32,
    },
}

impl Ops {
    fn is_empty(&self) -> bool {
        match self {
            Self::Listed(ops) => ops.is_empty(),
            Self::Random { left, .. } => *left == 0,
        }
    }

    /// Returns the number of operations in the next part. The file system is read after each part,
    /// which loads data: the same parts are needed to get the same states.
    fn batch(&self) -> usize {
        match self {
            Self::Listed(ops) => ops.len().min(BATCH as usize),
            Self::Random { left, .. } => (*left).min(BATCH) as usize,
        }
    }

    fn next(&mut self, live: &Live<'_>) -> Option<Op> {
        match self {
            Self::Listed(ops) => ops.pop_front(),
            Self::Random { rng, left } => {
                *left = left.checked_sub(1)?;
                Some(live.random(rng))
            }
        }
    }
}

/// A sequence in progress.
struct Running<'a> {
    live: Live<'a>,
    ops: Ops,
    /// What a campaign of such sequences must contain, even if this one never does it.
    rare: Vec<&'static str>,
    /// The operations so far.
    done: Vec<Op>,
    /// Whether an operation did something other than in the model, so that nothing more can be
    /// compared with it.
    failed: bool,
}

impl<'a> Sequence<'a> for Running<'a> {
    fn has_more(&self) -> bool {
        !self.failed && !self.ops.is_empty()
    }

    fn next(&mut self) -> Part<'a> {
        let (mut steps, mut uncut) = (Vec::new(), Vec::new());
        for _ in 0..self.ops.batch() {
            let Some(op) = self.ops.next(&self.live) else { break };
            let (step, problem) = self.live.step(&op);
            self.done.push(op);
            self.failed = problem.is_some();
            let operations = || step.during.operations.clone();
            uncut.extend(problem.map(|broken| Uncut { operations: operations(), broken }));
            steps.push(step);
            if self.failed {
                break;
            }
        }
        let rest = self.live.at_rest();
        let operations = || rest.1.operations.clone();
        let differs = self.live.compare();
        uncut.extend(differs.map(|broken| Uncut { operations: operations(), broken }));
        Part { steps, rest: Some(rest), uncut, is_judged: true }
    }

    fn happened(&self) -> BTreeMap<&'static str, u64> {
        let mut happened = self.live.happened();
        for what in &self.rare {
            happened.entry(what).or_default();
        }
        happened
    }
}
