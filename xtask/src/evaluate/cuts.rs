//! Power cuts on block file systems of Linux, and on UBIFS on our flash on a disk: the tables F3 and F4.
//!
//! A workload is recorded once; every state that a power cut can leave is built from the recording,
//! mounted and judged. A ladder of levels says how bad the disk is.

mod guest;
mod image;
mod ours;
mod pile;
mod recording;
mod results;
mod script;
mod served;
mod session;
mod state;
mod variant;
mod verdict;

pub(super) use results::Results;

use super::disk::System;
use super::kept::Trust;
use super::lab::Lab;
use super::whole::Extent;
use crate::command::repository;
use crate::oracle::Checks;
use anyhow::{Context, Result, bail, ensure};
use eraseblock_card::presets;
use guest::Judged;
use pile::Pile;
use recording::Recording;
use serde::{Deserialize, Serialize};
use session::{Job, Recorded, Session};
use state::{Builder, Cut, Level, Units};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use variant::{DiskFault, PLANTED, Variant};
use verdict::{Finding, Harm};

/// The card whose units the levels V4 and V5 damage, scaled as in the tables L.
const PRESET: &str = "emmc-cache";
const SCALE: u32 = 8;
/// The seed of the workload.
const SEED: u64 = 11;
/// Marks of the workload.
const MARKS: u32 = 48;
/// States of each file system and level.
const STATES: usize = 300;
const QUICK_STATES: usize = 24;
/// Recordings with violations, for `--replay`.
const FOLDER: &str = "target/evaluate/cuts";
/// Accumulating cuts, as published, and for a short run.
const PILE: u32 = 1000;
const QUICK_PILE: u32 = 100;
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

/// Returns how many states of a level are judged, and how many cuts accumulate.
const fn sizes(extent: Extent) -> (usize, u32) {
    match extent {
        Extent::Full => (STATES, PILE),
        Extent::Quick | Extent::NoGuest => (QUICK_STATES, QUICK_PILE),
    }
}

/// Returns everything that the figures depend on.
pub(super) fn parameters(extent: Extent) -> String {
    let (states, most) = sizes(extent);
    format!(
        "{states} states of {MARKS} marks, seed {SEED}, and {most} accumulating cuts a level; {PRESET}"
    )
}

/// The name of a state, from which alone it can be judged again.
fn id(name: &str, level: Level, hash: &str, cut: Cut) -> String {
    format!("{name}-{}-{hash}-{}-{}", level.name(), cut.position, cut.choice)
}

#[derive(Debug)]
struct Options {
    systems: Vec<System>,
    levels: Vec<Level>,
    /// UBIFS in process.
    ours: bool,
    /// States of UBIFS in process, which takes seconds.
    states_of_ours: usize,
    states: usize,
    pile: u32,
    trust: Trust,
    plants: bool,
    replay: Option<String>,
    writes_page: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            systems: System::BLOCK.to_vec(),
            levels: Level::ALL.to_vec(),
            ours: true,
            states_of_ours: STATES,
            states: STATES,
            pile: PILE,
            trust: Trust::Kept,
            plants: false,
            replay: None,
            writes_page: false,
        };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => (options.states, options.pile) = (QUICK_STATES, QUICK_PILE),
                "--pile" => options.pile = value()?.parse()?,
                "--states" => {
                    options.states = value()?.parse()?;
                    options.states_of_ours = options.states;
                }
                "--system" => {
                    let names = value()?;
                    options.ours = names.split(',').any(|name| name == ours::NAME);
                    let others = names.split(',').filter(|name| *name != ours::NAME);
                    options.systems = others.map(block_system).collect::<Result<_>>()?;
                }
                "--level" => {
                    options.levels = value()?.split(',').map(str::parse).collect::<Result<_>>()?;
                }
                "--fresh" => options.trust = Trust::Fresh,
                "--write" => options.writes_page = true,
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
    fn new(name: &str, level: Level, hash: &str, judged: &[Judged]) -> Self {
        let mut outcome =
            Self { recording: hash.to_owned(), states: judged.len(), ..Self::default() };
        for state in judged.iter().filter(|state| !state.findings.is_empty()) {
            for harm in Harm::ALL {
                if state.findings.iter().any(|finding| finding.harm == harm) {
                    *outcome.harms.entry(harm).or_default() += 1;
                }
            }
            let id = id(name, level, hash, state.cut);
            outcome.violations.push(Violation { id, findings: state.findings.clone() });
        }
        outcome
    }

    /// Adds the outcome of another recording.
    fn add(&mut self, other: Self) {
        self.recording = other.recording;
        self.states += other.states;
        for (harm, count) in other.harms {
            *self.harms.entry(harm).or_default() += count;
        }
        self.violations.extend(other.violations);
    }

    /// Returns the kinds of damage and their counts.
    fn summary(&self) -> String {
        let kinds = self.harms.iter().map(|(harm, count)| format!("{}: {count}", harm.words()));
        kinds.collect::<Vec<_>>().join(", ")
    }

    fn print(&self, name: &str, level: Level) {
        let Self { states, violations, .. } = self;
        println!(
            "{name} {} ({}): {states} states, {} with violations{}{}",
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
    let mut results = Results::default();
    let mut checks = Checks::default();
    if options.ours && !options.plants && options.replay.is_none() {
        results.measure(&options.levels, options.states_of_ours)?;
    }
    let needs_guest = !options.systems.is_empty() || options.replay.is_some() || options.plants;
    if needs_guest {
        let mut lab = Lab::new(std::env::current_exe()?, options.trust)?;
        if let Some(id) = &options.replay {
            return replay(&mut lab, id);
        }
        if options.plants {
            return plants(&mut lab, options.states, &mut checks).map(|()| checks.finish());
        }
        for system in options.systems {
            let extent = (options.levels.as_slice(), options.states, options.pile);
            results.ask_linux(&mut lab, system, extent, &mut checks);
        }
    }
    let rows = results.rows();
    print!("{}", super::rows::to_text(&rows, title));
    if options.writes_page {
        super::whole::update_page(&rows)?;
    }
    Ok(checks.finish())
}

/// Returns the title of a table.
pub(super) fn title(table: &str) -> &'static str {
    match table {
        "F3" => "power cuts on block file systems",
        "F4" => "space after accumulating power cuts",
        _ => "",
    }
}

