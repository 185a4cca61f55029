//! Chooses which programs and erases of an operation fail, and counts those that did.

use super::style::{FAILED, FAILED_IN_APPEND, Style};
use super::{Bench, Op};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{EventKind, Fault, FaultPlan, Recorded};
use std::ops::Range;

/// Number of attempts of UBI to erase a block.
const ERASE_TRIES: u64 = 4;

/// The random numbers that decide about faults: below 24, and below 6.
pub(super) type Dice = (u32, u32);

/// Returns the number below 24 for which `of_any` does the same less rarely.
fn more_often(dice: u32) -> u32 {
    match dice {
        0..4 => 0,
        4..6 => 1,
        16..20 => 4,
        _ => 23,
    }
}

impl Bench {
    /// Occasionally makes programs and erases fail or leave bit flips. Returns the numbers of the
    /// events that fail.
    pub(super) fn break_something(&mut self, op: &Op, dice: Dice) -> Range<u64> {
        let nothing = 0..0;
        if self.operations < 4 || !self.chip.geometry().can_have_bad_blocks() {
            return nothing;
        }
        let next = self.chip.next_event();
        let (failing, flips) = match self.style {
            Style::Failing if self.is_append_to_mapped(op) => self.of_append(op, dice),
            Style::Failing if !self.is_filled => return nothing,
            Style::Failing => self.of_any(op, (more_often(dice.0), dice.1)),
            _ => self.of_any(op, dice),
        };
        let plan = FaultPlan::new(1);
        let plan = match flips {
            Some(at) => plan.with(next + at, Fault::Flips { bits: self.chip.config().ecc_bits() }),
            None => failing.clone().fold(plan, |plan, at| plan.with(next + at, Fault::Fail)),
        };
        self.chip.set_plan(plan);
        next + failing.start..next + failing.end
    }

    /// Makes a program fail once or leave bit flips, or an erase fail so often that the block is
    /// given up.
    fn of_any(&self, op: &Op, (dice, first): Dice) -> (Range<u64>, Option<u64>) {
        let first = u64::from(first);
        match dice {
            0 => (first..first + 1, None),
            1..4 => (0..0, Some(first)),
            4..7 if self.may_lose_a_block() && matches!(op, Op::Step) => (0..ERASE_TRIES, None),
            _ => (0..0, None),
        }
    }

    /// Makes a program of the data fail. Often the next event fails, too: the program of a header in
    /// the block that replaces the first one or, where no block is free, an erase.
    fn of_append(&self, op: &Op, (dice, first): Dice) -> (Range<u64>, Option<u64>) {
        let Op::Append { data, .. } = op else { return (0..0, None) };
        let pages = u64::try_from(data.len()).unwrap_or(0) / u64::from(self.chip.config().page());
        let first = u64::from(first) % pages.max(1);
        let is_tight = self.ubi.health().lists.free == 0;
        let second = match dice {
            0..4 => 0,
            4..6 if is_tight && self.may_lose_a_block() => ERASE_TRIES,
            4..14 => 1,
            14..16 => return (0..0, Some(first)),
            _ => return (0..0, None),
        };
        (first..first + 1 + second, None)
    }

    fn may_lose_a_block(&self) -> bool {
        let pebs = self.chip.geometry().pebs();
        pebs.filter(|peb| self.chip.is_bad(*peb).unwrap_or(true)).count() < self.style.most_bad()
    }

    pub(super) fn is_append_to_mapped(&self, op: &Op) -> bool {
        matches!(op, Op::Append { volume, leb, .. } if self.is_mapped(*volume, *leb))
    }

    /// Counts the events that failed.
    pub(super) fn count_failed(&mut self, events: &[Recorded], failing: &Range<u64>, inside: bool) {
        for event in events.iter().filter(|event| failing.contains(&event.event.number)) {
            let kind = match event.event.kind {
                EventKind::Program { .. } => 0,
                EventKind::Erase { .. } => 1,
                EventKind::MarkBad { .. } => continue,
            };
            self.count(FAILED[kind], 1);
            if inside {
                self.count(FAILED_IN_APPEND[kind], 1);
            }
        }
    }
}
