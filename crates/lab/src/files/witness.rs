//! Judges a file system that programs use through the host, after it was cut off. The witness
//! chooses operations that are one system call each, is notified when each has returned, and knows
//! which states are allowed at any moment.
//!
//! # Invariants
//! 1. `history` holds the operations that have returned; `pending` is the current one.
//! 2. Numbers of operations are even: new inodes have mode 0644, owner 0 and group 100
//!    ([`eraseblock_vfs_testkit::ops::apply`]).

use super::allowed::Allowed;
use super::habit::Habit;
use super::history::{ANY_SPACE, History};
use super::judge::FilesJudge;
use super::live::Start;
use super::stack::{Rules, Stack};
use super::workload::random;
use crate::powercut::{Judge, LabError, Plan, StateId, Trial, Violation, recent};
use eraseblock_nandsim::{Chip, Rng, Snapshot};
use eraseblock_vfs::{FileKind, FileSystem, FsError, RenameMode};
use eraseblock_vfs_testkit::ops::{Change, Make, Object, Op, Slots, apply, find};
use eraseblock_vfs_testkit::{CompareOptions, ModelFs};

/// Number of xattrs that every program may set: the first ones of [`eraseblock_vfs_testkit::ops::XATTRS`].
const USER_XATTRS: u8 = 2;

/// Writes begin below this offset, in bytes.
const ROOM: u32 = 12_000;

/// The result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returned {
    /// Success.
    Done,
    /// Refused, without any effect.
    Refused,
    /// There was no space for it.
    NoSpace,
}

/// The current operation, and the resulting state.
#[derive(Debug)]
struct Pending {
    op: Op,
    expected: Result<(), FsError>,
    model: ModelFs,
    history: History,
}

/// Tracks the allowed states while programs use a file system.
#[derive(Debug)]
pub struct Witness<'a> {
    stack: &'a dyn Stack,
    rules: Rules,
    id: StateId,
    rng: Rng,
    model: ModelFs,
    history: History,
    operations: Vec<String>,
    number: u64,
    pending: Option<Pending>,
}

impl<'a> Witness<'a> {
    /// Creates a chip with a small tree on it, and its witness. Times are those of the host and not
    /// judged. Fails if the file system cannot be made.
    pub fn new(stack: &'a dyn Stack, seed: u64) -> Result<(Self, Snapshot), LabError> {
        let start = Start::small(stack).map_err(prepare)?;
        let history = History::new(&start.model, ANY_SPACE).map_err(prepare)?;
        let rules = stack.rules();
        let compare = CompareOptions { times: false, ctime: false, ..rules.compare };
        let witness = Self {
            stack,
            rules: Rules { compare, ..rules },
            id: StateId::new(stack.name(), Plan::Run(seed)),
            rng: Rng::new(seed, 0),
            model: start.model,
            history,
            operations: Vec::new(),
            number: start.number.next_multiple_of(2),
            pending: None,
        };
        Ok((witness, start.snapshot))
    }

    /// Returns the next operation, which is now in progress, with its number. Fails if the
    /// state that it should lead to cannot be recorded.
    pub fn begin(&mut self) -> Result<(Op, u64), LabError> {
        let op = loop {
            let op = random(&mut self.rng, &self.model, ROOM);
            if let Some(op) = self.as_system_call(op) {
                break op;
            }
        };
        self.number += 2;
        self.operations.push(format!("operation {}: {}", self.number, super::words::op(&op)));
        let model = self.model.clone();
        let expected = apply(&model, &mut Slots::default(), &op, self.number);
        let mut history = self.history.clone();
        if expected.is_ok() {
            history.push(&op, &model, ANY_SPACE).map_err(prepare)?;
        }
        self.pending = Some(Pending { op, expected, model, history });
        Ok((op, self.number))
    }

    /// Records the result of the current operation; fails if it should have ended otherwise.
    pub fn end(&mut self, returned: Returned) -> Result<(), String> {
        let Some(pending) = self.pending.take() else { return Err("nothing is under way".into()) };
        match (returned, pending.expected) {
            (Returned::Done, Ok(())) => {
                (self.model, self.history) = (pending.model, pending.history);
                self.history.settle(&pending.op, &Slots::default(), &self.rules);
                Ok(())
            }
            (Returned::Refused, Err(_)) | (Returned::NoSpace, _) => Ok(()),
            (_, expected) => {
                let expected = if expected.is_ok() { "done" } else { "a refusal" };
                let op = super::words::op(&pending.op);
                Err(format!("{op}: {returned:?}, expected {expected}"))
            }
        }
    }

