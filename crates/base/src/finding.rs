//! What a scan, a mount or a check reports about an image in addition to its result.
//!
//! # Invariants
//! 1. A problem is located and never silently dropped. Beyond [`Findings::CAPACITY`], findings are
//!    counted but not kept, so a hostile image cannot make memory grow without bound.
//! 2. Findings keep the order in which they were found.

mod code;

pub use self::code::{Code, Remedy};
use crate::addr::Location;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// How to react to an error or finding. Recovery decides by class, never by text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum ErrorClass {
    /// The trace of an interrupted write or erase; recovery may discard it.
    TornByPowerCut,
    /// Bytes that no power cut explains.
    Corruption,
    /// The device failed to read, program or erase.
    Media,
    /// No space left.
    NoSpace,
    /// A valid format that is not supported here.
    Unsupported,
    /// The caller requested something impossible.
    Caller,
}

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Severity {
    /// Information; nothing is wrong (a journal was replayed, an orphan removed).
    Note,
    /// Something is damaged or suspicious, but everything could be delivered.
    Warning,
    /// Something could not be delivered.
    Error,
}

/// A located problem or note.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// Its place.
    pub at: Location,
    /// A stable identifier that programs can match on, and what helps.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub code: Code,
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
    /// The maximum number of findings kept; further ones are only counted.
    pub const CAPACITY: usize = 10_000;

    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a finding. Removes the place from the start of the message, because it is printed
    /// anyway.
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
    pub fn note(&mut self, at: Location, code: impl Into<Code>, message: impl Into<String>) {
        self.add(Severity::Note, at, code, message);
    }

    /// Adds a [`Severity::Warning`].
    pub fn warn(&mut self, at: Location, code: impl Into<Code>, message: impl Into<String>) {
        self.add(Severity::Warning, at, code, message);
    }

    /// Adds a [`Severity::Error`].
    pub fn error(&mut self, at: Location, code: impl Into<Code>, message: impl Into<String>) {
        self.add(Severity::Error, at, code, message);
    }

    /// Adds a finding of a severity.
    pub fn add(
        &mut self,
        severity: Severity,
        at: Location,
        code: impl Into<Code>,
        message: impl Into<String>,
    ) {
        self.push(Finding { severity, at, code: code.into(), message: message.into() });
    }

    /// Appends all findings of `other`.
    pub fn append(&mut self, other: Findings) {
        self.dropped += other.dropped;
        self.worst = self.worst.max(other.worst);
        for finding in other.kept {
            self.push(finding);
        }
    }

    /// Replaces the place of every kept finding. A layer above uses this, for example, to turn the
    /// LEB of a lower layer into a LEB of a certain volume.
    #[must_use]
    pub fn relocate(mut self, place: impl Fn(Location) -> Location) -> Self {
        for finding in &mut self.kept {
            finding.at = place(finding.at);
        }
        self
    }

    /// Replaces the messages of kept findings for which `message`, called with the index, returns a
    /// new one.
    #[must_use]
    pub fn reword(mut self, message: impl Fn(usize, &Finding) -> Option<String>) -> Self {
        for (index, finding) in self.kept.iter_mut().enumerate() {
            if let Some(message) = message(index, finding) {
                finding.message = message;
            }
        }
        self
    }

    /// Returns the kept findings in the order in which they were found.
    pub fn iter(&self) -> core::slice::Iter<'_, Finding> {
        self.kept.iter()
    }

    /// Returns how many findings were counted but not kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the worst severity so far, or `None` if there are no findings.
    pub fn worst(&self) -> Option<Severity> {
        self.worst
    }

    /// Returns whether any finding is a [`Severity::Warning`] or worse.
    pub fn has_problems(&self) -> bool {
        self.worst >= Some(Severity::Warning)
    }

    /// Returns whether there are no findings.
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
        let messages: Vec<_> = findings.iter().map(|finding| finding.message.clone()).collect();
        assert_eq!(messages, ["bad".to_owned(), format!("{at}: bad")]);
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
