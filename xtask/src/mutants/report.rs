//! The summary of a run, and `docs/mutants.md`: figures from the results, reasons from
//! `docs/mutants.toml`.

use super::coverage::Group;
use super::results::{Cuts, Judged, Outcome};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The parts of the table, by the first part of a mutant's name.
const ROOMS: [(&str, &str); 4] =
    [("ubi", "UBI"), ("ubifs", "UBIFS"), ("jffs2", "JFFS2"), ("", "all")];

/// Why mutants survive, as written by hand.
#[derive(Deserialize, Default, Debug)]
pub(super) struct Reasons {
    /// Mutants that change nothing a caller or a power cut could show.
    #[serde(default)]
    equivalent: Vec<Reason>,
    /// Mutants that a test should catch.
    #[serde(default)]
    hole: Vec<Reason>,
}

#[derive(Deserialize, Debug)]
struct Reason {
    mutant: String,
    why: String,
}

impl Reasons {
    /// Reads the reasons. Fails if the file is not valid.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    fn all(&self) -> impl Iterator<Item = &Reason> {
        self.equivalent.iter().chain(&self.hole)
    }

    /// Returns the names of all mutants with a reason.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        self.all().map(|it| it.mutant.as_str()).collect()
    }

    /// Returns whether the mutant is known to change nothing that could be shown.
    fn is_equivalent(&self, name: &str) -> bool {
        self.equivalent.iter().any(|it| it.mutant == name)
    }

    /// Returns what is wrong: survivors without a reason, reasons without a mutant, and reasons of
    /// mutants that are caught.
    pub(super) fn faults(&self, judged: &[&Judged], planted: &BTreeSet<&str>) -> Vec<String> {
        let known = self.names();
        let mut faults = Vec::new();
        for it in judged {
            let is_known = known.contains(it.name.as_str());
            match &it.outcome {
                Outcome::Survived if !is_known => {
                    faults.push(format!("survived, line {}: {}", it.line, it.name));
                }
                Outcome::Unreached if !is_known => {
                    faults.push(format!("never reached, line {}: {}", it.line, it.name));
                }
                Outcome::Caught(caught) if is_known => {
                    faults.push(format!("caught by {}, has a reason: {}", caught.test, it.name));
                }
                _ => {}
            }
        }
        let gone = known.iter().filter(|name| !planted.contains(*name));
        faults.extend(gone.map(|name| format!("has a reason and is not planted: {name}")));
        faults
    }
}

/// Counts of one part of the sources.
#[derive(Default, Debug, PartialEq, Eq)]
struct Counts {
    planted: usize,
    judged: usize,
    /// Survivors that change nothing.
    equivalent: usize,
    by: BTreeMap<Group, usize>,
    timeouts: usize,
    survived: usize,
    unreached: usize,
    /// Not caught by the tests of their crates, and not judged by the lab.
    open: usize,
    /// Mutants that the campaigns reach and were run on, and those that they caught.
    campaigns: [usize; 2],
}

impl Counts {
    fn add(&mut self, it: &Judged, reasons: &Reasons) {
        self.judged += 1;
        self.equivalent += usize::from(!it.is_caught() && reasons.is_equivalent(&it.name));
        match &it.outcome {
            Outcome::Caught(caught) => {
                *self.by.entry(caught.by).or_default() += 1;
                self.timeouts += usize::from(caught.is_timeout);
            }
            Outcome::Survived => self.survived += 1,
            Outcome::Unreached => self.unreached += 1,
            Outcome::Open => self.open += 1,
        }
    }

    /// Counts a mutant of the sample on which campaigns run even if a test catches it.
    fn sample(&mut self, it: &Judged) {
        if let Some(Cuts::Caught | Cuts::Missed) = it.cuts {
            self.campaigns[0] += 1;
            self.campaigns[1] += usize::from(it.cuts == Some(Cuts::Caught));
        }
    }

    fn caught(&self) -> usize {
        self.by.values().sum()
    }
}

/// Returns the table of the results as Markdown.
pub(super) fn table(
    judged: &[&Judged],
    planted: &BTreeSet<&str>,
    reasons: &Reasons,
    is_sampled: impl Fn(&str) -> bool,
) -> String {
    let mut text = String::from(
        "| sources | mutants | judged | equivalent | caught of the others | by unit tests | by integration tests | by power cuts \
         | by other tests of the lab | of these, did not end | survived | never reached | open | power cuts alone |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (room, title) in ROOMS {
        let is_here = |name: &str| room.is_empty() || name.split('/').next() == Some(room);
        let planted = planted.iter().filter(|name| is_here(name)).count();
        let mut counts = Counts { planted, ..Counts::default() };
        for it in judged.iter().filter(|it| is_here(&it.name)) {
            counts.add(it, reasons);
            if is_sampled(&it.name) {
                counts.sample(it);
            }
        }
        text += &row(title, &counts);
    }
    text
}