/// Returns what a reader of a table must know.
pub(super) fn note(table: &str) -> String {
    match table {
        "F3" => format!(
            "Debian's kernel writes to a disk that records every command; any state that a power cut can leave is \
             built from the recording, mounted by the kernel, listed, compared with what fsync had reported, checked by \
             the file system's own tool (nilfs2 has none), written to and checked again. Equal states are judged once. The \
             levels say how bad the disk is and what it loses: {}. V0 is recorded on a disk without a cache, the others on one with a \
             cache, which the kernel flushes. V4 and V5 follow the allocation units of {PRESET}, scaled to 1/{SCALE}. \
             The published board and its card are lost, and so is their level: the claims are comparable only if all \
             levels agree. vfat has no journal and promises nothing about cuts. ours is UBIFS on our flash on such a disk.",
            Level::ALL
                .map(|level| format!("{}: {}", level.name(), level.words()))
                .join("; ")
        ),
        "F4" => "Files of 4 KiB are written and rewritten; after each round the power goes off somewhere in it, and the \
                 next round mounts the file system without a check, as published. A cell is what df shows after the last \
                 cut: blocks of 1 KiB in use and available, inodes in use, and entries that cannot be read."
            .to_owned(),
        _ => String::new(),
    }
}

/// Judges faults that are there: each must be found.
fn plants(lab: &mut Lab, states: usize, checks: &mut Checks) -> Result<()> {
    let jobs: Vec<Job> = PLANTED
        .iter()
        .filter(|variant| variant.name == variant.recorded_as)
        .map(|variant| Job::Record(*variant))
        .chain(Variant::find("ext4").map(Job::Record))
        .chain(PLANTED.map(|variant| Job::Sample(variant, Level::V1, states)))
        .collect();
    let campaign = measure(lab, System::Ext4, "planted", &jobs)?;
    for variant in PLANTED {
        let found = campaign.planted.get(variant.name);
        let outcome = found.context("no state was judged").and_then(|outcome| {
            let Outcome { states, violations, .. } = outcome;
            ensure!(!violations.is_empty(), "the fault was not found in {states} states");
            Ok(())
        });
        checks.record(&format!("planted/{}", variant.name), outcome);
    }
    Ok(())
}

/// What the guests of a file system found.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Campaign {
    outcomes: BTreeMap<Level, Outcome>,
    piles: BTreeMap<Level, Pile>,
    /// By the name of the variant with a fault.
    planted: BTreeMap<String, Outcome>,
}

/// Judges states of all levels and lets cuts accumulate, or takes the outcome of an earlier run.
fn campaign(
    lab: &mut Lab,
    system: System,
    (levels, states, most): results::Extent<'_>,
) -> Result<Campaign> {
    let variants: Vec<(Level, Variant)> =
        levels.iter().filter_map(|level| Some((*level, Variant::of(system, *level)?))).collect();
    let mut jobs: Vec<Job> = Vec::new();
    for (_, variant) in &variants {
        let is_known = |job: &Job| matches!(job, Job::Record(known) if known == variant);
        if !jobs.iter().any(is_known) {
            jobs.push(Job::Record(*variant));
        }
    }
    jobs.extend(variants.iter().map(|(level, variant)| Job::Sample(*variant, *level, states)));
    if most > 0 {
        jobs.extend(variants.iter().map(|(level, variant)| Job::Pile(*variant, *level, most)));
    }
    measure(lab, system, "levels", &jobs)
}

