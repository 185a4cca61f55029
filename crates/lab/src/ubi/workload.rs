//! Operations on a device and on its model, chosen by a seed. Each seed and shape gives the same
//! endless sequence in every run.

mod apply;
mod choose;
mod imagine;
mod op;

use super::device::UbiTarget;
use super::judge::UbiJudge;
use super::model::{Allowed, Model};
use crate::Shape;
use crate::powercut::{Broken, Expected, Step, recent};
use eraseblock_base::Peb;
use eraseblock_base::random::SplitMix64;
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, Fault, FaultPlan};
use eraseblock_ubi::{UbiDevice, UbiError};
use eraseblock_ubi_format::HeaderLayout;
use op::Op;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Blocks that may go bad in a workload: fewer than the reserve of UBI.
const MOST_BAD: usize = 2;

/// Number of attempts of UBI to erase a block.
const ERASE_TRIES: u64 = 4;

/// A chip, the device on it, and the model of the device.
pub(crate) struct Bench {
    chip: Arc<Chip>,
    target: UbiTarget,
    ubi: UbiDevice,
    model: Model,
    layout: HeaderLayout,
    random: SplitMix64,
    operations: u64,
    /// What they were.
    log: Vec<String>,
    /// Earlier erase counters, and how often the chip had erased each block at that time.
    start: Vec<(u32, u32)>,
    /// The same when the workload began.
    first: Vec<(u32, u32)>,
    /// Background work before the device was last opened.
    past: Counts,
}

/// Number of operations of each kind.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

impl Bench {
    /// A formatted chip.
    pub(crate) fn new(target: UbiTarget, seed: u64) -> Result<Self, UbiError> {
        let UbiTarget { shape, .. } = target;
        let chip = Arc::new(shape.chip());
        let layout = shape.layout();
        let first = UbiDevice::open(chip.clone(), &layout, &target.open_options())?;
        first.flush()?;
        drop(first);
        let ubi = UbiDevice::open(chip.clone(), &layout, &target.open_options())?;
        let mut bench = Self {
            chip,
            target,
            ubi,
            model: Model::default(),
            layout,
            random: SplitMix64::new(seed ^ shape_salt(shape)),
            operations: 0,
            log: Vec::new(),
            start: Vec::new(),
            first: Vec::new(),
            past: Counts::new(),
        };
        bench.start = bench.baseline();
        bench.first = bench.start.clone();
        Ok(bench)
    }

    /// Returns the counts of background work so far.
    pub(crate) fn background(&self) -> Counts {
        let counters = self.ubi.health().counters;
        let now = [
            ("LEBs moved", counters.moves),
            ("scrub requests", counters.scrubs),
            ("blocks tortured", counters.tortures),
            ("blocks gone bad", counters.marked_bad),
            ("write errors", counters.write_errors),
            ("fastmaps written", counters.fastmaps),
            ("blocks erased", counters.erasures),
        ];
        let mut counts = self.past.clone();
        for (what, count) in now {
            *counts.entry(what).or_default() += count;
        }
        counts
    }

    /// Returns the last operations.
    pub(crate) fn operations(&self) -> Vec<String> {
        recent(&self.log)
    }

    /// Performs the next operation. Also returns a problem that occurred without a cut.
    pub(crate) fn next(&mut self) -> (Step<'static>, Option<Broken>) {
        let op = self.choose();
        self.operations += 1;
        self.log.push(format!("operation {}: {}", self.operations, op.describe()));
        let before = Arc::new(self.model.clone());
        let floor = Arc::new(self.ubi.erase_counters());
        let torn = self.torn(&op);
        self.imagine(&op);
        let kind = Some(op.kind());
        let broken = self.break_something(&op);
        self.chip.set_recording(true);
        let result = self.apply(&op);
        let events = self.chip.take_recording();
        self.chip.set_recording(false);
        self.chip.set_plan(FaultPlan::new(0));
        if broken {
            // The chip counts failed erases, UBI does not.
            self.start = self.baseline();
        }
        let updating = if let Op::Update { volume, .. } = op { Some(volume) } else { None };
        let shrinking =
            if let Op::Resize { volume, lebs } = op { Some((volume, lebs)) } else { None };
        let after = Arc::new(self.model.clone());
        let allowed = Arc::new(Allowed { before, after, torn, updating, shrinking });
        let judge = Box::new(UbiJudge { target: self.target, allowed, floor });
        let problem = match result {
            Err(error) => Some(("operation-failed", error.to_string())),
            Ok(Some(problem)) => Some(("leb-content", problem)),
            Ok(None) => self.check(),
        };
        let during = Expected { operations: self.operations(), judge };
        (Step { kind, events, during, after: None }, problem)
    }

    /// Checks the invariants after an operation that was not interrupted.
    fn check(&self) -> Option<Broken> {
        if let Err(message) = self.ubi.check_invariants() {
            return Some(("invariants", message));
        }
        if let Err(error) = self.ubi.verify_flash() {
            return Some(("flash-differs", error.to_string()));
        }
        let counters = self.ubi.erase_counters();
        let begun = self.start.iter().zip(&self.first);
        for ((number, ec), (start, first)) in (0..).zip(counters).zip(begun) {
            let erases = self.chip.erase_count(Peb::new(number));
            let since = |(ec, before): &(u32, u32)| ec + erases - before;
            let expected = since(start);
            // After attaching by fastmap the known counter may be too low until the next erase, and
            // may have been so when the workload last restarted.
            let in_doubt = self.target.shape.uses_fastmap() && ec <= since(first);
            // The counter of a bad block cannot be read.
            let in_doubt = in_doubt || self.chip.is_bad(Peb::new(number)).unwrap_or(true);
            if ec != expected && !in_doubt {
                let message = format!("erase counter of peb {number}: {ec}, expected {expected}");
                return Some(("erase-counter", message));
            }
        }
        None
    }

    /// Occasionally makes a program fail once or leave bit flips, or an erase fail so often that
    /// the block is given up. Returns whether anything may fail now.
    fn break_something(&mut self, op: &Op) -> bool {
        let (dice, first) = (self.below(24), self.below(6));
        let geometry = self.chip.geometry();
        if self.operations < 4 || !geometry.can_have_bad_blocks() {
            return false;
        }
        let bad = geometry.pebs().filter(|peb| self.chip.is_bad(*peb).unwrap_or(true)).count();
        let next = self.chip.next_event();
        let plan = FaultPlan::new(1);
        let at = next + u64::from(first);
        let plan = match dice {
            0 => plan.with(at, Fault::Fail),
            1..4 => plan.with(at, Fault::Flips { bits: self.chip.config().ecc_bits() }),
            4..7 if bad < MOST_BAD && matches!(op, Op::Step) => {
                (next..next + ERASE_TRIES).fold(plan, |plan, event| plan.with(event, Fault::Fail))
            }
            _ => return false,
        };
        self.chip.set_plan(plan);
        !matches!(dice, 1..4)
    }

    fn baseline(&self) -> Vec<(u32, u32)> {
        let erases = |peb: u32| self.chip.erase_count(Peb::new(peb));
        (0..).zip(self.ubi.erase_counters()).map(|(peb, ec)| (ec, erases(peb))).collect()
    }
}

fn shape_salt(shape: Shape) -> u64 {
    let index = Shape::ALL.iter().position(|one| *one == shape).unwrap_or(0);
    (index as u64) << 56
}
