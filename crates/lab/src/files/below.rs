//! A volume whose device works and fails while a file system uses it.
//!
//! # Invariants
//! 1. What happens depends on the habit, the number of the chip's next event when the volume was
//!    opened, and the calls since.
//! 2. Nothing fails unless the chip can mark blocks bad, and no more blocks than the reserve of UBI
//!    replaces.

use super::habit::Habit;
use eraseblock_base::Leb;
use eraseblock_mtd::{LebDevice, Mtd, MtdError, ReadOutcome};
use eraseblock_nandsim::{Chip, Fault, FaultPlan, Rng};
use eraseblock_ubi::UbiDevice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One call in so many is preceded by a step of background work.
const STEP: u32 = 6;
/// One write in so many fails, or leaves bits that are soon corrected.
const FAILURE: u32 = 40;
/// One append in so many is preceded by an erase that fails permanently, if one is pending.
const ERASE_FAILURE: u32 = 2;
/// Blocks that may go bad: fewer than the reserve of UBI.
const MOST_BAD: usize = 2;
/// Number of attempts of UBI to erase a block.
const ERASE_TRIES: u64 = 4;

/// What happened on a volume, for the report.
#[derive(Debug, Default)]
pub(super) struct Tally {
    appends_failed: AtomicU64,
    writes_failed: AtomicU64,
    erases_failed: AtomicU64,
    erased_at_once: AtomicU64,
}

/// The names of the counts of a [`Tally`] and of the device; on NOR only the first one occurs.
pub(super) static RARE: [&str; 6] = [
    "blocks erased at once",
    "programs failed in appends",
    "programs failed at a start",
    "erases failed between appends",
    "LEBs moved by UBI",
    "scrub requests",
];

impl Tally {
    /// Returns those of the counts that are listed, with those of the device.
    pub(super) fn named(
        &self,
        ubi: &UbiDevice,
        listed: &[&'static str],
    ) -> Vec<(&'static str, u64)> {
        let counters = ubi.health().counters;
        let counts = [
            self.erased_at_once.load(Relaxed),
            self.appends_failed.load(Relaxed),
            self.writes_failed.load(Relaxed),
            self.erases_failed.load(Relaxed),
            counters.moves,
            counters.scrubs,
        ];
        RARE.into_iter().zip(counts).filter(|(what, _)| listed.contains(what)).collect()
    }
}

/// The volume.
#[derive(Debug)]
pub(super) struct Below {
    volume: Arc<dyn LebDevice>,
    ubi: UbiDevice,
    chip: Arc<Chip>,
    habit: Habit,
    random: Mutex<Rng>,
    tally: Arc<Tally>,
}

impl Below {
    /// Puts what happens between a file system and its volume.
    pub(super) fn new(
        volume: Arc<dyn LebDevice>,
        ubi: UbiDevice,
        chip: Arc<Chip>,
        habit: Habit,
        tally: Arc<Tally>,
    ) -> Self {
        let random = Mutex::new(Rng::new(chip.next_event(), 3));
        Self { volume, ubi, chip, habit, random, tally }
    }

    fn random(&self) -> MutexGuard<'_, Rng> {
        self.random.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works in the background before a call, now and then.
    fn before(&self, leb: Leb) -> Result<(), MtdError> {
        if self.habit.works_below && self.random().below(STEP) == 0 {
            self.ubi.background_step().map_err(|error| failed(leb, &error))?;
        }
        Ok(())
    }

    /// Erases what a call has unmapped, on request.
    fn after(&self, leb: Leb) -> Result<(), MtdError> {
        if self.habit.erases_at_once {
            let before = self.ubi.health().counters.erasures;
            self.ubi.flush().map_err(|error| failed(leb, &error))?;
            let erased = self.ubi.health().counters.erasures - before;
            self.tally.erased_at_once.fetch_add(erased, Relaxed);
        }
        Ok(())
    }

    /// Lets a program or an erase of the next call fail, or its bits be corrected later.
    fn plan(&self, len: usize) -> Option<FaultPlan> {
        let geometry = self.chip.geometry();
        if !self.habit.fails || !geometry.can_have_bad_blocks() {
            return None;
        }
        let mut random = self.random();
        let dice = random.below(FAILURE);
        let pages = u32::try_from(len).unwrap_or(u32::MAX).div_ceil(geometry.min_io());
        let at = self.chip.next_event() + u64::from(random.below(pages.max(1)));
        let plan = FaultPlan::new(at);
        match dice {
            0 => Some(plan.with(at, Fault::Fail)),
            // The copy that replaces the failed append, or the erase of its block, fails, too.
            1 => {
                let then = at + 1 + u64::from(random.below(6));
                Some(plan.with(at, Fault::Fail).with(then, Fault::Fail))
            }
            2 => Some(plan.with(at, Fault::Flips { bits: self.chip.config().ecc_bits() })),
            _ => None,
        }
    }

