//! Names of states: `ubifs/mini/seq1-137@37.P3+41.E2` is sequence 137 of one operation on the mini
//! chip, cut at event 37 with variant P3, its recovery cut at event 41 with variant E2. `37.off`
//! means that the power went off before event 37 began, with no operation in progress.

use super::FsLabError;
use crate::cuts::{self, Cut};
use std::fmt;
use std::str::FromStr;

/// A sequence of operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Plan {
    /// One operation on a small tree, and what makes it durable: `seq1-NUMBER`.
    Single(u32),
    /// Two operations: `seq2-NUMBER`.
    Pair(u32),
    /// Many random operations: `run-SEED`.
    Run(u64),
    /// The same on a file system that has been used a lot before: `aged-SEED`.
    Aged(u64),
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(number) => write!(f, "seq1-{number}"),
            Self::Pair(number) => write!(f, "seq2-{number}"),
            Self::Run(seed) => write!(f, "run-{seed}"),
            Self::Aged(seed) => write!(f, "aged-{seed}"),
        }
    }
}

fn parse_plan(text: &str) -> Option<Plan> {
    let (kind, number) = text.split_once('-')?;
    match kind {
        "seq1" => number.parse().ok().map(Plan::Single),
        "seq2" => number.parse().ok().map(Plan::Pair),
        "run" => number.parse().ok().map(Plan::Run),
        "aged" => number.parse().ok().map(Plan::Aged),
        _ => None,
    }
}

/// The name of a state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CutId {
    /// The file system and the chip.
    pub target: (String, String),
    /// The operations.
    pub plan: Plan,
    /// The cuts: number of the event, and kind of cut. An empty list names the sequence itself.
    pub cuts: Vec<(u64, Cut)>,
}

impl CutId {
    /// Returns the state after another cut.
    #[must_use]
    pub fn then(&self, event: u64, cut: Cut) -> Self {
        let mut next = self.clone();
        next.cuts.push((event, cut));
        next
    }
}

impl fmt::Display for CutId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.target.0, self.target.1, self.plan)?;
        cuts::write(f, &self.cuts)
    }
}

impl FromStr for CutId {
    type Err = FsLabError;

    fn from_str(text: &str) -> Result<Self, FsLabError> {
        parse(text).ok_or_else(|| FsLabError::Id { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<CutId> {
    let ([fs, chip, plan], cuts) = cuts::parse(text)?;
    if fs.is_empty() || chip.is_empty() {
        return None;
    }
    Some(CutId { target: (fs.to_owned(), chip.to_owned()), plan: parse_plan(plan)?, cuts })
}

impl serde::Serialize for CutId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for text in [
            "ubifs/mini/seq1-137@37.P3+41.E2",
            "jffs2/nor/run-7@0.P2half",
            "ubifs/mini-tight/aged-7@0.P2half",
            "a/b/seq2-9",
            "a/b/seq1-0@5.off",
        ] {
            assert_eq!(text.parse::<CutId>().unwrap().to_string(), text);
        }
        for text in
            ["", "a/b", "a/b/seq3-1", "a/b/seq1-x", "a/b/seq1-1@3", "a/b/seq1-1@3.Q", "//seq1-1"]
        {
            assert!(text.parse::<CutId>().is_err(), "{text}");
        }
    }
}