fn row(title: &str, counts: &Counts) -> String {
    let by = |group| counts.by.get(&group).copied().unwrap_or(0);
    let share = |part: usize, whole: usize| match (part * 100).checked_div(whole) {
        None => "-".to_owned(),
        Some(percent) => format!("{part} of {whole} ({percent} %)"),
    };
    format!(
        "| {title} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        counts.planted,
        counts.judged,
        counts.equivalent,
        share(counts.caught(), counts.judged - counts.equivalent),
        by(Group::Unit),
        by(Group::Integration),
        by(Group::Cuts),
        by(Group::Lab),
        counts.timeouts,
        counts.survived,
        counts.unreached,
        counts.open,
        share(counts.campaigns[1], counts.campaigns[0]),
    )
}

/// Returns the page with the table, and every survivor with its reason.
pub(super) fn page(
    head: &str,
    table: &str,
    judged: &[&Judged],
    reasons: &Reasons,
) -> Result<String> {
    let mut text = format!("{head}\n{table}");
    let survivors: BTreeMap<&str, &Judged> =
        judged.iter().filter(|it| !it.is_caught()).map(|it| (it.name.as_str(), *it)).collect();
    let parts = [
        (
            "Equivalent",
            "These change nothing that a caller or a power cut could show.",
            &reasons.equivalent,
        ),
        ("Holes", "These should be caught, and are not yet.", &reasons.hole),
    ];
    for (title, intro, reasons) in parts {
        let mut lines = String::new();
        for reason in reasons.iter().filter(|it| survivors.contains_key(it.mutant.as_str())) {
            writeln!(lines, "- {}: {}", reason.mutant, reason.why.trim())?;
        }
        if !lines.is_empty() {
            write!(text, "\n## {title}\n\n{intro}\n\n{lines}")?;
        }
    }
    let known = reasons.names();
    let open: Vec<&&Judged> =
        survivors.values().filter(|it| !known.contains(it.name.as_str())).collect();
    if !open.is_empty() {
        write!(text, "\n## Not classified\n\n")?;
        for it in open {
            let word = match it.outcome {
                Outcome::Unreached => " (never reached)",
                Outcome::Open => " (open: not judged by the lab)",
                _ => "",
            };
            writeln!(text, "- {}{word}", it.name)?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::results::Caught;
    use super::*;

    fn judged(name: &str, outcome: Outcome) -> Judged {
        Judged { name: name.to_owned(), line: 3, outcome, cuts: None, seconds: 1.0 }
    }

    fn caught() -> Outcome {
        Outcome::Caught(Caught { by: Group::Unit, test: "a".to_owned(), is_timeout: false })
    }

    fn reasons() -> Reasons {
        let text = "[[equivalent]]\nmutant = \"ubi/a\"\nwhy = \"b\"\n[[hole]]\nmutant = \"ubi/c\"\nwhy = \"d\"";
        toml::from_str(text).unwrap()
    }

    #[test]
    fn every_survivor_needs_a_reason_and_every_reason_a_survivor() {
        let planted = BTreeSet::from(["ubi/a", "ubi/c", "ubi/e", "ubi/f"]);
        let results = [judged("ubi/a", Outcome::Survived), judged("ubi/e", caught())];
        let good: Vec<&Judged> = results.iter().collect();
        assert_eq!(reasons().faults(&good, &planted), [""; 0]);
        let results = [
            judged("ubi/a", caught()),
            judged("ubi/e", Outcome::Unreached),
            judged("ubi/f", Outcome::Survived),
        ];
        let bad: Vec<&Judged> = results.iter().collect();
        assert_eq!(reasons().faults(&bad, &planted).len(), 3);
        let faults = reasons().faults(&good, &BTreeSet::from(["ubi/a", "ubi/e"]));
        assert_eq!(faults, ["has a reason and is not planted: ubi/c"]);
    }

    #[test]
    fn the_page_has_each_survivor_in_its_part() {
        let results = [
            judged("ubi/a", Outcome::Survived),
            judged("ubi/c", Outcome::Survived),
            judged("ubi/e", Outcome::Unreached),
            judged("ubi/f", caught()),
            judged("ubi/g", Outcome::Open),
        ];
        let all: Vec<&Judged> = results.iter().collect();
        let table = table(&all, &BTreeSet::from(["ubi/a"]), &reasons(), |_| false);
        // The equivalent one is not among those that could be caught; the open one counts as not
        // caught.
        assert!(table.contains("| UBI | 1 | 5 | 1 | 1 of 4 (25 %) | 1 |"), "{table}");
        assert!(table.contains("| 2 | 1 | 1 | - |"), "{table}");
        let page = page("# Head", &table, &all, &reasons()).unwrap();
        let parts: Vec<&str> = page.split("\n## ").collect();
        assert!(parts[1].contains("- ubi/a: b\n") && parts[2].contains("- ubi/c: d\n"));
        assert!(parts[3].contains("- ubi/e (never reached)\n") && !page.contains("ubi/f"));
        assert!(parts[3].contains("- ubi/g (open: not judged by the lab)\n"));
    }

    #[test]
    fn a_part_of_the_page_without_survivors_is_left_out() {
        let results = [judged("ubi/a", Outcome::Survived), judged("ubi/c", caught())];
        let all: Vec<&Judged> = results.iter().collect();
        let page = page("# Head", "", &all, &reasons()).unwrap();
        assert!(page.contains("## Equivalent") && !page.contains("## Holes"), "{page}");
    }
}
