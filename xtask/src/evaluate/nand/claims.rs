//! The published claims as rules: what a text states in words is computed from what was measured.

use super::flash::System;
use super::flash::System::{Jffs2, Jffs2Plain, Squashfs, Ubifs, UbifsNoz, Yaffs2};
use super::steps::{Measured, Step};
use crate::evaluate::rows::{Cell, Fidelity, Row, Verdict};
use Quantity::{Fits, Memory, Time, Used};
use std::collections::BTreeMap;

/// A measured quantity that a claim speaks of; less is better for all but [`Self::Fits`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Quantity {
    /// Virtual time of a step.
    Time(Step),
    /// Bytes in use by df.
    Used,
    /// Bytes of memory of a mount.
    Memory,
    /// Bytes of files that fit.
    Fits,
}

impl Quantity {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Time(_) => ("time", "ms"),
            Self::Used => ("used", "KiB"),
            Self::Memory => ("memory", "KiB"),
            Self::Fits => ("files that fit", "KiB"),
        }
    }
}

/// Everything measured, by system and MiB of the partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) runs: BTreeMap<(System, u32), Measured>,
    /// Bytes of files that fit a partition.
    pub(super) fits: BTreeMap<(System, u32), u64>,
}

impl Results {
    /// Returns nanoseconds or bytes; `None` if it was not measured or did not fit.
    pub(super) fn get(&self, quantity: Quantity, system: System, medium: u32) -> Option<u64> {
        let run = self.runs.get(&(system, medium));
        match quantity {
            Quantity::Time(step) => run?.steps.get(&step).map(|ops| ops.ns),
            Quantity::Used => run?.used,
            Quantity::Memory => run?.memory,
            Quantity::Fits => self.fits.get(&(system, medium)).copied(),
        }
    }

    fn media(&self, quantity: Quantity) -> Vec<u32> {
        let mut media: Vec<u32> = match quantity {
            Quantity::Fits => self.fits.keys().map(|key| key.1).collect(),
            _ => self.runs.keys().map(|key| key.1).collect(),
        };
        media.sort_unstable();
        media.dedup();
        media
    }

    /// Returns the systems that a quantity was measured of, with the values.
    fn measured(&self, quantity: Quantity, medium: u32) -> Vec<(System, u64)> {
        let systems = System::ALL.into_iter().filter(|system| *system != System::Jffs2Plain);
        let value = |system| Some((system, self.get(quantity, system, medium)?));
        systems.filter_map(value).collect()
    }
}

/// What must be true on every medium that the systems fit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// Each costs less than the next one.
    Order(&'static [System]),
    /// No other system costs more.
    Most(System),
    /// It costs at most this many percent of the cheapest one.
    NearBest(System, u64),
    /// The tree does not fit.
    DoesNotFit(System),
    /// From the smallest to the largest medium it grows by at least half of their ratio.
    Grows(System),
    /// It exceeds the least of the others by at least half and at most twice this many KiB.
    ExceedsBy(System, u64),
}

/// A claim of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    table: &'static str,
    what: &'static str,
    quantity: Quantity,
    rule: Rule,
    /// The media it is judged on; empty for all.
    media: &'static [u32],
    source: &'static str,
}

const fn claim(
    (table, what): (&'static str, &'static str),
    quantity: Quantity,
    rule: Rule,
    media: &'static [u32],
    source: &'static str,
) -> Claim {
    Claim { table, what, quantity, rule, media, source }
}

const OUTPERFORMED: &str = "001:817 \"Dramatically outperformed by\"";