    /// Judges the current state of the chip: the current operation may be done, half done or not
    /// begun.
    pub fn judge(&self, chip: Chip) -> Option<Violation> {
        let history = self.pending.as_ref().map_or(&self.history, |pending| &pending.history);
        let allowed = Allowed { history: history.clone() };
        let habit = Habit::default();
        let judge = FilesJudge { stack: self.stack, rules: self.rules, habit, allowed };
        let trial = Trial { closely: true, ..Trial::default() };
        let (rule, message) = judge.judge(chip, &trial).broken?;
        let operations = recent(&self.operations);
        Some(Violation { id: self.id.clone(), operations, rule, message })
    }

    /// Returns the operation in a form that an ordinary program can do with one system call.
    fn as_system_call(&self, op: Op) -> Option<Op> {
        let ino = |object| find(&self.model, &Slots::default(), object).ok();
        let kind = |object| Some(self.model.attr(ino(object)?).ok()?.kind);
        let can_be_opened =
            |object| matches!(kind(object), Some(FileKind::Regular | FileKind::Directory));
        match op {
            Op::Create(_, Make::Regular | Make::Directory | Make::Fifo)
            | Op::Link(Object::At(_), _)
            | Op::Unlink(_)
            | Op::RemoveDir(_) => Some(op),
            Op::Rename(_, _, RenameMode::Whiteout) => None,
            // For two names of one inode the kernel itself reports success.
            Op::Rename(from, to, _) => {
                let [from, to] = [from, to].map(|place| ino(Object::At(place)));
                (from.is_none() || from != to).then_some(op)
            }
            Op::Write { object, .. } | Op::SyncFile(object) if can_be_opened(object) => Some(op),
            Op::Change(object, Change::Size(_)) if kind(object) == Some(FileKind::Regular) => {
                Some(op)
            }
            Op::Change(object, Change::Mode(mode)) if can_be_opened(object) => {
                Some(Op::Change(object, Change::Mode(mode & 0o777)))
            }
            Op::SetXattr(object, name, len, mode) if can_be_opened(object) => {
                Some(Op::SetXattr(object, name % USER_XATTRS, len, mode))
            }
            _ => None,
        }
    }
}

fn prepare(message: String) -> LabError {
    LabError::Prepare { message }
}

#[cfg(test)]
mod tests {
    use super::super::toy::{Bug, ToyStack};
    use super::*;
    use eraseblock_mtd::Access;
    use std::sync::Arc;

    /// Runs operations on the toy and returns the verdict on its chip.
    fn verdict(bug: Bug, seed: u64) -> Option<Violation> {
        let target = ToyStack(bug);
        let (mut witness, snapshot) = Witness::new(&target, seed).unwrap();
        let chip = Arc::new(snapshot.to_chip());
        let mounted = target.mount(&chip, Access::Write).unwrap();
        for _ in 0..40 {
            let (op, number) = witness.begin().unwrap();
            let returned = match apply(mounted.fs(), &mut Slots::default(), &op, number) {
                Ok(()) => Returned::Done,
                Err(_) => Returned::Refused,
            };
            witness.end(returned).unwrap();
        }
        witness.judge(chip.snapshot().to_chip())
    }

    #[test]
    fn what_is_right_passes_and_a_lazy_fsync_does_not() {
        for seed in 0..6 {
            assert_eq!(verdict(Bug::None, seed), None, "{seed}");
        }
        assert!((0..6).any(|seed| verdict(Bug::LazyFsync, seed).is_some()));
    }

    #[test]
    fn another_answer_than_the_model_gives_is_told() {
        let target = ToyStack(Bug::None);
        let (mut witness, _) = Witness::new(&target, 1).unwrap();
        let told = (0..40).any(|_| {
            witness.begin().unwrap();
            witness.end(Returned::Refused).is_err()
        });
        assert!(told && witness.end(Returned::Done).is_err());
    }
}