/// Does jobs in guests of a file system, or takes the outcome of an earlier run.
fn measure(lab: &mut Lab, system: System, what: &str, jobs: &[Job]) -> Result<Campaign> {
    let (units, steps) = (units()?, script::workload(SEED, MARKS));
    let mut inputs = lab
        .inputs()?
        .with("script", guest::SCRIPT)
        .with("workload", script::to_text(&steps))
        .with("rounds", format!("{:?}", pile::scripts().collect::<Vec<_>>()))
        .with("jobs", format!("{jobs:?}"))
        .with("units", format!("{units:?}"))
        .with("bytes", Variant::size(system).to_string());
    for tool in guest::tools(system)? {
        inputs = inputs.with_file("tool", &tool)?;
    }
    let (guest, paths) = (&lab.guest, &lab.paths);
    let name = format!("cuts-{what}-{}", system.script_name());
    let part = lab.kept.part(&name, &inputs, |folder| {
        let size = Variant::size(system);
        let mut session = Session::new(size, units, steps.clone(), jobs.to_vec());
        let found = guest::run(guest, paths, system, size, &steps, &mut session)?;
        let campaign = sorted(found, &session)?;
        Ok(fs::write(folder.join("campaign.json"), serde_json::to_string_pretty(&campaign)?)?)
    })?;
    let text = fs::read_to_string(part.folder.join("campaign.json"))?;
    let campaign: Campaign = serde_json::from_str(&text)?;
    for (level, outcome) in &campaign.outcomes {
        outcome.print(system.script_name(), *level);
    }
    for (name, outcome) in &campaign.planted {
        outcome.print(name, Level::V1);
    }
    Ok(campaign)
}

/// Sorts what was found by level; recordings with violations are saved.
fn sorted(found: guest::Found, session: &Session) -> Result<Campaign> {
    let mut states: BTreeMap<(&str, Level), Vec<Judged>> = BTreeMap::new();
    for (given, findings) in found.judged {
        let of = states.entry((given.variant.name, given.level)).or_default();
        of.push(Judged { cut: given.cut, findings });
    }
    let mut campaign = Campaign::default();
    for ((name, level), judged) in states {
        let variant = Variant::find(name)?;
        let recording = variant.of_recordings(&session.recordings).context("no recording")?;
        let outcome = Outcome::new(name, level, &recording.id(), &judged);
        if !outcome.violations.is_empty() {
            fs::create_dir_all(repository().join(FOLDER))?;
            recording.save(&saved(&outcome.recording))?;
        }
        if PLANTED.contains(&variant) {
            campaign.planted.insert(name.to_owned(), outcome);
        } else {
            campaign.outcomes.insert(level, outcome);
        }
    }
    campaign.piles = found.piles.into_iter().map(|(_, level, pile)| (level, pile)).collect();
    Ok(campaign)
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
    let level: Level = level.parse()?;
    let cut = Cut { position: position.parse()?, choice: choice.parse()? };
    if name == ours::NAME {
        return results::replay_ours(id, level, hash, cut);
    }
    let mut variant = Variant::find(name)?;
    let recording = Recording::load(&saved(hash))?;
    ensure!(recording.id() == hash, "the recording of {id} has become another");
    // The saved recording has the fault of the disk already.
    variant.disk = DiskFault::None;
    variant.recorded_as = variant.name;
    let (units, steps) = (units()?, script::workload(SEED, MARKS));
    let recording = Arc::new(recording);
    let image = Builder::new(Arc::clone(&recording), units).image(cut)?;
    println!("{id}: image {}", image.hash());
    let jobs = vec![Job::Judge(variant, level, vec![cut])];
    let size = Variant::size(variant.system);
    let mut session = Session::new(size, units, steps.clone(), jobs);
    session.recordings.insert(variant.name, Recorded { steps: steps.clone(), recording });
    let found = guest::run(&lab.guest, &lab.paths, variant.system, size, &steps, &mut session)?;
    let judged: Vec<Judged> = found
        .judged
        .into_iter()
        .map(|(given, findings)| Judged { cut: given.cut, findings })
        .collect();
    let outcome = Outcome::new(variant.name, level, hash, &judged);
    outcome.print(variant.name, level);
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
        for wrong in ["--system ubifs-nc", "--level V9", "--states x", "--levels", "--system"] {
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
