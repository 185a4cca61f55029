//! Findings, and the difference between strict opening and salvaging.

use crate::error::UbifsError;
use eraseblock_base::{Code, Finding, Findings, Leb, Location, Severity};
use eraseblock_mtd::MtdError;
use eraseblock_ubifs_format::FormatError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Collects findings while a volume is opened.
#[derive(Debug)]
pub(crate) struct Report {
    strict: bool,
    pub(crate) findings: Findings,
    /// The rows of the specification's section 21 that findings break, by position.
    pub(crate) rows: BTreeMap<usize, &'static str>,
}

impl Report {
    pub(crate) fn new(strict: bool) -> Self {
        Self { strict, ..Self::salvaging() }
    }

    /// Linux's refusals are errors.
    #[cfg(feature = "write")]
    pub(crate) fn strict() -> Self {
        Self { strict: true, ..Self::salvaging() }
    }

    /// Linux's refusals are findings.
    pub(crate) fn salvaging() -> Self {
        Self { strict: false, findings: Findings::new(), rows: BTreeMap::new() }
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Says which row of the specification's section 21 the next finding breaks.
    pub(crate) fn of_row(&mut self, row: &'static str) -> &mut Self {
        self.rows.insert(self.findings.iter().len(), row);
        self
    }

    /// Records something that makes Linux refuse the mount: an error if strict, otherwise a
    /// finding.
    pub(crate) fn refuse(
        &mut self,
        at: Location,
        code: impl Into<Code>,
        message: impl Into<String>,
    ) -> Result<(), UbifsError> {
        let message = message.into();
        if self.strict {
            return Err(UbifsError::Refused { at, code: code.into(), message });
        }
        self.findings.error(at, code, message);
        Ok(())
    }

    /// Records a LEB that cannot be read: the device's error if strict, otherwise a finding.
    pub(crate) fn refuse_read(
        &mut self,
        at: Location,
        code: impl Into<Code>,
        error: MtdError,
    ) -> Result<(), UbifsError> {
        if self.strict {
            return Err(error.into());
        }
        self.findings.error(at, code, error.to_string());
        Ok(())
    }

    /// Records a node with which Linux refuses the mount.
    pub(crate) fn refuse_node(
        &mut self,
        code: impl Into<Code>,
        error: FormatError,
    ) -> Result<(), UbifsError> {
        if self.strict {
            return Err(error.into());
        }
        self.findings.error(error.at(), code, error.to_string());
        Ok(())
    }
}

/// Findings made after opening, one for each place.
#[derive(Debug, Default)]
pub(crate) struct Late {
    inner: Mutex<(Findings, BTreeSet<(Location, Code)>)>,
}

impl Late {
    fn lock(&self) -> MutexGuard<'_, (Findings, BTreeSet<(Location, Code)>)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a finding unless one with its code and place exists.
    pub(crate) fn push(
        &self,
        severity: Severity,
        at: Location,
        code: impl Into<Code>,
        message: String,
    ) {
        let code = code.into();
        let mut inner = self.lock();
        if inner.1.len() < Findings::CAPACITY && inner.1.insert((at, code)) {
            inner.0.push(Finding { severity, at, code, message });
        }
    }

    /// Adds a finding about a bad node.
    pub(crate) fn node(&self, code: impl Into<Code>, error: &FormatError) {
        self.push(Severity::Error, error.at(), code, error.to_string());
    }

    /// Returns all findings so far.
    pub(crate) fn snapshot(&self) -> Findings {
        self.lock().0.clone()
    }
}

/// Returns the start of a LEB by its number.
pub(crate) fn leb_start(leb: u32) -> Location {
    Location::leb(Leb::new(leb))
}
