//! Cuts that accumulate: the published experiment. Each round writes files of 4 KiB, the power goes off
//! somewhere in it, and the next round goes on without a check.

use super::guest::{job, run};
use super::image::Image;
use super::recording::Recording;
use super::served::{Conductor, Machine, Recorder};
use super::state::{Builder, Level, Units, cuts};
use super::variant::Variant;
use crate::guest::Guest;
use crate::oracle::Paths;
use anyhow::{Context, Result, bail};
use eraseblock_base::random::SplitMix64;
use eraseblock_vfs_testkit::scripted::Step;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::sync::Arc;

pub(super) const SCRIPT: &str = include_str!("../../../guest/cuts-pile.sh");
/// Scripts of the rounds, and the files that each writes.
const SCRIPTS: u32 = 8;
const FILES: u32 = 12;
/// Bytes of a file, as published.
const LEN: usize = 4096;
/// Every so many files are made durable.
const SYNCED: u32 = 4;

/// Space and inodes after so many cuts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) cuts: u32,
    /// 1 KiB blocks: all, used, available.
    pub(super) blocks: [u64; 3],
    /// Inodes in use.
    pub(super) inodes: u64,
    /// Entries that cannot be read.
    pub(super) unreadable: u64,
}

/// How a pile of cuts ended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Pile {
    pub(super) standings: Vec<Standing>,
    /// Cuts after which the file system was no longer mounted.
    pub(super) refused: Option<u32>,
    /// The first round that could not write, and why.
    pub(super) failed: Option<String>,
}

impl Pile {
    /// Returns whether something abnormal happened.
    pub(super) fn is_harmed(&self) -> bool {
        let is_broken = |standing: &Standing| standing.unreadable > 0 || standing.blocks[2] == 0;
        self.refused.is_some() || self.failed.is_some() || self.standings.iter().any(is_broken)
    }

    /// Returns what df showed last, and how it ended.
    pub(super) fn words(&self) -> String {
        let mut words = Vec::new();
        if let Some(last) = self.standings.last() {
            let [all, used, available] = last.blocks;
            words.push(format!(
                "{used} used, {available} available of {all}; {} inodes; {} unreadable",
                last.inodes, last.unreadable
            ));
        }
        words.extend(self.refused.map(|cuts| format!("not mounted after {cuts} cuts")));
        words.extend(self.failed.as_ref().map(|why| format!("a write failed after cut {why}")));
        words.join("; ")
    }
}

/// Returns the files of a round.
fn round(number: u32) -> Vec<Step> {
    let mut steps = Vec::new();
    for file in 0..FILES {
        let name = format!("f{}", number * FILES + file);
        steps.push(Step::Write(name.clone(), number * FILES + file + 1, LEN));
        if file % SYNCED == SYNCED - 1 {
            steps.push(Step::Sync(name));
        }
    }
    steps
}

/// Cuts the power in what was written since the last request.
struct Cutter {
    level: Level,
    units: Units,
    chance: SplitMix64,
    done: u32,
    most: u32,
}

impl Conductor for Cutter {
    fn next(&mut self, disk: &mut Recording) -> io::Result<String> {
        // The first request follows the making of the file system, which is whole.
        let is_cut = self.done > 0 && !disk.events.is_empty();
        let all = if is_cut { cuts(disk, self.level, 1, self.units) } else { Vec::new() };
        let cut = (!all.is_empty()).then(|| all[self.chance.index(all.len())]);
        let recording = std::mem::replace(disk, Recording::new(Image::new(0)));
        let builder = Builder::new(Arc::new(recording), self.units);
        let image = cut.map_or_else(|| Ok(builder.whole()), |cut| builder.image(cut));
        disk.base = image.map_err(io::Error::other)?;
        let reply = if self.done == self.most { "end".to_owned() } else { self.done.to_string() };
        self.done += 1;
        Ok(reply)
    }
}

