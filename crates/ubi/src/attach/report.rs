//! Findings, and whether Linux would have continued.

use eraseblock_base::{Code, Findings, Location};

/// Why Linux would refuse to attach the device (spec: ubi 12).
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Refusal {
    /// The place.
    pub at: Location,
    /// The code of the corresponding finding.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub code: Code,
    /// What was found and what was expected.
    pub message: String,
}

/// Findings of an attach in progress.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) findings: Findings,
    refusal: Option<Refusal>,
}

impl Report {
    /// Records something for which Linux refuses the device.
    pub(super) fn refuse(&mut self, at: Location, code: impl Into<Code>, message: String) {
        let code = code.into();
        if self.refusal.is_none() {
            self.refusal = Some(Refusal { at, code, message: message.clone() });
        }
        self.findings.error(at, code, message);
    }

    pub(super) fn refuse_whole(&mut self, code: impl Into<Code>, message: String) {
        self.refuse(Location::Whole, code, message);
    }

    pub(super) fn into_parts(self) -> (Findings, Option<Refusal>) {
        (self.findings, self.refusal)
    }
}
