//! Cuts that accumulate: the published experiment. Each round writes files of 4 KiB, the power goes off
//! somewhere in it, and the next round goes on without a check.

use super::image::Image;
use super::recording::Recording;
use super::script::to_text;
use super::state::{Builder, Level, Units, cuts};
use super::variant::Variant;
use anyhow::{Context, Result};
use eraseblock_base::random::SplitMix64;
use eraseblock_vfs_testkit::scripted::Step;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

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
    /// What the mount and the kernel said about that.
    #[serde(default)]
    pub(super) why: Option<String>,
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
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        words.extend(self.refused.map(|cuts| format!("not mounted after {cuts} cuts{why}")));
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

/// Returns the scripts of the rounds by the names of their files.
pub(super) fn scripts() -> impl Iterator<Item = (String, String)> {
    (0..SCRIPTS).map(|number| (format!("round-{number}"), to_text(&round(number))))
}

/// The rounds of a pile.
#[derive(Debug)]
pub(super) struct Rounds {
    pub(super) variant: Variant,
    level: Level,
    chance: SplitMix64,
    done: u32,
    most: u32,
}

impl Rounds {
    pub(super) const fn new(variant: Variant, level: Level, most: u32) -> Self {
        Self { variant, level, chance: SplitMix64::new(7), done: 0, most }
    }

    /// Cuts the power in what was written since the last cut. What precedes the first round is whole.
    pub(super) fn cut(&mut self, written: Recording, units: Units) -> io::Result<Image> {
        let all = if self.done > 0 && !written.events.is_empty() {
            cuts(&written, self.level, 1, units)
        } else {
            Vec::new()
        };
        let cut = (!all.is_empty()).then(|| all[self.chance.index(all.len())]);
        let builder = Builder::new(Arc::new(written), units);
        let image = cut.map_or_else(|| Ok(builder.whole()), |cut| builder.image(cut));
        image.map_err(io::Error::other)
    }

    /// Returns the command of the next round, with `SYSTEM` and `DISK` to be replaced; the last one
    /// reports what all cuts left.
    pub(super) fn next(&mut self) -> Option<String> {
        let number = self.done;
        self.done += 1;
        let name = file_name(&self.variant, self.level);
        (number <= self.most).then(|| format!("round SYSTEM DISK {name} {number}"))
    }
}

/// Returns the name of the file with the reports of a pile.
fn file_name(variant: &Variant, level: Level) -> String {
    format!("pile-{}-{}", variant.name, level.name())
}

/// Reads what the guest reported of a pile; `None` if it did not get to it.
pub(super) fn read(results: &Path, variant: &Variant, level: Level) -> Result<Option<Pile>> {
    let path = results.join(file_name(variant, level));
    let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
    let mut pile = parse(&text)?;
    let said =
        |what: &str| fs::read_to_string(path.with_file_name(file_name(variant, level) + what)).ok();
    pile.failed = said("-failed").map(|text| text.trim().replace('\n', ": "));
    pile.why = said("-refused").map(|text| reason(&text));
    Ok(Some(pile))
}

/// Returns the first line of the kernel that names a fault, without its time; or else what mount said.
fn reason(text: &str) -> String {
    let names = ["error", "invalid", "corrupt", "mismatch", "bad", "failed"];
    let mut kernel =
        text.lines().filter_map(|line| Some(line.strip_prefix('[')?.split_once("] ")?.1));
    let is_fault = |line: &&str| names.iter().any(|name| line.to_lowercase().contains(name));
    let line = kernel.find(is_fault).or_else(|| text.lines().next()).unwrap_or_default();
    line.trim().replace('|', "/")
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
    use super::super::recording::Event;
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
    fn the_kernel_says_why_a_mount_is_refused() {
        let mount = "mount: mounting /dev/vdc on /mnt failed: Bad message\n";
        let kernel = "[   13.997969] XFS (vdc): Mounting V5 Filesystem\n\
                      [   14.037504] XFS (vdc): Metadata CRC error detected at a | b\n\
                      [   14.038541] XFS (vdc): Unmount and run xfs_repair\n";
        let said = reason(&[mount, kernel].concat());
        assert_eq!(said, "XFS (vdc): Metadata CRC error detected at a / b");
        assert_eq!(reason(mount), mount.trim());
    }

    #[test]
    fn every_round_but_the_first_is_cut() {
        let units = Units { unit: 1 << 20, page: 16 << 10, open: 5 };
        let ext4 = Variant::find("ext4").unwrap();
        let written = || {
            let mut written = Recording::new(Image::new(1 << 20));
            let data: std::sync::Arc<[u8]> = vec![1; 1024].into();
            written.events = (0..4)
                .map(|at| Event::Write {
                    offset: at * 1024,
                    data: Arc::clone(&data),
                    through: false,
                })
                .collect();
            written
        };
        let whole = Builder::new(Arc::new(written()), units).whole().hash();
        let mut rounds = Rounds::new(ext4, Level::V1, 30);
        assert_eq!(rounds.cut(written(), units).unwrap().hash(), whole);
        assert_eq!(rounds.next().unwrap(), "round SYSTEM DISK pile-ext4-V1 0");
        let mut images = std::collections::HashSet::new();
        while rounds.next().is_some() {
            images.insert(rounds.cut(written(), units).unwrap().hash());
        }
        assert!(images.len() > 5, "{}", images.len());
    }
}
