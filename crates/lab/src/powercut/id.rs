//! Names of states: `ubifs/mini/seq1-137@37.P3+41.E2` is sequence 137 of one operation on UBIFS on
//! the mini chip, cut at event 37 with variant P3, its recovery cut at event 41 with variant E2.
//! `37.off` means that the power went off before event 37 began, with no operation in progress.
//! `ubi/mini/7:1-3,9@137.P3` is workload 7 without all operations other than 1, 2, 3 and 9.

use super::cut::Cut;
use super::kept::Kept;
use eraseblock_nandsim::Variant;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// A sequence of operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Plan {
    /// Random operations without an end: `SEED`.
    Workload(u64),
    /// The same, where many programs and erases fail: `failing-SEED`.
    Failing(u64),
    /// The same on a device that is filled to the last block: `full-SEED`.
    Full(u64),
    /// The same where unmapped blocks are erased at once: `eager-SEED`.
    Eager(u64),
    /// One operation on a small tree, and what makes it durable: `seq1-NUMBER`.
    Single(u32),
    /// Two operations: `seq2-NUMBER`.
    Pair(u32),
    /// Many random operations: `run-SEED`.
    Run(u64),
    /// The same on a file system that has been used a lot before: `aged-SEED`.
    Aged(u64),
}

impl Plan {
    /// Returns whether the sequence never ends by itself. It continues after a violation; the
    /// others end with the part that has one.
    pub(super) fn is_endless(self) -> bool {
        self.seed_of_workload().is_some()
    }

    /// Returns the seed of the random parts of cuts; a workload has the same seed for both.
    pub(super) fn seed_of_cuts(self, seed: u64) -> u64 {
        self.seed_of_workload().unwrap_or(seed)
    }

    /// Returns where the counts begin that choose every n-th state. Those of an endless sequence
    /// begin at 0. Short sequences would otherwise all be cut at the same few places, so each of
    /// them begins elsewhere.
    pub(super) fn first_count(self) -> u64 {
        let number = match self {
            Self::Single(number) | Self::Pair(number) => u64::from(number),
            Self::Run(seed) | Self::Aged(seed) => seed,
            _ => return 0,
        };
        number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40
    }

    fn seed_of_workload(self) -> Option<u64> {
        match self {
            Self::Workload(seed) | Self::Failing(seed) | Self::Full(seed) | Self::Eager(seed) => {
                Some(seed)
            }
            Self::Single(_) | Self::Pair(_) | Self::Run(_) | Self::Aged(_) => None,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload(seed) => write!(f, "{seed}"),
            Self::Failing(seed) => write!(f, "failing-{seed}"),
            Self::Full(seed) => write!(f, "full-{seed}"),
            Self::Eager(seed) => write!(f, "eager-{seed}"),
            Self::Single(number) => write!(f, "seq1-{number}"),
            Self::Pair(number) => write!(f, "seq2-{number}"),
            Self::Run(seed) => write!(f, "run-{seed}"),
            Self::Aged(seed) => write!(f, "aged-{seed}"),
        }
    }
}

fn parse_plan(text: &str) -> Option<Plan> {
    let Some((kind, number)) = text.split_once('-') else {
        return text.parse().ok().map(Plan::Workload);
    };
    match kind {
        "failing" => number.parse().ok().map(Plan::Failing),
        "full" => number.parse().ok().map(Plan::Full),
        "eager" => number.parse().ok().map(Plan::Eager),
        "seq1" => number.parse().ok().map(Plan::Single),
        "seq2" => number.parse().ok().map(Plan::Pair),
        "run" => number.parse().ok().map(Plan::Run),
        "aged" => number.parse().ok().map(Plan::Aged),
        _ => None,
    }
}

/// The name of a state.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StateId {
    /// The target and the chip.
    pub target: (String, String),
    /// The operations.
    pub plan: Plan,
    /// The operations that happen, if not all of them do.
    pub kept: Option<Kept>,
    /// The cuts: number of the event, and kind of cut. An empty list names the sequence itself.
    pub cuts: Vec<(u64, Cut)>,
}

/// The text is no id of a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdError {
    /// The text.
    pub text: String,
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text } = self;
        write!(
            f,
            "`{text}` is no replay id: expected TARGET/CHIP/SEQUENCE[:KEPT]@EVENT.VARIANT[+EVENT.VARIANT]"
        )
    }
}

