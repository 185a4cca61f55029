//! Power cuts on block file systems of Linux, and on UBIFS on our flash on a disk: the tables F3 and F4.
//!
//! A workload is recorded once; every state that a power cut can leave is built from the recording,
//! mounted and judged. A ladder of levels says how bad the disk is.

mod guest;
mod image;
mod recording;
mod script;
mod served;
mod state;
mod variant;
mod verdict;

use super::disk::System;
use super::kept::Trust;
use super::lab::Lab;
use crate::command::repository;
use crate::oracle::Checks;
use anyhow::{Context, Result, bail, ensure};
use eraseblock_card::presets;
use guest::{Judged, Recorded, judge_states, record};
use recording::{Event, Recording};
use serde::{Deserialize, Serialize};
use state::{Builder, Cut, Level, Units, cuts, sample};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use variant::{PLANTED, Variant};
use verdict::{Finding, Harm};

/// The card whose units the levels V4 and V5 damage, scaled as in the tables L.
const PRESET: &str = "emmc-cache";
const SCALE: u32 = 8;
/// Marks of the workload.
const MARKS: u32 = 48;
/// States of each file system and level.
const STATES: usize = 300;
const QUICK_STATES: usize = 24;
/// Recordings with violations, for `--replay`.
const FOLDER: &str = "target/evaluate/cuts";
/// Violations that are printed of a campaign.
const PRINTED: usize = 6;

fn units() -> Result<Units> {
    let card = presets::find(PRESET)?.parameters;
    Ok(Units {
        unit: u64::from(card.unit / SCALE),
        page: card.page.into(),
        open: card.open_units as usize,
    })
}

/// The name of a state, from which alone it can be judged again.
fn id(variant: &Variant, level: Level, hash: &str, cut: Cut) -> String {
    format!("{}-{}-{hash}-{}-{}", variant.name, level.name(), cut.position, cut.choice)
}

#[derive(Debug)]
struct Options {
    systems: Vec<System>,
    levels: Vec<Level>,
    states: usize,
    trust: Trust,
    plants: bool,
    replay: Option<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            systems: System::BLOCK.to_vec(),
            levels: Level::ALL.to_vec(),
            states: STATES,
            trust: Trust::Kept,
            plants: false,
            replay: None,
        };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => options.states = QUICK_STATES,
                "--states" => options.states = value()?.parse()?,
                "--system" => {
                    options.systems = value()?.split(',').map(block_system).collect::<Result<_>>()?;
                }
                "--level" => {
                    options.levels = value()?.split(',').map(str::parse).collect::<Result<_>>()?;
                }
                "--fresh" => options.trust = Trust::Fresh,
                "--planted" => options.plants = true,
                "--replay" => options.replay = Some(value()?.clone()),
                other => bail!("unknown argument {other}"),
            }
        }
        Ok(options)
    }
}

fn block_system(name: &str) -> Result<System> {
    let system = super::disk::system(name)?;
    ensure!(System::BLOCK.contains(&system), "{name} is not a block file system");
    Ok(system)
}

/// What a campaign found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Outcome {
    recording: String,
    /// Judged states, no two of them equal.
    states: usize,
    /// States with a violation, by kind.
    harms: BTreeMap<Harm, usize>,
    violations: Vec<Violation>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Violation {
    id: String,
    findings: Vec<Finding>,
}

impl Outcome {
    fn new(variant: &Variant, level: Level, hash: &str, judged: &[Judged]) -> Self {
        let mut outcome =
            Self { recording: hash.to_owned(), states: judged.len(), ..Self::default() };
        for state in judged.iter().filter(|state| !state.findings.is_empty()) {
            for harm in Harm::ALL {
                if state.findings.iter().any(|finding| finding.harm == harm) {
                    *outcome.harms.entry(harm).or_default() += 1;
                }
            }
            let id = id(variant, level, hash, state.cut);
            outcome.violations.push(Violation { id, findings: state.findings.clone() });
        }
        outcome
    }

    /// Returns the kinds of damage and their counts.
    fn summary(&self) -> String {
        let kinds = self.harms.iter().map(|(harm, count)| format!("{}: {count}", harm.words()));
        kinds.collect::<Vec<_>>().join(", ")
    }

    fn print(&self, variant: &Variant, level: Level) {
        let Self { states, violations, .. } = self;
        println!(
            "{} {} ({}): {states} states, {} with violations{}{}",
            variant.name,
            level.name(),
            level.words(),
            violations.len(),
            if violations.is_empty() { "" } else { "; " },
            self.summary()
        );
        for violation in violations.iter().take(PRINTED) {
            println!("      {}", violation.id);
            for finding in violation.findings.iter().take(2) {
                println!("        {}: {}", finding.harm.words(), finding.detail);
            }
        }
    }
}

