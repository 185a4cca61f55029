//! What power cuts left, as rows of the tables F3 and F4.

use super::pile::Pile;
use super::session::Recorded;
use super::state::{Cut, Level, cuts, sample};
use super::{MARKS, Outcome, SEED, STATES, campaign, ours, sizes, units};
use crate::evaluate::disk::System;
use crate::evaluate::lab::Lab;
use crate::evaluate::rows::{Cell, Fidelity, Row, Verdict};
use crate::evaluate::whole;
use crate::oracle::Checks;
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// What was published of a file system, and where.
const PUBLISHED: [(System, &str, &str); 2] = [
    (
        System::Ext4,
        "1,000+ cuts: corrupted inodes up to 32,000, then disk full",
        "004:341 \"Corrupted inode\"",
    ),
    (
        System::Btrfs,
        "1,000+ cuts: no abnormal situation",
        "004:340 \"No Abnormal Situation Occurred\"",
    ),
];
const DF: &str = "7189712 used, 0 available of 7206100";
const DF_SOURCE: &str = "004:348 \"7189712\"";

/// Levels, states of each, and accumulating cuts.
pub(super) type Extent<'a> = (&'a [Level], usize, u32);

/// Everything measured.
#[derive(Debug, Default)]
pub(in crate::evaluate) struct Results {
    outcomes: BTreeMap<(System, Level), Outcome>,
    piles: BTreeMap<(System, Level), Pile>,
    ours: BTreeMap<Level, Outcome>,
}

/// Workloads of UBIFS in process: seeds from that of the guests on, as many as the states need.
const WORKLOADS: u64 = 64;

fn workloads(level: Level) -> impl Iterator<Item = Result<Recorded>> {
    let seeds = SEED..SEED + WORKLOADS;
    seeds.map(move |seed| ours::record(seed, MARKS, level.is_write_through()))
}

/// Judges so many states of UBIFS in process, of several workloads if one has too few.
fn judge_ours(level: Level, states: usize) -> Result<Outcome> {
    let mut all = Outcome::default();
    for recorded in workloads(level) {
        let recorded = recorded?;
        let from = recorded.recording.position_of(0)?;
        let wanted = states - all.states;
        let chosen = sample(&cuts(&recorded.recording, level, from, units()?), wanted);
        let judged = ours::judge_states(&recorded, &chosen, units()?)?;
        all.add(Outcome::new(ours::NAME, level, &recorded.recording.id(), &judged));
        if all.states >= states {
            break;
        }
    }
    Ok(all)
}

/// Judges a state of UBIFS again. Its recordings are the same in every run.
pub(super) fn replay_ours(id: &str, level: Level, hash: &str, cut: Cut) -> Result<bool> {
    for recorded in workloads(level) {
        let recorded = recorded?;
        if recorded.recording.id() == hash {
            let judged = ours::judge_states(&recorded, &[cut], units()?)?;
            let outcome = Outcome::new(ours::NAME, level, hash, &judged);
            outcome.print(ours::NAME, level);
            return Ok(outcome.violations.is_empty());
        }
    }
    bail!("{id}: no workload has this recording: UBIFS writes something else now")
}

impl Results {
    /// Judges UBIFS in process, at all levels.
    pub(in crate::evaluate) fn measure_all(&mut self) -> Result<()> {
        self.measure(&Level::ALL, STATES)
    }

    /// Judges all file systems of Linux at all levels, or takes what earlier runs left.
    pub(in crate::evaluate) fn ask_all(
        &mut self,
        lab: &mut Lab,
        extent: whole::Extent,
        checks: &mut Checks,
    ) {
        let (states, most) = sizes(extent);
        for system in System::BLOCK {
            self.ask_linux(lab, system, (&Level::ALL, states, most), checks);
        }
    }

    /// Judges UBIFS in process.
    pub(super) fn measure(&mut self, levels: &[Level], states: usize) -> Result<()> {
        for level in levels {
            let outcome = judge_ours(*level, states)?;
            outcome.print(ours::NAME, *level);
            self.ours.insert(*level, outcome);
        }
        Ok(())
    }

    /// Judges a file system of Linux, or takes what earlier runs left.
    pub(super) fn ask_linux(
        &mut self,
        lab: &mut Lab,
        system: System,
        extent: Extent<'_>,
        checks: &mut Checks,
    ) {
        let outcome = campaign(lab, system, extent).map(|campaign| {
            for (level, outcome) in campaign.outcomes {
                self.outcomes.insert((system, level), outcome);
            }
            for (level, pile) in campaign.piles {
                self.piles.insert((system, level), pile);
            }
        });
        checks.record(&format!("cuts/{}", system.script_name()), outcome);
    }

