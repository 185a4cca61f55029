//! A recording that is repeated until the chip is worn.

use eraseblock_recording::{Pace, QUIET, Replay, Step};
use eraseblock_vfs::{FsError, FsErrorKind, WritableFileSystem};

/// Bytes written in a piece of work, after which background work follows.
const PIECE: u64 = 64 << 10;

/// A recording, pass after pass.
pub(super) struct Passes<'a> {
    fs: &'a dyn WritableFileSystem,
    steps: &'a [Step],
    seed: u64,
    /// The pass, from 0, and the next step in it.
    pass: u64,
    next: usize,
    replay: Replay<'a>,
    /// Bytes written in the passes before this one.
    before: u64,
    /// Steps that failed in a later pass, because an earlier one has done them.
    pub(super) left_out: u64,
}

impl<'a> Passes<'a> {
    pub(super) fn new(fs: &'a dyn WritableFileSystem, steps: &'a [Step], seed: u64) -> Self {
        let replay = Replay::new(fs, Pace::Busy, seed);
        Self { fs, steps, seed, pass: 0, next: 0, replay, before: 0, left_out: 0 }
    }

    /// Returns the bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.before + self.replay.counts().written
    }

    /// Replays steps up to a pause, or until enough was written. At the end of the recording,
    /// everything is made durable, and the next piece begins it again.
    pub(super) fn work(&mut self) -> Result<(), FsError> {
        let begun = self.written();
        while let Some(step) = self.steps.get(self.next) {
            let pause = match self.next.checked_sub(1) {
                Some(last) => step.at.saturating_sub(self.steps[last].at),
                None => 0,
            };
            self.next += 1;
            self.perform(step)?;
            if pause >= QUIET || self.written() - begun >= PIECE {
                return Ok(());
            }
        }
        self.begin_again()
    }

    fn perform(&mut self, step: &Step) -> Result<(), FsError> {
        let is_done = |kind| {
            matches!(kind, FsErrorKind::Exists | FsErrorKind::NotFound | FsErrorKind::NotEmpty)
        };
        match self.replay.step(step) {
            Err(error) if self.pass > 0 && is_done(error.kind()) => {
                self.left_out += 1;
                Ok(())
            }
            done => done,
        }
    }

    fn begin_again(&mut self) -> Result<(), FsError> {
        self.pass += 1;
        // Other content than in the pass before: an application does not write the same again.
        let next = Replay::new(self.fs, Pace::Busy, self.seed.wrapping_add(self.pass));
        let counts = std::mem::replace(&mut self.replay, next).finish()?;
        if counts.written == 0 {
            return Err(FsError::new(FsErrorKind::Invalid, "the recording writes no content"));
        }
        self.before += counts.written;
        self.next = 0;
        Ok(())
    }
}
