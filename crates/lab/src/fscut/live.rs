//! A sequence of operations on a file system and on the model, recorded.

use super::FsLabError;
use super::allowed::{Allowed, Broken};
use super::history::History;
use super::target::{Mounted, Rules, Target};
use super::words;
use super::workload::random;
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, Recorded, Rng, Snapshot};
use eraseblock_vfs::ops::{Op, Slots, apply};
use eraseblock_vfs::{FsError, FsErrorKind, ModelFs, same_tree};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counts of activities.
pub(crate) type Happened = BTreeMap<&'static str, u64>;

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

/// A completed operation.
pub(crate) struct Step {
    pub(crate) events: Vec<Recorded>,
    /// The states allowed while it was in progress.
    pub(crate) during: Arc<Allowed>,
    /// The chip after it had returned and the states allowed then, if that promises more.
    pub(crate) after: Option<(Snapshot, Arc<Allowed>)>,
    /// A problem found without any cut.
    pub(crate) problem: Option<Broken>,
}

/// A file system in use.
pub(crate) struct Live<'a> {
    target: &'a dyn Target,
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
fn prepare(message: impl ToString) -> FsLabError {
    FsLabError::Prepare { message: message.to_string() }
}

/// Returns an empty file system.
pub(crate) fn empty(target: &dyn Target) -> Result<Start, FsLabError> {
    let rules = target.rules();
    let chip = Arc::new(target.format().map_err(prepare)?);
    let mounted = target.mount(&chip, false).map_err(prepare)?;
    let model = ModelFs::new(rules.model, eraseblock_vfs::Timestamp::default());
    let root = mounted.fs().attr(mounted.fs().root()).map_err(prepare)?;
    model.set_root_attr(&root);
    mounted.fs().unmount().map_err(prepare)?;
    Ok(Start { snapshot: chip.snapshot(), model, number: 0 })
}

impl<'a> Live<'a> {
    /// Mounts a start.
    pub(crate) fn new(target: &'a dyn Target, start: &Start) -> Result<Self, FsLabError> {
        let chip = Arc::new(start.snapshot.to_chip());
        let mounted = target.mount(&chip, false).map_err(prepare)?;
        let history = History::new(&start.model).map_err(prepare)?;
        Ok(Self {
            target,
            rules: target.rules(),
            chip,
            mounted,
            model: start.model.clone(),
            slots: Default::default(),
            history,
            operations: Vec::new(),
            number: start.number,
            happened: Happened::new(),
        })
    }

    /// Unmounts and returns the state as a start for others.
    pub(crate) fn finish(self) -> Result<Start, FsLabError> {
        self.mounted.fs().unmount().map_err(prepare)?;
        self.model.drop_open();
        Ok(Start { snapshot: self.chip.snapshot(), model: self.model, number: self.number })
    }

    /// Performs an operation.
    pub(crate) fn step(&mut self, op: &Op) -> Step {
        let wanted = self.model.clone();
        let mut wanted_slots = self.slots.1.clone();
        let expected = apply(&wanted, &mut wanted_slots, op, self.number);
        if matches!(op, Op::Restart) {
            wanted.drop_open();
            wanted_slots.clear();
        }
        let mut during = self.history.clone();
        let pushed = match expected {
            Ok(()) => during.push(op, &wanted),
            Err(_) => Ok(()),
        };
        self.operations.push(format!("operation {}: {}", self.number, words::op(op)));
        self.chip.set_recording(true);
        let found = self.apply(op);
        let events = self.chip.take_recording();
        self.chip.set_recording(false);
        self.number += 1;
        let recent = self.operations.len().saturating_sub(40);
        let operations = self.operations[recent..].to_vec();
        let allowed = Arc::new(Allowed { operations: operations.clone(), history: during.clone() });
        let mut step = Step { events, during: allowed, after: None, problem: None };
        match (&found, &expected) {
            _ if pushed.is_err() => step.problem = pushed.err().map(|message| ("model", message)),
            (Ok(()), Ok(())) => {
                (self.model, self.slots.1, self.history) = (wanted, wanted_slots, during);
                self.history.settle(op, &self.slots.1, &self.rules);
            }
            (Err(error), _) if error.kind() == FsErrorKind::NoSpace => {}
            // The property tests check which error it is.
            (Err(_), Err(_)) => {}
            _ => {
                let (found, expected) = (answer(&found), answer(&expected));
                let op = words::op(op);
                step.problem = Some(("answer", format!("{op}: {found}, expected {expected}")));
            }
        }
        if matches!(op, Op::SyncFile(_) | Op::Sync | Op::ReadOnlyAndBack | Op::Restart) {
            let after = Allowed { operations, history: self.history.clone() };
            step.after = Some((self.chip.snapshot(), Arc::new(after)));
        }
        step
    }

    fn apply(&mut self, op: &Op) -> Result<(), FsError> {
        if !matches!(op, Op::Restart) {
            return apply(self.mounted.fs(), &mut self.slots.0, op, self.number);
        }
        self.mounted.fs().unmount()?;
        add(&mut self.happened, self.mounted.as_ref());
        self.slots.0.clear();
        self.mounted = self
            .target
            .mount(&self.chip, false)
            .map_err(|message| FsError::new(FsErrorKind::Io, message))?;
        Ok(())
    }

    /// Returns counts of activities so far.
    pub(crate) fn happened(&self) -> Happened {
        let mut sum = self.happened.clone();
        add(&mut sum, self.mounted.as_ref());
        sum
    }

    /// Performs random operations that are not judged.
    pub(crate) fn age(&mut self, rng: &mut Rng, count: u32) -> Result<(), FsLabError> {
        for _ in 0..count {
            let op = self.random(rng);
            if matches!(op, Op::Restart | Op::ReadOnlyAndBack) {
                continue;
            }
            if self.apply(&op).is_ok() {
                apply(&self.model, &mut self.slots.1, &op, self.number).map_err(|error| {
                    prepare(format!("{}: done, expected {error}", words::op(&op)))
                })?;
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

    /// Returns the chip and the states allowed if nothing more happens.
    pub(crate) fn at_rest(&self) -> (Snapshot, Arc<Allowed>) {
        let recent = self.operations.len().saturating_sub(40);
        let operations = self.operations[recent..].to_vec();
        let allowed = Allowed { operations, history: self.history.clone() };
        (self.chip.snapshot(), Arc::new(allowed))
    }

    /// Returns the next operation of a random sequence; files fit the chip.
    pub(crate) fn random(&self, rng: &mut Rng) -> Op {
        let room = (self.chip.geometry().size() / 128).clamp(2048, 24_000);
        random(rng, &self.model, u32::try_from(room).unwrap_or(u32::MAX))
    }
}

fn answer(result: &Result<(), FsError>) -> String {
    match result {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("refused ({error})"),
    }
}
