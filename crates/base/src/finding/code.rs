//! Identifiers of findings, and what helps.

use core::fmt;

/// What helps against a finding that is more than a note.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Remedy {
    /// To copy everything out: the structure contradicts itself, so that a writable mount may turn
    /// read-only over it.
    Rescue,
    /// The next writable mount repairs it: it is what a power cut leaves.
    Mount,
    /// Nothing helps: content or names are lost, and nothing else depends on them.
    Lost,
    /// It concerns the UBI device and its volumes, which have commands of their own.
    Device,
    /// No mount accepts the file system, but it can be read.
    Read,
}

/// A stable kebab-case identifier that programs can match on (`vid-header-corrupt`), and its remedy.
///
/// A string is a code with [`Remedy::Rescue`]; the codes with another remedy are constants, in a
/// module `codes` of the crate that reports them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Code {
    #[cfg_attr(feature = "serde", serde(rename = "code"))]
    name: &'static str,
    remedy: Remedy,
}

impl Code {
    /// Returns a code with a remedy of its own.
    pub const fn new(name: &'static str, remedy: Remedy) -> Self {
        Self { name, remedy }
    }

    /// Returns the identifier.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns what helps.
    pub const fn remedy(self) -> Remedy {
        self.remedy
    }
}

impl From<&'static str> for Code {
    fn from(name: &'static str) -> Self {
        Self::new(name, Remedy::Rescue)
    }
}

impl PartialEq<&str> for Code {
    fn eq(&self, name: &&str) -> bool {
        self.name == *name
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}