impl Error for IdError {}

impl StateId {
    /// Names a sequence of a target.
    pub fn new(target: (&str, &str), plan: Plan) -> Self {
        let target = (target.0.to_owned(), target.1.to_owned());
        Self { target, plan, kept: None, cuts: Vec::new() }
    }

    /// Names the same sequence without its cuts, where only these operations happen.
    #[must_use]
    pub fn keeping(&self, kept: Kept) -> Self {
        Self { kept: Some(kept), cuts: Vec::new(), ..self.clone() }
    }

    /// Returns whether the sequence never ends by itself.
    pub(super) fn is_endless(&self) -> bool {
        self.kept.is_none() && self.plan.is_endless()
    }

    /// Returns the state after another cut.
    #[must_use]
    pub fn then(&self, event: u64, cut: Cut) -> Self {
        let mut next = self.clone();
        next.cuts.push((event, cut));
        next
    }

    /// Returns the state after another cut during an event.
    #[must_use]
    pub fn then_during(&self, event: u64, variant: Variant) -> Self {
        self.then(event, Cut::During(variant))
    }

    /// Returns whether cells of the chip may change while they are read.
    pub(super) fn is_unstable(&self) -> bool {
        self.cuts.iter().any(|(_, cut)| cut.is_unstable())
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.target.0, self.target.1, self.plan)?;
        if let Some(kept) = &self.kept {
            write!(f, ":{kept}")?;
        }
        for (index, (event, cut)) in self.cuts.iter().enumerate() {
            write!(f, "{}{event}.{cut}", if index == 0 { '@' } else { '+' })?;
        }
        Ok(())
    }
}

impl FromStr for StateId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse(text).ok_or_else(|| IdError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<StateId> {
    let (place, cuts) = text.split_once('@').unwrap_or((text, ""));
    let mut parts = place.split('/');
    let [target, chip, plan] = [parts.next()?, parts.next()?, parts.next()?];
    if parts.next().is_some() || target.is_empty() || chip.is_empty() {
        return None;
    }
    let one = |cut: &str| {
        let (event, cut) = cut.split_once('.')?;
        Some((event.parse().ok()?, cut.parse().ok()?))
    };
    let cuts = cuts.split('+').filter(|cut| !cut.is_empty()).map(one).collect::<Option<_>>()?;
    let (plan, kept) = match plan.split_once(':') {
        Some((plan, kept)) => (plan, Some(Kept::parse(kept)?)),
        None => (plan, None),
    };
    Some(StateId { kept, cuts, ..StateId::new((target, chip), parse_plan(plan)?) })
}

impl serde::Serialize for StateId {
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
            "ubi/mini/7@137.P3+141.E2",
            "ubi/mini/4@1706.P5r5+1707.E4",
            "ubi/nor/18446744073709551615@0.P2half",
            "ubi/large/1",
            "ubifs/mini/seq1-137@37.P3+41.E2",
            "jffs2/nor/run-7@0.P2half",
            "ubifs/mini-tight/aged-7@0.P2half",
            "a/b/seq2-9",
            "a/b/seq1-0@5.off",
            "ubi/mini/failing-7@137.P3",
            "ubi/nor/full-7:1-60,62",
            "ubi/64x131072-2048-512-64/eager-9:3@4.E2+9.off",
            "jffs2/nor/run-7:1,3,5-6@0.P2half",
        ] {
            assert_eq!(text.parse::<StateId>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "a/b",
            "ubi/mini",
            "ubi/mini/x",
            "ubi/mini/1@3",
            "ubi/mini/1@3.Q7",
            "a/b/seq3-1",
            "a/b/seq1-x",
            "a/b/seq1-1@3",
            "a/b/seq1-1@3.Q",
            "a/b/seq1-1/c",
            "a/b/1:@3.P3",
            "a/b/1:2-1@3.P3",
            "a/b/1:2,2@3.P3",
            "a/b/1:0@3.P3",
            "a/b/sleepy-1",
            "//seq1-1",
        ] {
            assert!(text.parse::<StateId>().is_err(), "{text}");
        }
    }
}
