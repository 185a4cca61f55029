//! What a scan, a mount or a check has to say about an image besides its result.
//!
//! # Invariants
//! 1. A problem is located and never silently dropped: past [`Findings::CAPACITY`] findings are
//!    counted, no longer kept, so that a hostile image cannot make them grow without bound.
//! 2. Findings keep the order in which they were met.

use crate::addr::Location;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// How an error or finding is to be answered; recovery decides by class, never by text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum ErrorClass {
    /// What an interrupted write or erase leaves; recovery may discard it.
    TornByPowerCut,
    /// Bytes that no power cut explains.
    Corruption,
    /// The device failed to read, program or erase.
    Media,
    /// No space is left.
    NoSpace,
    /// A valid format that is not supported here.
    Unsupported,
    /// The caller asked for something impossible.
    Caller,
}

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Severity {
    /// Worth knowing; nothing is wrong (a journal was replayed, an orphan removed).
    Note,
    /// Something is damaged or suspicious, but everything could be delivered.
    Warning,
    /// Something could not be delivered.
    Error,
}

/// One located remark.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Where it is.
    pub at: Location,
    /// A stable kebab-case word that programs can match on (`vid-header-corrupt`).
    pub code: &'static str,
    /// What was found and what was expected, for people.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}: {} [{}]", self.at, self.message, self.code)
    }
}

/// An ordered, bounded collection of findings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    dropped: u64,
    worst: Option<Severity>,
}

impl Findings {
    /// How many findings are kept; the rest is only counted.
    pub const CAPACITY: usize = 10_000;

    /// An empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a finding. A message that begins with the place loses it: the place is told anyway.
    pub fn push(&mut self, mut finding: Finding) {
        self.worst = self.worst.max(Some(finding.severity));
        if self.kept.len() < Self::CAPACITY {
            let place = format!("{}: ", finding.at);
            if finding.message.starts_with(&place) {
                finding.message.drain(..place.len());
            }
            self.kept.push(finding);
        } else {
            self.dropped += 1;
        }
    }

    /// Adds a [`Severity::Note`].
    pub fn note(&mut self, at: Location, code: &'static str, message: impl Into<String>) {
        self.push(Finding { severity: Severity::Note, at, code, message: message.into() });
    }

    /// Adds a [`Severity::Warning`].
    pub fn warn(&mut self, at: Location, code: &'static str, message: impl Into<String>) {
        self.push(Finding { severity: Severity::Warning, at, code, message: message.into() });
    }

    /// Adds a [`Severity::Error`].
    pub fn error(&mut self, at: Location, code: &'static str, message: impl Into<String>) {
        self.push(Finding { severity: Severity::Error, at, code, message: message.into() });
    }

    /// Moves everything from `other` behind what is here.
    pub fn append(&mut self, other: Findings) {
        self.dropped += other.dropped;
        self.worst = self.worst.max(other.worst);
        for finding in other.kept {
            self.push(finding);
        }
    }

    /// Gives every kept finding another place: what a layer below knew as a LEB is one of a certain
    /// volume to the layer above.
    #[must_use]
    pub fn relocate(mut self, place: impl Fn(Location) -> Location) -> Self {
        for finding in &mut self.kept {
            finding.at = place(finding.at);
        }
        self
    }

    /// Gives kept findings another message, where `message` has one, by their position.
    #[must_use]
    pub fn reword(mut self, message: impl Fn(usize, &Finding) -> Option<String>) -> Self {
        for (index, finding) in self.kept.iter_mut().enumerate() {
            if let Some(message) = message(index, finding) {
                finding.message = message;
            }
        }
        self
    }

    /// The kept findings in the order they were met.
    pub fn iter(&self) -> core::slice::Iter<'_, Finding> {
        self.kept.iter()
    }

    /// How many findings were counted but not kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The worst severity met, or `None` when there is no finding.
    pub fn worst(&self) -> Option<Severity> {
        self.worst
    }

    /// Whether anything is a [`Severity::Warning`] or worse.
    pub fn has_problems(&self) -> bool {
        self.worst >= Some(Severity::Warning)
    }

    /// Whether there is no finding at all.
    pub fn is_empty(&self) -> bool {
        self.worst.is_none()
    }
}

impl<'a> IntoIterator for &'a Findings {
    type Item = &'a Finding;
    type IntoIter = core::slice::Iter<'a, Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_bounded_and_counted() {
        let mut findings = Findings::new();
        for _ in 0..Findings::CAPACITY + 3 {
            findings.warn(Location::Whole, "x", "y");
        }
        assert_eq!(findings.iter().count(), Findings::CAPACITY);
        assert_eq!(findings.dropped(), 3);
        assert!(findings.has_problems());
    }

    #[test]
    fn a_place_is_told_once() {
        let mut findings = Findings::new();
        let at = Location::Byte(7);
        findings.note(at, "x", format!("{at}: bad"));
        findings.note(Location::Whole, "x", format!("{at}: bad"));
        let told: Vec<_> = findings.iter().map(|finding| finding.message.clone()).collect();
        assert_eq!(told, ["bad".to_owned(), format!("{at}: bad")]);
    }

    #[test]
    fn findings_move_to_another_place() {
        let mut findings = Findings::new();
        findings.note(Location::Whole, "x", "y");
        let moved = findings.relocate(|_| Location::Byte(7));
        assert_eq!(moved.iter().next().unwrap().at, Location::Byte(7));
    }

    #[test]
    fn notes_are_no_problem() {
        let mut findings = Findings::new();
        assert!(findings.is_empty());
        findings.note(Location::Whole, "journal-replayed", "3 buds");
        assert!(!findings.has_problems());
        assert_eq!(findings.worst(), Some(Severity::Note));
    }
}