/// `cargo xtask evaluate cuts`.
pub(super) fn run(args: &[String]) -> Result<bool> {
    let options = Options::parse(args)?;
    let mut lab = Lab::new(std::env::current_exe()?, options.trust)?;
    if let Some(id) = &options.replay {
        return replay(&mut lab, id);
    }
    let mut checks = Checks::default();
    if options.plants {
        for variant in PLANTED {
            let found = campaign(&mut lab, &variant, Level::V1, options.states);
            checks.record(&format!("planted/{}", variant.name), found.and_then(must_be_found));
        }
        return Ok(checks.finish());
    }
    for system in &options.systems {
        for level in &options.levels {
            let Some(variant) = Variant::of(*system, *level) else { continue };
            let name = format!("cuts/{}/{}", variant.name, level.name());
            let outcome = campaign(&mut lab, &variant, *level, options.states).map(drop);
            checks.record(&name, outcome);
        }
    }
    Ok(checks.finish())
}

fn must_be_found(outcome: Outcome) -> Result<()> {
    let Outcome { states, violations, .. } = outcome;
    ensure!(!violations.is_empty(), "the fault was not found in {states} states");
    Ok(())
}

/// Records a variant and applies what is planted in its recording.
fn recorded(lab: &mut Lab, variant: &Variant) -> Result<Recorded> {
    let mut recorded = record(lab, variant, MARKS)?;
    if variant.loses_a_write {
        let mut recording = (*recorded.recording).clone();
        lose_a_write(&mut recording)?;
        recorded.recording = Arc::new(recording);
    }
    Ok(recorded)
}

/// Removes the first write before the flush that precedes the middle mark.
fn lose_a_write(recording: &mut Recording) -> Result<()> {
    let mark = recording.position_of(MARKS / 2)?;
    let flushes: Vec<usize> =
        (0..mark).filter(|at| recording.events[*at] == Event::Flush).rev().take(2).collect();
    let [end, begin] = flushes[..] else { bail!("the recording has no two flushes") };
    let is_write = |at: &usize| matches!(recording.events[*at], Event::Write { .. });
    let lost = (begin..end).find(is_write).context("nothing was written before the flush")?;
    recording.events.remove(lost);
    Ok(())
}

/// Judges states of a level, or takes the outcome of an earlier run.
fn campaign(lab: &mut Lab, variant: &Variant, level: Level, states: usize) -> Result<Outcome> {
    let recorded = recorded(lab, variant)?;
    let units = units()?;
    let hash = recorded.recording.id();
    let inputs = lab
        .inputs()?
        .with("scripts", guest::scripts())
        .with("recording", &hash)
        .with("level", level.name())
        .with("units", format!("{units:?}"))
        .with("states", states.to_string());
    let (guest, paths) = (&lab.guest, &lab.paths);
    let name = format!("cuts-{}-{}", variant.name, level.name());
    let part = lab.kept.part(&name, &inputs, |folder| {
        let from = recorded.recording.position_of(0)?;
        let chosen = sample(&cuts(&recorded.recording, level, from, units), states);
        let judged = judge_states(guest, paths, variant, &recorded, &chosen, units)?;
        let outcome = Outcome::new(variant, level, &hash, &judged);
        Ok(fs::write(folder.join("outcome.json"), serde_json::to_string_pretty(&outcome)?)?)
    })?;
    let text = fs::read_to_string(part.folder.join("outcome.json"))?;
    let outcome: Outcome = serde_json::from_str(&text)?;
    outcome.print(variant, level);
    if !outcome.violations.is_empty() {
        let folder = repository().join(FOLDER);
        fs::create_dir_all(&folder)?;
        recorded.recording.save(&saved(&hash))?;
    }
    Ok(outcome)
}

fn saved(hash: &str) -> PathBuf {
    repository().join(FOLDER).join(format!("{hash}.recording"))
}

/// Judges one state again by its id.
fn replay(lab: &mut Lab, id: &str) -> Result<bool> {
    let words: Vec<&str> = id.splitn(5, '-').collect();
    let [name, level, hash, position, choice] = words[..] else {
        bail!("{id} is not the id of a state (expected NAME-LEVEL-HASH-POSITION-CHOICE)");
    };
    let (variant, level) = (Variant::find(name)?, level.parse::<Level>()?);
    let cut = Cut { position: position.parse()?, choice: choice.parse()? };
    let recording = Recording::load(&saved(hash))?;
    ensure!(recording.id() == hash, "the recording of {id} has become another");
    let steps = script::workload(guest::SEED, MARKS);
    let recorded = Recorded { steps, recording: Arc::new(recording) };
    let image = Builder::new(Arc::clone(&recorded.recording), units()?).image(cut)?;
    println!("{id}: image {}", image.hash());
    let judged =
        judge_states(&lab.guest, &lab.paths, &variant, &recorded, &[cut], units()?)?;
    let outcome = Outcome::new(&variant, level, hash, &judged);
    outcome.print(&variant, level);
    Ok(outcome.violations.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_choose_systems_and_levels() {
        let parse = |text: &str| {
            Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let options = parse("--system ext4,btrfs --level V1 --states 20").unwrap();
        assert_eq!(options.systems, [System::Ext4, System::Btrfs]);
        assert_eq!((options.levels, options.states), (vec![Level::V1], 20));
        for wrong in ["--system ubifs", "--level V9", "--states x", "--levels", "--system"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_system_has_a_variant_for_every_level() {
        for system in System::BLOCK {
            for level in Level::ALL {
                let variant = Variant::of(system, level).unwrap();
                assert_eq!(variant.has_cache, level != Level::V0);
                assert_eq!(Variant::find(variant.name).unwrap(), variant);
            }
        }
    }
}
