//! Keeps what goes to an observer.

use crate::Result;
use crate::observe::{Meter, Observer};
use eraseblock_base::Findings;
use std::path::Path;

/// Hands everything to another observer and keeps the findings.
pub(super) struct Overheard<'o> {
    observer: &'o mut dyn Observer,
    /// Findings about the whole image.
    aside: Findings,
    own: Findings,
}

impl<'o> Overheard<'o> {
    pub(super) fn new(observer: &'o mut dyn Observer) -> Self {
        Self { observer, aside: Findings::new(), own: Findings::new() }
    }

    /// Returns whether anything reported so far is a problem.
    pub(super) fn has_problems(&self) -> bool {
        self.aside.has_problems() || self.own.has_problems()
    }

    /// Returns all findings, those about the whole image first.
    pub(super) fn findings(self) -> Findings {
        let mut all = self.aside;
        all.append(self.own);
        all
    }
}

impl Observer for Overheard<'_> {
    fn report(&mut self, findings: Findings) {
        self.own.append(findings.clone());
        self.observer.report(findings);
    }

    fn report_aside(&mut self, findings: Findings) {
        self.aside.append(findings.clone());
        self.observer.report_aside(findings);
    }

    fn reads(&mut self, path: &Path) {
        self.observer.reads(path);
    }

    fn keep_still(&mut self, path: &Path) -> Result<()> {
        self.observer.keep_still(path)
    }

    fn writes(&mut self, path: &Path) -> Result<()> {
        self.observer.writes(path)
    }

    fn is_strict(&self) -> bool {
        self.observer.is_strict()
    }

    fn remark(&self, text: &str) {
        self.observer.remark(text);
    }

    fn late_remark(&self) -> fn(&str) {
        self.observer.late_remark()
    }

    fn progress(&self, total: u64, what: &'static str) -> Box<dyn Meter> {
        self.observer.progress(total, what)
    }
}