    /// Lets all attempts to erase the next block fail, now and then, so that it goes bad.
    fn fail_erase(&self, leb: Leb) -> Result<(), MtdError> {
        let geometry = self.chip.geometry();
        let is_bad = |peb: &_| self.chip.is_bad(*peb).unwrap_or(true);
        if !self.habit.fails
            || !geometry.can_have_bad_blocks()
            || self.random().below(ERASE_FAILURE) != 0
            || geometry.pebs().filter(is_bad).count() >= MOST_BAD
        {
            return Ok(());
        }
        let next = self.chip.next_event();
        let tries = next..next + ERASE_TRIES;
        let plan = tries.fold(FaultPlan::new(next), |plan, event| plan.with(event, Fault::Fail));
        let before = self.ubi.health().counters.marked_bad;
        self.chip.set_plan(plan);
        let stepped = self.ubi.background_step();
        self.chip.set_plan(FaultPlan::new(0));
        stepped.map_err(|error| failed(leb, &error))?;
        let bad = self.ubi.health().counters.marked_bad - before;
        self.tally.erases_failed.fetch_add(bad, Relaxed);
        Ok(())
    }
}

fn failed(leb: Leb, error: &dyn std::fmt::Display) -> MtdError {
    MtdError::Io {
        at: eraseblock_base::Location::Leb(leb, 0),
        operation: "background work",
        source: std::io::Error::other(error.to_string()),
    }
}

impl LebDevice for Below {
    fn leb_size(&self) -> u32 {
        self.volume.leb_size()
    }

    fn min_io(&self) -> u32 {
        self.volume.min_io()
    }

    fn max_write(&self) -> u32 {
        self.volume.max_write()
    }

    fn leb_count(&self) -> u32 {
        self.volume.leb_count()
    }

    fn is_read_only(&self) -> bool {
        self.volume.is_read_only()
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.volume.read(leb, offset, buf)
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        self.volume.is_mapped(leb)
    }

    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        self.before(leb)?;
        if offset > 0 {
            self.fail_erase(leb)?;
        }
        let Some(plan) = self.plan(data.len()) else {
            return self.volume.write(leb, offset, data);
        };
        let before = self.ubi.health().counters.write_errors;
        self.chip.set_plan(plan);
        let result = self.volume.write(leb, offset, data);
        self.chip.set_plan(FaultPlan::new(0));
        let failed = self.ubi.health().counters.write_errors - before;
        let tally = if offset > 0 { &self.tally.appends_failed } else { &self.tally.writes_failed };
        tally.fetch_add(failed, Relaxed);
        result
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        self.before(leb)?;
        self.volume.change(leb, data)?;
        self.after(leb)
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.before(leb)?;
        self.volume.map(leb)
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.before(leb)?;
        self.volume.unmap(leb)?;
        self.after(leb)
    }

    fn sync(&self) -> Result<(), MtdError> {
        self.volume.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Habit, OnUbi, tight_ubifs, ubifs};
    use crate::Shape;
    use eraseblock_nandsim::Rng;
    use eraseblock_vfs_testkit::ops::Op;
    use std::collections::BTreeMap;

    /// Performs operations on an old file system, none of which may fail, and returns the counts.
    fn counts(target: &OnUbi, habit: Habit) -> BTreeMap<&'static str, u64> {
        let start = super::super::live::Start::small(target).unwrap();
        let mut live = super::super::live::Live::new(target, &start, habit).unwrap();
        let mut rng = Rng::new(9, 9);
        for _ in 0..2500 {
            let op = live.random(&mut rng);
            if !matches!(op, Op::Restart) {
                let (_, problem) = live.step(&op);
                assert_eq!(problem, None, "{op:?}");
            }
        }
        assert_eq!(live.compare(), None);
        live.happened()
    }

    /// At least a third of all programs that fail do so in appends to a mapped LEB.
    #[test]
    fn the_device_works_and_fails_below_the_file_system() {
        let habit = Habit { works_below: true, fails: true, ..Habit::default() };
        let counts = counts(&ubifs(Shape::Mini), habit);
        println!("{counts:?}");
        let [_, in_appends, at_starts, erases, moves, scrubs] =
            super::RARE.map(|what| counts[what]);
        assert!(in_appends * 2 >= at_starts && in_appends > 20);
        assert!(erases > 0 && moves > 0 && scrubs > 0);
    }

    #[test]
    fn blocks_are_erased_at_once_and_nothing_fails_on_nor() {
        let habit = Habit { erases_at_once: true, fails: true, ..Habit::default() };
        let counts = counts(&ubifs(Shape::Nor), habit);
        assert_eq!(
            super::RARE.map(|what| counts.contains_key(what)),
            [true, false, false, false, false, false]
        );
        let at_once = counts[super::RARE[0]];
        assert!(at_once > 100, "{counts:?}");
    }

    #[test]
    fn a_full_volume_is_collected_in_vain_and_committed_within_a_write_back() {
        let habit = Habit { fills: true, ..Habit::default() };
        let [mini, tight] =
            [ubifs(Shape::Mini), tight_ubifs()].map(|target| counts(&target, habit));
        println!("{mini:?}\n{tight:?}");
        assert!(mini["commits between size and content"] > 0);
        assert!(tight["victims kept before a commit"] > 0);
        assert!(tight["victims kept before a full volume"] > 0);
    }
}