/// Runs so many rounds in a guest.
pub(super) fn pile(
    guest: &Guest,
    paths: &Paths,
    variant: &Variant,
    level: Level,
    units: Units,
    most: u32,
) -> Result<Pile> {
    let name = format!("cuts-pile-{}", variant.name);
    let script = format!("SCRIPTS={SCRIPTS}\n{SCRIPT}");
    let job = job(guest, paths, variant, &name, &script)?;
    for number in 0..SCRIPTS {
        job.write(&format!("script-{number}"), super::script::to_text(&round(number)))?;
    }
    let cutter =
        Cutter { level, units, chance: SplitMix64::new(7), done: 0, most: most + 1 };
    let machine =
        Machine::new(Image::new(variant.size()), Recorder::On, Some(Box::new(cutter)));
    let report = run(guest, &job, &machine, variant.has_cache)?;
    let read = |name: &str| fs::read_to_string(job.path().join("results").join(name)).ok();
    let mut pile = parse(&read("pile").unwrap_or_default())?;
    pile.failed = read("failed").map(|text| text.trim().replace('\n', ": "));
    if let (Some(reason), None) = (report.failure(), pile.refused) {
        if pile.standings.is_empty() {
            bail!("{}: {reason}", variant.name);
        }
        pile.failed = Some(reason.lines().next().unwrap_or_default().to_owned());
    }
    fs::remove_dir_all(job.path())?;
    Ok(pile)
}

/// Reads what the guest's script reports.
fn parse(text: &str) -> Result<Pile> {
    let mut pile = Pile::default();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(cuts) = line.strip_prefix("refused ") {
            pile.refused = Some(cuts.parse()?);
            continue;
        }
        let cuts = line.strip_prefix("cuts ").with_context(|| format!("no report: {line}"))?;
        let mut next = || lines.next().with_context(|| format!("the report of {cuts} cuts ends"));
        let (space, inodes, unreadable) = (next()?, next()?, next()?);
        let number = |line: &str, word: usize| -> Option<u64> {
            line.split_whitespace().nth(word)?.parse().ok()
        };
        let block = |word| number(space, word).with_context(|| space.to_owned());
        pile.standings.push(Standing {
            cuts: cuts.parse()?,
            blocks: [block(1)?, block(2)?, block(3)?],
            // Some file systems have no table of inodes and report 0, or nothing.
            inodes: number(inodes, 2).unwrap_or(0),
            unreadable: unreadable.trim().parse()?,
        });
    }
    Ok(pile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_space_are_read() {
        let text = "cuts 0\n/dev/vda 118 2 107 2% /mnt\n/dev/vda 32768 12 32756 0% /mnt\n0\n\
                    cuts 100\n/dev/vda 118 9 100 8% /mnt\n/dev/vda 32768 90 1 0% /mnt\n3\nrefused 140\n";
        let pile = parse(text).unwrap();
        assert_eq!((pile.standings.len(), pile.refused), (2, Some(140)));
        let last = &pile.standings[1];
        assert_eq!((last.blocks, last.inodes, last.unreadable), ([118, 9, 100], 90, 3));
        assert!(parse("cuts 0\n/dev/vda 118 2 107 2% /mnt\n").is_err());
    }

    #[test]
    fn every_round_after_the_first_request_is_cut() {
        let units = Units { unit: 1 << 20, page: 16 << 10, open: 5 };
        let chance = SplitMix64::new(1);
        let mut cutter = Cutter { level: Level::V1, units, chance, done: 0, most: 2 };
        let mut disk = Recording::new(Image::new(1 << 20));
        let write = |byte: u8| super::super::recording::Event::Write {
            offset: 0,
            data: vec![byte; 512].into(),
            through: false,
        };
        disk.events.push(write(1));
        assert_eq!(cutter.next(&mut disk).unwrap(), "0");
        assert!(disk.events.is_empty());
        let mut sector = [0; 512];
        disk.base.read(0, &mut sector).unwrap();
        assert_eq!(sector[0], 1, "nothing is lost before the first round");
        disk.events.push(write(2));
        assert_eq!(cutter.next(&mut disk).unwrap(), "1");
        assert_eq!(cutter.next(&mut disk).unwrap(), "end");
    }
}
