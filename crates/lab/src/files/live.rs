//! A sequence of operations on a file system and on the model, recorded.

use super::allowed::Allowed;
use super::habit::Habit;
use super::history::History;
use super::judge::FilesJudge;
use super::stack::{Happened, Mounted, Rules, Stack};
use super::words;
use super::workload::{random, setup};
use crate::powercut::{Broken, Expected, Step, recent};
use eraseblock_mtd::{Access, Mtd};
use eraseblock_nandsim::{Chip, Rng, Snapshot};
use eraseblock_vfs::{FsError, FsErrorKind, WritableFileSystem};
use eraseblock_vfs_testkit::ops::{Op, Slots, apply};
use eraseblock_vfs_testkit::{ModelFs, same_tree};
use std::sync::Arc;

fn add(sum: &mut Happened, mounted: &dyn Mounted) {
    for (what, count) in mounted.activity() {
        *sum.entry(what).or_default() += count;
    }
}

/// A chip with a cleanly unmounted file system, and its content.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) snapshot: Snapshot,
    pub(crate) model: ModelFs,
    /// The number of the next operation.
    pub(crate) number: u64,
}

/// A file system in use.
pub(crate) struct Live<'a> {
    stack: &'a dyn Stack,
    habit: Habit,
    rules: Rules,
    chip: Arc<Chip>,
    mounted: Box<dyn Mounted>,
    model: ModelFs,
    slots: (Slots, Slots),
    history: History,
    operations: Vec<String>,
    number: u64,
    /// Counts of activities in earlier mounts.
    happened: Happened,
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn text(error: impl ToString) -> String {
    error.to_string()
}

impl Start {
    /// Returns an empty file system.
    fn empty(stack: &dyn Stack) -> Result<Self, String> {
        let rules = stack.rules();
        let chip = Arc::new(stack.format()?);
        let mounted = stack.mount(&chip, Access::Write)?;
        let model = ModelFs::new(rules.model, eraseblock_vfs::Timestamp::default());
        let root = mounted.fs().attr(mounted.fs().root()).map_err(text)?;
        model.set_root_attr(&root);
        mounted.fs().unmount().map_err(text)?;
        Ok(Self { snapshot: chip.snapshot(), model, number: 0 })
    }

    /// Returns a file system with the small tree that short sequences begin with.
    pub(crate) fn small(stack: &dyn Stack) -> Result<Self, String> {
        let mut live = Live::new(stack, &Self::empty(stack)?, Habit::default())?;
        for op in setup() {
            if let (_, Some((rule, message))) = live.step(&op) {
                return Err(format!("{}: {rule}: {message}", words::op(&op)));
            }
        }
        live.finish()
    }
}

impl<'a> Live<'a> {
    /// Mounts a start.
    pub(crate) fn new(stack: &'a dyn Stack, start: &Start, habit: Habit) -> Result<Self, String> {
        let chip = Arc::new(start.snapshot.to_chip());
        let happened = stack.meddle(&chip, habit)?;
        let mounted = stack.mount_with(&chip, Access::Write, habit)?;
        let history = History::new(&start.model, free_blocks(mounted.fs())?)?;
        Ok(Self {
            stack,
            habit,
            rules: stack.rules(),
            chip,
            mounted,
            model: start.model.clone(),
            slots: Default::default(),
            history,
            operations: Vec::new(),
            number: start.number,
            happened,
        })
    }

    /// Unmounts and returns the state as a start for others.
    pub(crate) fn finish(self) -> Result<Start, String> {
        self.mounted.fs().unmount().map_err(text)?;
        self.model.drop_open();
        Ok(Start { snapshot: self.chip.snapshot(), model: self.model, number: self.number })
    }

