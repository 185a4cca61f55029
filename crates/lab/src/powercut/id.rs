//! Names of states: `ubi/mini/7@137.P3+141.E2` is workload 7 on the mini chip, cut at event 137
//! with variant P3, its recovery cut at event 141 with variant E2.

use super::{LabError, Shape};
use crate::cuts;
use eraseblock_nandsim::Variant;
use std::fmt;
use std::str::FromStr;

/// The name of a state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ReplayId {
    /// The chip.
    pub shape: Shape,
    /// The workload.
    pub seed: u64,
    /// The cuts: number of the event, and variant. An empty list names the workload itself.
    pub cuts: Vec<(u64, Variant)>,
}

impl ReplayId {
    /// Returns the state after another cut.
    #[must_use]
    pub fn then(&self, event: u64, variant: Variant) -> Self {
        let mut next = self.clone();
        next.cuts.push((event, variant));
        next
    }
}

impl fmt::Display for ReplayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ubi/{}/{}", self.shape.name(), self.seed)?;
        cuts::write(f, &self.cuts)
    }
}

impl FromStr for ReplayId {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        parse(text).ok_or_else(|| LabError::Id { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<ReplayId> {
    let ([kind, shape, seed], cuts) = cuts::parse(text)?;
    if kind != "ubi" {
        return None;
    }
    Some(ReplayId { shape: Shape::find(shape)?, seed: seed.parse().ok()?, cuts })
}

impl serde::Serialize for ReplayId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for text in
            ["ubi/mini/7@137.P3+141.E2", "ubi/nor/18446744073709551615@0.P2half", "ubi/large/1"]
        {
            assert_eq!(text.parse::<ReplayId>().unwrap().to_string(), text);
        }
        for text in
            ["", "ubi/mini", "ubi/mini/x", "ubifs/mini/1", "ubi/mini/1@3", "ubi/mini/1@3.Q7"]
        {
            assert!(text.parse::<ReplayId>().is_err(), "{text}");
        }
    }
}
