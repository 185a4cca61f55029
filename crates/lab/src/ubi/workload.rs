//! Operations on a device and on its model, chosen by a seed. Each seed and shape gives the same
//! endless sequence in every run.

mod apply;
mod choose;
mod faults;
mod imagine;
mod op;
mod possible;
pub(crate) mod style;

use super::device::UbiTarget;
use super::judge::UbiJudge;
use super::model::{Allowed, Model};
use crate::Shape;
use crate::powercut::{Broken, Expected, Step, recent};
use eraseblock_base::Peb;
use eraseblock_base::random::SplitMix64;
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, FaultPlan};
use eraseblock_ubi::{ReadOnlyReason, UbiDevice, UbiError};
use eraseblock_ubi_format::HeaderLayout;
use faults::Dice;
use op::Op;
use std::collections::BTreeMap;
use std::sync::Arc;
use style::Style;

/// A chip, the device on it, and the model of the device.
pub(crate) struct Bench {
    chip: Arc<Chip>,
    target: UbiTarget,
    ubi: UbiDevice,
    model: Model,
    layout: HeaderLayout,
    random: SplitMix64,
    style: Style,
    /// Whether all LEBs were mapped at the start, if the style fills the device.
    is_filled: bool,
    operations: u64,
    /// What they were.
    log: Vec<String>,
    /// Earlier erase counters, and how often the chip had erased each block at that time.
    start: Vec<(u32, u32)>,
    /// The same when the workload began.
    first: Vec<(u32, u32)>,
    /// Background work before the device was last opened.
    past: Counts,
    /// Rare events.
    rare: Counts,
}

/// An operation, and the random numbers that decide about its faults.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    number: u64,
    op: Op,
    dice: Dice,
    /// Whether it is one of those that fill the device.
    fills: bool,
}

/// Number of operations of each kind.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

impl Bench {
    /// A formatted chip.
    pub(crate) fn new(target: UbiTarget, style: Style, seed: u64) -> Result<Self, UbiError> {
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
            style,
            is_filled: !style.fills(),
            operations: 0,
            log: Vec::new(),
            start: Vec::new(),
            first: Vec::new(),
            past: Counts::new(),
            rare: Counts::new(),
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
        counts.extend(self.rare.iter().map(|(what, count)| (*what, *count)));
        for (what, count) in now {
            *counts.entry(what).or_default() += count;
        }
        counts
    }

    /// Returns the last operations.
    pub(crate) fn operations(&self) -> Vec<String> {
        recent(&self.log)
    }

    /// Returns whether operations are judged from now on: those that fill the device only give it a
    /// history.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_filled
    }

    /// Returns whether the workload cannot continue, because failures made the device read-only.
    pub(crate) fn is_over(&self) -> bool {
        self.ubi.read_only().is_some()
    }

    /// Returns the LEBs that are left for volumes.
    pub(crate) fn available(&self) -> u32 {
        self.ubi.available_lebs()
    }

    /// Chooses the next operation.
    pub(crate) fn plan(&mut self) -> Planned {
        let op = self.choose();
        let dice = (self.below(24), self.below(6));
        Planned { number: self.operations + 1, op, dice, fills: !self.is_filled }
    }

    /// Performs an operation. Also returns a problem that occurred without a cut.
    pub(crate) fn perform(&mut self, planned: &Planned) -> (Step<'static>, Option<Broken>) {
        let Planned { number, op, dice, fills } = planned;
        self.operations = *number;
        self.is_filled = !fills;
        self.log.push(format!("operation {number}: {}", op.describe()));
        let before = Arc::new(self.model.clone());
        let floor = Arc::new(self.ubi.erase_counters());
        let torn = self.torn(op);
        let in_append = self.is_append_to_mapped(op);
        self.imagine(op);
        let failing = self.break_something(op, *dice);
        self.chip.set_recording(true);
        let result = self.apply(op);
        let result = self.erase_at_once(result);
        let events = self.chip.take_recording();
        self.chip.set_recording(false);
        self.chip.set_plan(FaultPlan::new(0));
        self.count_failed(&events, &failing, in_append);
        if !failing.is_empty() {
            // The chip counts failed erases, UBI does not.
            self.start = self.baseline();
        }
        let updating = if let Op::Update { volume, .. } = op { Some(*volume) } else { None };
        let shrinking =
            if let Op::Resize { volume, lebs } = op { Some((*volume, *lebs)) } else { None };
        let after = Arc::new(self.model.clone());
        let allowed = Arc::new(Allowed { before, after, torn, updating, shrinking });
        let judge = Box::new(UbiJudge { target: self.target, allowed, floor });
        let problem = match result {
            // More blocks went bad than the device has in reserve.
            Err(_) if self.ubi.read_only() == Some(ReadOnlyReason::NoReserve) => None,
            Err(_) if !failing.is_empty() && self.is_over() => None,
            Err(error) => Some(("operation-failed", error.to_string())),
            // A fastmap that cannot be written is given up.
            Ok(Some(("fastmap-refused", _))) if !failing.is_empty() => self.check(),
            Ok(Some(broken)) => Some(broken),
            Ok(None) => self.check(),
        };
        let during = Expected { operations: self.operations(), judge };
        (Step { kind: Some(op.kind()), events, during, after: None }, problem)
    }

    /// Erases what an operation unmapped, in the style that does so at once.
    fn erase_at_once(
        &mut self,
        result: Result<Option<Broken>, UbiError>,
    ) -> Result<Option<Broken>, UbiError> {
        let done = result?;
        if self.style == Style::Eager {
            let before = self.ubi.health().counters.erasures;
            self.ubi.flush()?;
            self.count(style::ERASED_AT_ONCE, self.ubi.health().counters.erasures - before);
        }
        Ok(done)
    }

    fn count(&mut self, what: &'static str, more: u64) {
        *self.rare.entry(what).or_default() += more;
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

    fn baseline(&self) -> Vec<(u32, u32)> {
        let erases = |peb: u32| self.chip.erase_count(Peb::new(peb));
        (0..).zip(self.ubi.erase_counters()).map(|(peb, ec)| (ec, erases(peb))).collect()
    }
}

fn shape_salt(shape: Shape) -> u64 {
    let index = Shape::ALL.iter().position(|one| *one == shape).unwrap_or(0);
    (index as u64) << 56
}
