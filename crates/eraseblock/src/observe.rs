//! Reports of long work while it runs: findings, the files it reads, its progress.

use crate::Result;
use eraseblock_base::{Code, Findings, Location};
use std::path::Path;

/// Takes reports of work on an image. The command prints them; [`Notes`] collects them.
pub trait Observer {
    /// Takes findings about what was asked for.
    fn report(&mut self, findings: Findings);

    /// Takes one finding about what was asked for: an error.
    fn error(&mut self, at: Location, code: Code, message: &str) {
        let mut findings = Findings::new();
        findings.error(at, code, message);
        self.report(findings);
    }

    /// Takes findings of attaching and opening, which are about the whole image.
    fn report_aside(&mut self, findings: Findings) {
        self.report(findings);
    }

    /// Notes that the file at `path` is read: it cannot be an output.
    fn reads(&mut self, path: &Path) {
        let _ = path;
    }

    /// Notes that the file at `path` is read, and keeps writers away from it until the work ends.
    fn keep_still(&mut self, path: &Path) -> Result<()>;

    /// Refuses to write to `path` if it is a file that is read.
    fn writes(&mut self, path: &Path) -> Result<()> {
        let _ = path;
        Ok(())
    }

    /// Returns whether an image that Linux would refuse is refused.
    fn is_strict(&self) -> bool {
        false
    }

    /// Takes a remark for people.
    fn remark(&self, text: &str) {
        let _ = text;
    }

    /// Returns what takes a remark when the work is over and this observer perhaps gone.
    fn late_remark(&self) -> fn(&str) {
        |_| {}
    }

    /// Begins a progress display over `total` steps, 0 for a number that is set later.
    fn progress(&self, total: u64, what: &'static str) -> Box<dyn Meter> {
        let _ = (total, what);
        Box::new(Silent)
    }
}

/// How far a piece of work is. Dropping it ends the display.
pub trait Meter: Send + Sync {
    /// Names the phase that begins.
    fn phase(&self, what: &'static str);
    /// Sets the number of steps.
    fn total(&self, steps: u64);
    /// Adds steps that are done.
    fn advance(&self, steps: u64);
}

/// Discards progress.
struct Silent;

impl Meter for Silent {
    fn phase(&self, _: &'static str) {}
    fn total(&self, _: u64) {}
    fn advance(&self, _: u64) {}
}

/// Collects what work reports, and holds the locks of what it reads.
#[derive(Debug, Default)]
pub struct Notes {
    /// Everything that was found, in the order of the reports.
    pub findings: Findings,
    /// Refuse what Linux would refuse.
    pub strict: bool,
    locks: Vec<std::fs::File>,
}

impl Notes {
    /// Begins an empty list.
    pub fn new(strict: bool) -> Self {
        Self { strict, ..Self::default() }
    }

    /// Returns the locks, which keep writers away until they are dropped.
    pub(crate) fn take_locks(&mut self) -> Vec<std::fs::File> {
        std::mem::take(&mut self.locks)
    }
}

impl Observer for Notes {
    fn report(&mut self, findings: Findings) {
        self.findings.append(findings);
    }

    fn keep_still(&mut self, path: &Path) -> Result<()> {
        self.locks.extend(crate::target::lock::reading(path)?);
        Ok(())
    }

    fn is_strict(&self) -> bool {
        self.strict
    }
}