    /// Returns the rows of both tables.
    pub(in crate::evaluate) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for system in System::BLOCK {
            rows.extend(Level::ALL.iter().filter_map(|level| self.states_row(system, *level)));
        }
        for (level, outcome) in &self.ours {
            let row = row_of(*level).on(ours::NAME, medium(outcome));
            rows.push(row.linux("not run: in process").ours(cell(outcome), Fidelity::Model));
        }
        rows.extend(PUBLISHED.map(|claim| self.claim(claim)));
        for ((system, level), pile) in &self.piles {
            let (published, source) = match system {
                System::Ext4 => (DF, DF_SOURCE),
                _ => ("not published", ""),
            };
            let cuts = pile.standings.last().map_or(0, |standing| standing.cuts);
            let what = format!("df after accumulating cuts, {}", level.name());
            let row = Row::new("F4", &what, "blocks of 1 KiB, inodes", "")
                .on(system.script_name(), format!("{cuts} cuts"))
                .published(published, source)
                .linux(Cell::text(pile.words()))
                .ours("no part of this repository", Fidelity::Model);
            rows.push(row.judged(if source.is_empty() {
                Verdict::NoClaim
            } else {
                Verdict::NotComparable
            }));
        }
        rows
    }

    fn states_row(&self, system: System, level: Level) -> Option<Row> {
        let outcome = self.outcomes.get(&(system, level))?;
        let row = row_of(level).on(system.script_name(), medium(outcome));
        Some(row.linux(cell(outcome)).ours("no part of this repository", Fidelity::Model))
    }

    /// Judges a published result: comparable only if all levels agree.
    fn claim(&self, (system, words, source): (System, &str, &str)) -> Row {
        let harmed = |level: &Level| {
            let pile = self.piles.get(&(system, *level));
            pile.map(Pile::is_harmed)
        };
        let harmed: Vec<Option<bool>> = Level::ALL.iter().map(harmed).collect();
        let names = |wanted: bool| {
            let of = Level::ALL.iter().zip(&harmed);
            let of = of.filter(|(_, harmed)| **harmed == Some(wanted));
            of.map(|(level, _)| level.name()).collect::<Vec<_>>().join(", ")
        };
        let expects_harm = system == System::Ext4;
        let is_complete = harmed.iter().all(Option::is_some);
        let holds = is_complete && harmed.iter().all(|found| *found == Some(expects_harm));
        let linux = if harmed.iter().all(Option::is_none) {
            Cell::not_run()
        } else {
            Cell::text(format!(
                "damage at: {}; none at: {}",
                or_none(&names(true)),
                or_none(&names(false))
            ))
        };
        Row::new("F3", &format!("claim: {}", system.script_name()), "levels with damage", "")
            .on(system.script_name(), "accumulating cuts")
            .published(words, source)
            .linux(linux)
            .ours("no part of this repository", Fidelity::Model)
            .judged(Verdict::of(holds.then_some(true)))
    }
}

fn or_none(names: &str) -> &str {
    if names.is_empty() { "no level" } else { names }
}

fn row_of(level: Level) -> Row {
    let what = format!("states after a cut, {}: {}", level.name(), level.words());
    Row::new("F3", &what, "states with violations", "").published("not published", "")
}

fn medium(outcome: &Outcome) -> String {
    format!("{} states", outcome.states)
}

fn cell(outcome: &Outcome) -> Cell {
    let damaged = outcome.violations.len();
    if damaged == 0 {
        return Cell::text("none");
    }
    Cell::text(format!("{damaged} damaged ({})", outcome.summary()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_comparable_only_if_all_levels_agree() {
        let mut results = Results::default();
        let claim = |results: &Results| results.claim(PUBLISHED[1]);
        assert_eq!(claim(&results).linux, Cell::not_run());
        for level in Level::ALL {
            results.piles.insert((System::Btrfs, level), Pile::default());
        }
        assert_eq!(claim(&results).verdict, Verdict::Holds);
        let refused = Pile { refused: Some(3), ..Pile::default() };
        results.piles.insert((System::Btrfs, Level::V4), refused);
        let row = claim(&results);
        assert_eq!(row.verdict, Verdict::NotComparable);
        assert_eq!(row.linux.to_string(), "damage at: V4; none at: V0, V1, V2, V3, V5");
    }

    /// Every published number is where its source says. Needs the texts in `ERASEBLOCK_SEEDS`.
    #[test]
    fn published_words_are_in_the_texts() {
        let rows = Results::default().rows();
        assert_eq!(rows.len(), PUBLISHED.len());
        crate::evaluate::rows::check_sources(&rows);
    }
}
