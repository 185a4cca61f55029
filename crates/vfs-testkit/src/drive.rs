//! Runs the same operations on a file system and on the model, and compares results and trees.

use crate::compare::{CompareOptions, same_tree};
use crate::model::ModelFs;
use crate::ops::{Op, Slots, apply_some};
use eraseblock_vfs::error::{FsError, FsErrorKind};
use eraseblock_vfs::write::WritableFileSystem;
use std::fmt;

/// A file system under test, with its medium.
pub trait Subject {
    /// Returns the currently mounted file system.
    fn fs(&self) -> &dyn WritableFileSystem;

    /// Mounts again after [`WritableFileSystem::unmount`].
    ///
    /// # Errors
    ///
    /// Fails with a description if the file system cannot be mounted.
    fn restart(&mut self) -> Result<(), String>;

    /// Cuts the power (nothing is unmounted) and mounts again.
    ///
    /// # Errors
    ///
    /// Fails with a description if the file system cannot be mounted.
    fn power_cut(&mut self) -> Result<(), String>;

    /// Verifies the structures on the medium and in memory.
    ///
    /// # Errors
    ///
    /// Fails with a description of what is wrong.
    fn check(&self) -> Result<(), String>;
}

/// Options of [`drive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveOptions {
    /// What the comparison of trees covers.
    pub compare: CompareOptions,
    /// Compare the trees after every n-th operation, and always after a restart and at the end; 0
    /// for only then.
    pub compare_every: usize,
    /// Whether "no space left" is a correct result; the operation must then have changed nothing. A
    /// write may store only a beginning and report its length.
    pub may_be_full: bool,
}

impl Default for DriveOptions {
    fn default() -> Self {
        Self { compare: CompareOptions::ALL, compare_every: 1, may_be_full: false }
    }
}

/// The first disagreement of a file system and the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Number of the operation, from 0.
    pub number: usize,
    /// The operation.
    pub op: Option<Op>,
    /// What was found and what was expected.
    pub message: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.op {
            Some(op) => write!(f, "operation {} ({op:?}): {}", self.number, self.message),
            None => write!(f, "at the end: {}", self.message),
        }
    }
}

/// The result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveReport {
    /// Operations that succeeded on both.
    pub succeeded: usize,
    /// Operations that both refused, with the same kind of error.
    pub refused: usize,
    /// Operations that failed for lack of space.
    pub full: usize,
}

/// Runs the operations on a freshly mounted empty file system and on the model, and compares
/// results and trees. The model starts with the root attributes of the file system.
///
/// # Errors
///
/// Fails at the first disagreement.
pub fn drive(
    subject: &mut dyn Subject,
    model: &ModelFs,
    ops: &[Op],
    options: &DriveOptions,
) -> Result<DriveReport, Mismatch> {
    let mut run =
        Run { subject, model, options, slots: Default::default(), report: DriveReport::default() };
    let fail = |message| Mismatch { number: 0, op: None, message };
    let root = run.subject.fs().attr(run.subject.fs().root());
    model.set_root_attr(&root.map_err(|error| fail(format!("attributes of the root: {error}")))?);
    for (number, op) in ops.iter().enumerate() {
        run.step(number, op).map_err(|message| Mismatch { number, op: Some(*op), message })?;
    }
    let end = run.restart().and_then(|()| run.compare());
    end.map_err(|message| Mismatch { number: ops.len(), op: None, message })?;
    Ok(run.report)
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn failed(error: FsError) -> String {
    format!("{:?}: {error}", error.kind())
}

struct Run<'a> {
    subject: &'a mut dyn Subject,
    model: &'a ModelFs,
    options: &'a DriveOptions,
    /// The slots of the subject and of the model.
    slots: (Slots, Slots),
    report: DriveReport,
}

impl Run<'_> {
    fn step(&mut self, number: usize, op: &Op) -> Result<(), String> {
        match op {
            Op::Restart => return self.restart().and_then(|()| self.compare()),
            Op::SyncAndCut => return self.sync_and_cut().and_then(|()| self.compare()),
            _ => {}
        }
        let at = number as u64;
        let found = apply_some(self.subject.fs(), &mut self.slots.0, op, at, usize::MAX);
        let is_full = |error: &FsError| error.kind() == FsErrorKind::NoSpace;
        if self.options.may_be_full && found.as_ref().is_err_and(is_full) {
            self.report.full += 1;
            return self.compare();
        }
        let most = match &found {
            Ok(done) if self.options.may_be_full => *done,
            _ => usize::MAX,
        };
        let expected = apply_some(self.model, &mut self.slots.1, op, at, most);
        match (&found, &expected) {
            (Ok(found), Ok(expected)) if found == expected => self.report.succeeded += 1,
            (Err(found), Err(expected)) if found.kind() == expected.kind() => {
                self.report.refused += 1;
            }
            _ => return Err(format!("answers {}, expected {}", answer(&found), answer(&expected))),
        }
        if self.options.compare_every != 0 && number.is_multiple_of(self.options.compare_every) {
            self.compare()?;
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<(), String> {
        self.subject.fs().unmount().map_err(failed)?;
        self.subject.restart()?;
        self.close_all();
        Ok(())
    }

    fn sync_and_cut(&mut self) -> Result<(), String> {
        self.subject.fs().sync().map_err(failed)?;
        self.subject.power_cut()?;
        self.close_all();
        Ok(())
    }

    /// No file is open after a restart.
    fn close_all(&mut self) {
        self.model.drop_open();
        self.slots = Default::default();
    }

    fn compare(&mut self) -> Result<(), String> {
        let found = same_tree(self.subject.fs(), self.model, &self.options.compare);
        if !found.is_empty() {
            let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
            return Err(format!("found against expected:\n  {}", lines.join("\n  ")));
        }
        for slot in 0..u8::try_from(crate::ops::SLOTS).unwrap_or(0) {
            self.compare_slot(slot)?;
        }
        self.subject.check()
    }

    /// Compares files that only an open slot may keep alive.
    fn compare_slot(&self, slot: u8) -> Result<(), String> {
        let (Some(found), Some(expected)) = (self.slots.0.get(slot), self.slots.1.get(slot)) else {
            return Ok(());
        };
        let look = |fs: &dyn WritableFileSystem, ino| {
            let attr = fs.attr(ino)?;
            let len = usize::try_from(attr.size).unwrap_or(0).min(1 << 20);
            let mut bytes =
                vec![0; if attr.kind == eraseblock_vfs::FileKind::Regular { len } else { 0 }];
            if !bytes.is_empty() {
                fs.read(ino, 0, &mut bytes)?;
            }
            Ok::<_, FsError>((attr.kind, attr.nlink, attr.permissions, bytes))
        };
        match (look(self.subject.fs(), found), look(self.model, expected)) {
            (Ok(found), Ok(expected)) if found == expected => Ok(()),
            (Ok(_), Ok(_)) => Err(format!("slot {slot}: differs from the model")),
            (found, expected) => {
                Err(format!("slot {slot}: {:?}, expected {:?}", found.err(), expected.err()))
            }
        }
    }
}

fn answer(result: &Result<usize, FsError>) -> String {
    match result {
        Ok(0) => "done".into(),
        Ok(bytes) => format!("{bytes} bytes done"),
        Err(error) => format!("{:?} ({error})", error.kind()),
    }
}

#[cfg(test)]
mod tests;