/// The claims of the text 001 that the steps can show.
pub(super) const CLAIMS: [Claim; 16] = [
    claim(
        ("BL1", "jffs2 is the slowest to mount"),
        Time(Step::Mount),
        Rule::Most(Jffs2),
        &[],
        "001:64 \"Huge mount times\"",
    ),
    claim(
        ("BL1", "jffs2 without summaries is the slowest to mount"),
        Time(Step::Mount),
        Rule::Most(Jffs2Plain),
        &[],
        "001:64 \"Huge mount times\"",
    ),
    claim(
        ("BL1", "yaffs2 mounts faster than jffs2"),
        Time(Step::Mount),
        Rule::Order(&[Yaffs2, Jffs2]),
        &[],
        "001:78 \"Very quick mount time\"",
    ),
    claim(
        ("BL1", "yaffs2 mounts faster than jffs2 without summaries"),
        Time(Step::Mount),
        Rule::Order(&[Yaffs2, Jffs2Plain]),
        &[],
        "001:78 \"Very quick mount time\"",
    ),
    claim(
        ("BL1", "without compression, ubifs does not fit"),
        Time(Step::Mount),
        Rule::DoesNotFit(UbifsNoz),
        &[8],
        "001:639 \"ubifs-noz / 8M: doesn't fit\"",
    ),
    claim(
        ("BL2", "memory of yaffs2 grows with the partition"),
        Memory,
        Rule::Grows(Yaffs2),
        &[],
        "001:832 \"Memory usage not scaling\"",
    ),
    claim(
        ("BL3", "ubifs uses 1 MiB more than the best"),
        Used,
        Rule::ExceedsBy(Ubifs, 1024),
        &[8],
        "001:668 \"1 MB for 8 MB\"",
    ),
    claim(
        ("BL4", "squashfs reads best, or within a quarter of it"),
        Time(Step::Read),
        Rule::NearBest(Squashfs, 125),
        &[],
        "001:844 \"Best or near best\"",
    ),
    claim(
        ("BL5", "yaffs2 is the slowest to remove files"),
        Time(Step::Remove),
        Rule::Most(Yaffs2),
        &[],
        "001:828 \"Ugly file removal time\"",
    ),
    claim(
        ("BL6", "yaffs2 does not fit"),
        Time(Step::Write),
        Rule::DoesNotFit(Yaffs2),
        &[],
        "001:720 \"yaffs2 / 8M-32M-120M: doesn't fit\"",
    ),
    claim(
        ("BL6", "without compression, ubifs does not fit"),
        Time(Step::Write),
        Rule::DoesNotFit(UbifsNoz),
        &[8],
        "001:721 \"ubifs-noz / 8M: doesn't fit\"",
    ),
    claim(
        ("BL9", "more files fit jffs2 than ubifs"),
        Fits,
        Rule::Order(&[Ubifs, Jffs2]),
        &[],
        "001:854 \"smaller than 10 MB\"",
    ),
    claim(
        ("BL10", "ubifs mounts faster than jffs2"),
        Time(Step::Mount),
        Rule::Order(&[Ubifs, Jffs2]),
        &[],
        OUTPERFORMED,
    ),
    claim(
        ("BL10", "ubifs reads faster than jffs2"),
        Time(Step::Read),
        Rule::Order(&[Ubifs, Jffs2]),
        &[],
        OUTPERFORMED,
    ),
    claim(
        ("BL10", "ubifs writes faster than jffs2"),
        Time(Step::Write),
        Rule::Order(&[Ubifs, Jffs2]),
        &[],
        OUTPERFORMED,
    ),
    claim(
        ("BL10", "ubifs removes faster than yaffs2"),
        Time(Step::Remove),
        Rule::Order(&[Ubifs, Yaffs2]),
        &[],
        "001:824 \"Also outperformed by ubifs\"",
    ),
];