    /// Performs an operation. Also returns a problem found without any cut.
    pub(crate) fn step(&mut self, op: &Op) -> (Step<'a>, Option<Broken>) {
        let wanted = self.model.clone();
        let mut wanted_slots = self.slots.1.clone();
        let expected = apply(&wanted, &mut wanted_slots, op, self.number);
        if matches!(op, Op::Restart) {
            wanted.drop_open();
            wanted_slots.clear();
        }
        self.operations.push(format!("operation {}: {}", self.number, words::op(op)));
        self.chip.set_recording(true);
        let found = self.apply(op);
        let events = self.chip.take_recording();
        self.chip.set_recording(false);
        self.number += 1;
        let mut during = self.history.clone();
        let pushed = match expected {
            Ok(()) => {
                free_blocks(self.mounted.fs()).and_then(|free| during.push(op, &wanted, free))
            }
            Err(_) => Ok(()),
        };
        let mut step =
            Step { kind: None, events, during: self.expected(during.clone()), after: None };
        let problem = match (&found, &expected) {
            _ if pushed.is_err() => pushed.err().map(|message| ("model", message)),
            (Ok(()), Ok(())) => {
                (self.model, self.slots.1, self.history) = (wanted, wanted_slots, during);
                self.history.settle(op, &self.slots.1, &self.rules);
                None
            }
            (Err(error), _) if error.kind() == FsErrorKind::NoSpace => None,
            // The property tests check which error it is.
            (Err(_), Err(_)) => None,
            _ => {
                let (found, expected) = (answer(&found), answer(&expected));
                Some(("answer", format!("{}: {found}, expected {expected}", words::op(op))))
            }
        };
        if matches!(op, Op::SyncFile(_) | Op::Sync | Op::ReadOnlyAndBack | Op::Restart) {
            step.after = Some(self.at_rest());
        }
        (step, problem)
    }

    /// Returns what may be found if a cut leaves some of this history.
    fn expected(&self, history: History) -> Expected<'a> {
        let (stack, rules, habit) = (self.stack, self.rules, self.habit.of_recovery());
        let judge = Box::new(FilesJudge { stack, rules, habit, allowed: Allowed { history } });
        Expected { operations: recent(&self.operations), judge }
    }

    /// Returns the chip and what may be found if nothing more happens.
    pub(crate) fn at_rest(&self) -> (Snapshot, Expected<'a>) {
        (self.chip.snapshot(), self.expected(self.history.clone()))
    }

    fn apply(&mut self, op: &Op) -> Result<(), FsError> {
        if !matches!(op, Op::Restart) {
            return apply(self.mounted.fs(), &mut self.slots.0, op, self.number);
        }
        self.mounted.fs().unmount()?;
        add(&mut self.happened, self.mounted.as_ref());
        self.slots.0.clear();
        let failed = |message| FsError::new(FsErrorKind::Io, message);
        // What the other driver does is not cut.
        let meddled = self.stack.meddle(&self.chip, self.habit).map_err(failed)?;
        for (what, count) in meddled {
            *self.happened.entry(what).or_default() += count;
        }
        self.mounted =
            self.stack.mount_with(&self.chip, Access::Write, self.habit).map_err(failed)?;
        Ok(())
    }

    /// Returns counts of activities so far.
    pub(crate) fn happened(&self) -> Happened {
        let mut sum = self.happened.clone();
        add(&mut sum, self.mounted.as_ref());
        sum
    }

    /// Performs random operations that are not judged.
    pub(crate) fn age(&mut self, rng: &mut Rng, count: u32) -> Result<(), String> {
        for _ in 0..count {
            let op = self.random(rng);
            if matches!(op, Op::Restart | Op::ReadOnlyAndBack) {
                continue;
            }
            if self.apply(&op).is_ok() {
                apply(&self.model, &mut self.slots.1, &op, self.number)
                    .map_err(|error| format!("{}: done, expected {error}", words::op(&op)))?;
            }
            self.number += 1;
        }
        Ok(())
    }

    /// Compares everything with the model, without any cut.
    pub(crate) fn compare(&self) -> Option<Broken> {
        let found = same_tree(self.mounted.fs(), &self.model, &self.rules.compare);
        if let Some(difference) = found.first() {
            return Some(("differs-uncut", difference.to_string()));
        }
        self.mounted.check().err().map(|message| ("structure-uncut", message))
    }

    /// Returns the next operation of a random sequence; files fit the chip.
    pub(crate) fn random(&self, rng: &mut Rng) -> Op {
        let room = (self.chip.geometry().size() / 128).clamp(2048, 24_000);
        self.habit.apply(random(rng, &self.model, u32::try_from(room).unwrap_or(u32::MAX)))
    }
}

fn free_blocks(fs: &dyn WritableFileSystem) -> Result<u64, String> {
    fs.stat_fs().map(|counts| counts.blocks_available).map_err(text)
}

fn answer(result: &Result<(), FsError>) -> String {
    match result {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("refused ({error})"),
    }
}