impl Claim {
    pub(super) const fn table(&self) -> &'static str {
        self.table
    }

    /// Returns the row with the verdict and the values that it rests on.
    pub(super) fn row(&self, results: &Results) -> Row {
        let media: Vec<u32> = results.media(self.quantity);
        let media: Vec<u32> = media
            .into_iter()
            .filter(|medium| self.media.is_empty() || self.media.contains(medium))
            .collect();
        let (holds, shown) = self.judge(results, &media);
        let (metric, unit) = self.quantity.words();
        let names: Vec<_> = media.iter().map(|medium| format!("{medium} MiB")).collect();
        let words = self.source.split('"').nth(1).unwrap_or_default();
        Row::new(self.table, &format!("claim: {}", self.what), metric, unit)
            .on("-", names.join(", "))
            .published(Cell::text(words), self.source)
            .ours(Cell::text(shown), Fidelity::Order)
            .judged(Verdict::of(holds))
    }

    /// Returns whether the claim holds on all of these media whose values were measured, `None` if there
    /// is none, and the values.
    fn judge(&self, results: &Results, media: &[u32]) -> (Option<bool>, String) {
        if media.is_empty() {
            return (None, "not measured".to_owned());
        }
        if let Rule::Grows(system) = self.rule {
            return self.judge_growth(results, system, media);
        }
        let (mut verdicts, mut shown) = (Vec::new(), Vec::new());
        for medium in media {
            let found = results.measured(self.quantity, *medium);
            verdicts.extend(self.judge_one(results, *medium, &found));
            let values = self.values(results, *medium, &found);
            shown.push(format!("{medium} MiB: {}", values.join(", ")));
        }
        let holds = (!verdicts.is_empty()).then(|| verdicts.iter().all(|holds| *holds));
        (holds, shown.join("; "))
    }

    /// Judges one medium; `None` if a system does not fit it.
    fn judge_one(&self, results: &Results, medium: u32, found: &[(System, u64)]) -> Option<bool> {
        let get = |system| results.get(self.quantity, system, medium);
        let others = |system: System| {
            found.iter().filter(move |(other, _)| *other != system).map(|(_, value)| *value)
        };
        match self.rule {
            Rule::Order(systems) => {
                let values: Option<Vec<u64>> = systems.iter().copied().map(get).collect();
                values.map(|values| values.is_sorted_by(|one, next| one < next))
            }
            Rule::Most(system) => Some(others(system).max()? <= get(system)?),
            Rule::NearBest(system, percent) => {
                let best = others(system).min()?;
                Some(get(system)? * 100 <= best * percent)
            }
            Rule::DoesNotFit(system) => {
                results.runs.get(&(system, medium)).map(|run| !run.steps.contains_key(&Step::Mount))
            }
            Rule::ExceedsBy(system, kibibytes) => {
                let by = get(system)?.saturating_sub(others(system).min()?) >> 10;
                Some(by * 2 >= kibibytes && by <= kibibytes * 2)
            }
            Rule::Grows(_) => None,
        }
    }

    fn judge_growth(
        &self,
        results: &Results,
        system: System,
        media: &[u32],
    ) -> (Option<bool>, String) {
        let present = |medium: &u32| Some((*medium, results.get(self.quantity, system, *medium)?));
        let found: Vec<_> = media.iter().filter_map(present).collect();
        let shown: Vec<_> =
            found.iter().map(|(medium, value)| self.value(*medium, *value)).collect();
        let holds = match found[..] {
            [(least, few), .., (most, many)] => {
                Some(many * 2 * u64::from(least) >= few * u64::from(most))
            }
            _ => None,
        };
        (holds, format!("{}: {}", system.name(), shown.join(", ")))
    }

    fn value(&self, medium: u32, value: u64) -> String {
        let (_, unit) = self.quantity.words();
        format!("{} {unit} on {medium} MiB", self.scaled(value))
    }

    const fn scaled(&self, value: u64) -> u64 {
        match self.quantity {
            Quantity::Time(_) => value.div_ceil(1_000_000),
            _ => value >> 10,
        }
    }

    fn values(&self, results: &Results, medium: u32, found: &[(System, u64)]) -> Vec<String> {
        let (_, unit) = self.quantity.words();
        let words = |(system, value): (System, u64)| {
            format!("{} {} {unit}", system.name(), self.scaled(value))
        };
        match self.rule {
            Rule::DoesNotFit(system) => {
                let fits = results.get(Time(Step::Mount), system, medium).is_some();
                vec![if fits { "fits" } else { "does not fit" }.to_owned()]
            }
            Rule::Order(systems) => {
                let get = |system: &System| results.get(self.quantity, *system, medium);
                let value = |system: &System| match get(system) {
                    Some(value) => words((*system, value)),
                    None => format!("{} does not fit", system.name()),
                };
                systems.iter().map(value).collect()
            }
            Rule::Most(Jffs2Plain) => {
                let own = results.get(self.quantity, Jffs2Plain, medium);
                let own = own.map(|value| (Jffs2Plain, value));
                own.into_iter().chain(found.iter().copied()).map(words).collect()
            }
            _ => found.iter().copied().map(words).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flash::Ops;
    use super::*;

    const STEPS: [Step; 4] = [Step::Write, Step::Mount, Step::Read, Step::Remove];

    /// Results in which the published order holds: the time of a step is the position of the system.
    fn published() -> Results {
        let order = [Squashfs, Ubifs, Yaffs2, Jffs2, Jffs2Plain];
        let mut results = Results::default();
        for medium in [8, 32] {
            for (place, system) in (1..).zip(order) {
                let mut run =
                    Measured { memory: Some(u64::from(medium) * place), ..Measured::default() };
                for step in STEPS {
                    let ns = match (system, step) {
                        (Squashfs, Step::Write | Step::Remove)
                        | (Jffs2Plain, Step::Read | Step::Remove) => continue,
                        (Yaffs2, Step::Remove) => 100,
                        _ => place,
                    };
                    run.steps.insert(step, Ops { ns, ..Ops::default() });
                }
                run.used = Some(if system == Ubifs { 2 << 20 } else { 1 << 20 });
                results.runs.insert((system, medium), run);
            }
            results.runs.insert((UbifsNoz, medium), Measured::default());
            results.fits.extend([((Jffs2, medium), 2), ((Ubifs, medium), 1)]);
        }
        for medium in [8, 32] {
            if let Some(run) = results.runs.get_mut(&(Yaffs2, medium)) {
                run.steps.remove(&Step::Write);
            }
        }
        results
    }

    fn verdicts(results: &Results) -> Vec<Verdict> {
        CLAIMS.iter().map(|claim| claim.row(results).verdict).collect()
    }

    #[test]
    fn claims_hold_on_what_was_published() {
        let mut results = published();
        let rows = CLAIMS.iter().map(|claim| (claim.what, claim.row(&results).verdict));
        let broken: Vec<_> = rows.filter(|(_, verdict)| *verdict != Verdict::Holds).collect();
        // It cannot be both: mounted, and too large to be written.
        assert_eq!(broken, [("yaffs2 does not fit", Verdict::HoldsNoLonger)]);
        for medium in [8, 32] {
            results.runs.insert((Yaffs2, medium), Measured::default());
        }
        let claim = CLAIMS.iter().find(|claim| claim.what == "yaffs2 does not fit").unwrap();
        assert_eq!(claim.row(&results).verdict, Verdict::Holds);
    }

    #[test]
    fn exchanged_measurements_change_verdicts() {
        let before = published();
        for (one, other) in [(Jffs2, Ubifs), (Yaffs2, Jffs2), (Squashfs, Jffs2)] {
            let mut results = before.clone();
            for medium in [8, 32] {
                let first = results.runs.remove(&(one, medium)).unwrap();
                let second = results.runs.insert((other, medium), first).unwrap();
                results.runs.insert((one, medium), second);
            }
            assert_ne!(verdicts(&results), verdicts(&before), "{one:?} and {other:?}");
        }
    }

    #[test]
    fn nothing_measured_is_no_verdict() {
        let verdicts = verdicts(&Results::default());
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::NotComparable), "{verdicts:?}");
    }

    #[test]
    fn memory_that_stays_the_same_does_not_grow() {
        let mut results = published();
        for medium in [8, 32] {
            results.runs.get_mut(&(Yaffs2, medium)).unwrap().memory = Some(1 << 20);
        }
        let claim = CLAIMS.iter().find(|claim| claim.quantity == Memory).unwrap();
        assert_eq!(claim.row(&results).verdict, Verdict::HoldsNoLonger);
    }
}
