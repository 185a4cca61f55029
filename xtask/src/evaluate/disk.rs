//! Block file systems of Linux, and UBIFS, on a simulated card: the tables L1 to L3 of the text 002.
//!
//! # Invariants
//! 1. Times are the card's, from the log of its requests; those of the emulated processor are not in
//!    them. The same log gives the same times.
//! 2. The tree and the allocation unit of the card are scaled together: as many units hold a tree as in the
//!    published runs.

mod claims;
pub(super) mod guest;
mod log;
mod process;

use super::kept::Trust;
use super::lab::Lab;
use super::nand::noise;
use super::rows::{Cell, Fidelity, Row, Verdict};
use super::whole::Extent;
use crate::bench::ubifs_rw::Entry;
use crate::oracle::{Checks, our_command};
use Quantity::{Du, Read, ReadLarge, Remove, SlowestRemove, Write, WriteLarge};
use anyhow::{Context, Result, bail};
use claims::CLAIMS;
use eraseblock_base::random::SplitMix64;
use eraseblock_card::{Parameters, presets};
use eraseblock_ubifs_format::Compression;
use log::{Log, Steps};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The unit of the card and the tree are this much smaller than the published ones.
const SCALE: u32 = 8;
const PRESET: &str = "sd-2012-c10";
const CAPACITY: u64 = 384 << 20;
/// Bytes of a published tree, and of the published large files.
const TREE: f64 = 500e6;
const LARGE: f64 = 6e9;
/// Bytes of each large file.
const LARGE_BYTES: usize = 96 << 20;
const LARGE_FILES: [&str; 2] = ["one", "other"];
/// Files of the tree, in directories of [`PER_DIR`]. A file has 2^8 to 2^16 bytes.
const FILES: u64 = 5120;
const PER_DIR: u64 = 16;
const SMALLEST: u64 = 8;
const DOUBLINGS: u64 = 8;
const MEDIUM: &str = "sd-2012-c10";
const TABLES: [&str; 3] = ["L1", "L2", "L3"];
/// Eraseblocks of the flash: as usual, and the largest for UBIFS, scaled.
const PEB_SIZES: [u32; 2] = [128 << 10, 256 << 10];

/// A file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum System {
    Ubifs,
    UbifsNc,
    F2fs,
    Nilfs2,
    Ext4,
    Btrfs,
    Xfs,
    Vfat,
}

impl System {
    /// Those of the published tables, in their order.
    const PUBLISHED: [Self; 6] =
        [Self::Ubifs, Self::UbifsNc, Self::F2fs, Self::Nilfs2, Self::Ext4, Self::Btrfs];
    pub(super) const ALL: [Self; 8] = [
        Self::Ubifs,
        Self::UbifsNc,
        Self::F2fs,
        Self::Nilfs2,
        Self::Ext4,
        Self::Btrfs,
        Self::Xfs,
        Self::Vfat,
    ];

    /// Those that Linux has on block devices.
    pub(super) const BLOCK: [Self; 6] =
        [Self::Ext4, Self::Btrfs, Self::F2fs, Self::Nilfs2, Self::Xfs, Self::Vfat];

    const fn name(self) -> &'static str {
        match self {
            Self::Ubifs => "ubifs",
            Self::UbifsNc => "ubifs without compression",
            Self::F2fs => "f2fs",
            Self::Nilfs2 => "nilfs2",
            Self::Ext4 => "ext4",
            Self::Btrfs => "btrfs",
            Self::Xfs => "xfs",
            Self::Vfat => "vfat",
        }
    }

    /// Returns the compression in process; `None` for file systems that this repository does not have.
    const fn compression(self) -> Option<Compression> {
        match self {
            Self::Ubifs => Some(Compression::Lzo),
            Self::UbifsNc => Some(Compression::None),
            _ => None,
        }
    }
}

/// What is measured of a system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Quantity {
    Write,
    Read,
    Du,
    Remove,
    SlowestRemove,
    WriteLarge,
    ReadLarge,
}

impl Quantity {
    const ALL: [Self; 7] = [Write, Read, Du, Remove, SlowestRemove, WriteLarge, ReadLarge];

    /// Returns the position of its table.
    const fn table(self) -> usize {
        match self {
            Write | Read | Du | Remove => 0,
            SlowestRemove => 1,
            WriteLarge | ReadLarge => 2,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Write => "write a tree",
            Read => "read a tree",
            Du => "du of a tree",
            Remove => "rm -r of a tree",
            SlowestRemove => "slowest rm -r of a tree",
            WriteLarge => "write large files",
            ReadLarge => "read large files",
        }
    }

    /// Returns the published seconds.
    fn published(self, system: System) -> Option<f64> {
        let column = System::PUBLISHED.iter().position(|one| *one == system)?;
        let row = match self {
            Write => [72.4, 139.9, 118.4, 140.0, 135.5, 93.6],
            Read => [72.5, 129.6, 175.7, 95.6, 108.8, 121.0],
            Du => [9.9, 8.7, 48.6, 4.4, 4.4, 13.8],
            Remove => [0.48, 0.45, 0.36, 11.0, 4.9, 33.6],
            SlowestRemove => match system {
                System::Ext4 => return Some(32.4),
                System::Btrfs => return Some(137.8),
                _ => return None,
            },
            WriteLarge => [850.0, 876.0, 838.0, 1522.0, 696.0, 863.0],
            ReadLarge => [1684.0, 1539.0, 571.0, 574.0, 571.0, 613.0],
        };
        row.get(column).copied()
    }

    const fn source(self) -> &'static str {
        match self {
            Write => "002:125 \"Write kernel\"",
            Read => "002:126 \"Read kernel\"",
            Du => "002:127 \"du -s\"",
            Remove => "002:128 \"rm -r\"",
            SlowestRemove => "002:138 \"the slowest\"",
            WriteLarge => "002:149 \"write files\"",
            ReadLarge => "002:150 \"read files\"",
        }
    }
}

/// Seconds of the card, scaled to the published amounts: without and with the sync that follows.
type Values = BTreeMap<(System, Quantity), [f64; 2]>;

/// Returns the card of the runs.
fn card_parameters() -> Result<Parameters> {
    let parameters = presets::find(PRESET)?.parameters.with_capacity(CAPACITY);
    let unit = parameters.unit / SCALE;
    Ok(parameters.with_unit(unit))
}

/// Cards with other parameters, which must not change an order.
fn other_cards(card: &Parameters) -> Vec<(&'static str, Parameters)> {
    let with = |change: &dyn Fn(&mut Parameters)| {
        let mut other = card.clone();
        change(&mut other);
        other
    };
    vec![
        ("3 open units", with(&|card| card.open_units = 3)),
        ("8 open units", with(&|card| card.open_units = 8)),
        ("free parts of pages", with(&|card| card.partial_page_ns = 0)),
        ("parts of pages at 10 ms", with(&|card| card.partial_page_ns = 10_000_000)),
    ]
}

/// Returns the tree of small files, below a directory of that name if there is one.
fn small_files(root: Option<&str>) -> Vec<Entry> {
    let (mut sizes, mut chance) = (SplitMix64::new(3), SplitMix64::new(4));
    let mut entries: Vec<Entry> =
        root.into_iter().map(|name| Entry::Dir(name.as_bytes().to_vec())).collect();
    for number in 0..FILES {
        if number % PER_DIR == 0 {
            entries.extend((number > 0).then_some(Entry::End));
            entries.push(Entry::Dir(format!("dir{}", number / PER_DIR).into_bytes()));
        }
        let half = 1 << (SMALLEST + sizes.below(DOUBLINGS));
        let len = usize::try_from(half + sizes.below(half)).unwrap_or(0);
        let content = super::nand::text(&mut chance, len);
        entries.push(Entry::File(format!("file{number}").into_bytes(), content));
    }
    entries.push(Entry::End);
    entries.extend(root.map(|_| Entry::End));
    entries
}

fn large_file() -> Vec<u8> {
    noise(&mut SplitMix64::new(5), LARGE_BYTES)
}

/// Returns the number of trees that lie side by side.
const fn trees(extent: Extent) -> u32 {
    match extent {
        Extent::Full => 3,
        Extent::Quick | Extent::NoGuest => 1,
    }
}

/// Returns everything that the figures depend on.
pub(super) fn parameters(extent: Extent) -> String {
    format!(
        "{MEDIUM}, units of 1/{SCALE}, {CAPACITY} bytes; {} trees of {FILES} files, seeds 3 and 4; 2 files of {LARGE_BYTES} \
         bytes, seed 5",
        trees(extent)
    )
}

#[allow(clippy::cast_precision_loss)] // virtual seconds
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Returns seconds with three digits that count.
fn rounded(seconds: f64) -> f64 {
    let unit = if seconds >= 100.0 {
        1.0
    } else if seconds >= 10.0 {
        10.0
    } else {
        100.0
    };
    (seconds * unit).round() / unit
}

/// Returns the quantities of a run: `bytes` is the size of a tree.
fn quantities(steps: &Steps, trees: u32, bytes: f64) -> Vec<(Quantity, [f64; 2])> {
    let time = |name: &str| steps.get(name).map_or(0.0, |cost| seconds(cost.nanoseconds));
    let each = |name: &str| (1..=trees).map(|tree| time(&format!("{name}-{tree}"))).sum::<f64>();
    let most = |names: &[&str]| {
        let one = |tree| names.iter().map(|name| time(&format!("{name}-{tree}"))).sum::<f64>();
        (1..=trees).map(one).fold(0.0, f64::max)
    };
    let mean = f64::from(trees);
    let (tree, large) = (TREE / bytes, LARGE / (2.0 * bytes_of_large()));
    let both = |one: f64, sync: f64, scale: f64| [one * scale, (one + sync) * scale];
    vec![
        (Write, both(each("write") / mean, time("write-sync") / mean, tree)),
        (Read, both(each("read") / mean, 0.0, tree)),
        (Du, both(each("du") / mean, 0.0, tree)),
        (Remove, both(each("rm") / mean, each("rm-sync") / mean, tree)),
        (SlowestRemove, [most(&["rm"]) * tree, most(&["rm", "rm-sync"]) * tree]),
        (WriteLarge, both(time("large-write"), time("large-sync"), large)),
        (ReadLarge, both(time("large-read"), 0.0, large)),
    ]
}

#[allow(clippy::cast_precision_loss)] // 96 MiB
const fn bytes_of_large() -> f64 {
    LARGE_BYTES as f64
}

#[allow(clippy::cast_precision_loss)] // less than a gigabyte
fn bytes_of_tree() -> f64 {
    small_files(None).iter().map(Entry::len).sum::<usize>() as f64
}

/// Returns the system of that name.
pub(super) fn system(name: &str) -> Result<System> {
    let found = System::ALL.into_iter().find(|system| system.script_name() == name);
    found.with_context(|| format!("no system {name}"))
}

/// `cargo xtask evaluate disk`: prints the tables L.
pub(super) fn run(args: &[String]) -> Result<bool> {
    let (mut extent, mut ours, mut systems) = (Extent::Full, None, System::ALL.to_vec());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--quick" => extent = Extent::Quick,
            "--system" => {
                let names = rest.next().context("--system needs a value")?;
                systems = names.split(',').map(system).collect::<Result<_>>()?;
            }
            "--no-guest" => extent = Extent::NoGuest,
            "--bin" => ours = Some(PathBuf::from(rest.next().context("--bin needs a value")?)),
            other => bail!("unknown argument {other}"),
        }
    }
    let mut checks = Checks::default();
    let mut results = Results::default();
    if extent != Extent::NoGuest {
        let mut lab = Lab::new(our_command(ours.as_deref(), &["disk".to_owned()])?, Trust::Kept)?;
        results.ask_linux(&mut lab, extent, &systems, &mut checks)?;
    }
    results.measure(extent)?;
    print!("{}", super::rows::to_text(&results.rows(), title));
    Ok(checks.finish())
}

/// Everything measured.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// Trees side by side.
    trees: u32,
    /// In process, by size of the eraseblocks.
    ours: BTreeMap<u32, Values>,
    linux: Values,
    /// Linux on cards with other parameters.
    others: Vec<(&'static str, Values)>,
}

impl Results {
    /// Measures UBIFS in process.
    pub(super) fn measure(&mut self, extent: Extent) -> Result<()> {
        self.trees = trees(extent);
        let (large, bytes) = (large_file(), bytes_of_tree());
        for peb_size in PEB_SIZES {
            let values = self.ours.entry(peb_size).or_default();
            for system in System::ALL {
                let Some(compression) = system.compression() else { continue };
                let steps = process::measure(peb_size, compression, trees(extent), &large)?;
                put(values, system, &steps, trees(extent), bytes);
            }
        }
        Ok(())
    }

    /// Measures systems in Linux, or takes the logs that they left.
    pub(super) fn ask_linux(
        &mut self,
        lab: &mut Lab,
        extent: Extent,
        systems: &[System],
        checks: &mut Checks,
    ) -> Result<()> {
        let (card, bytes) = (card_parameters()?, bytes_of_tree());
        let work = tempfile::tempdir()?;
        let files = guest::Files::write(work.path())?;
        let others = other_cards(&card);
        self.others = others.iter().map(|(name, _)| (*name, Values::new())).collect();
        for system in systems.iter().copied() {
            let measured = guest::measure(lab, system, trees(extent), &files, &card);
            let outcome = measured.and_then(|log: Log| {
                put(&mut self.linux, system, &log.replay_same(&card)?, trees(extent), bytes);
                for ((_, other), (_, values)) in others.iter().zip(&mut self.others) {
                    put(values, system, &log.replay(other)?, trees(extent), bytes);
                }
                Ok(())
            });
            checks.record(&format!("disk/{}", system.name()), outcome);
        }
        Ok(())
    }

    /// Returns the rows of all tables.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (number, table) in TABLES.iter().enumerate() {
            let of_table = Quantity::ALL.into_iter().filter(|one| one.table() == number);
            for quantity in of_table {
                rows.extend(self.rows_of(table, quantity));
            }
            let claims = CLAIMS.iter().filter(|claim| claim.table() == *table);
            rows.extend(claims.map(|claim| claim.row(&self.linux, &self.others)));
        }
        rows
    }

    fn rows_of(&self, table: &str, quantity: Quantity) -> Vec<Row> {
        let mut rows = Vec::new();
        for system in System::ALL {
            let published = match quantity.published(system) {
                Some(seconds) => Cell::Number(seconds),
                None => Cell::text("not published"),
            };
            let row = |medium: &str| {
                Row::new(table, quantity.words(), "card time, scaled", "s")
                    .on(system.name(), format!("{medium}trees: {}", self.trees))
                    .published(published.clone(), quantity.source())
                    .judged(Verdict::NotComparable)
            };
            let linux = self.linux.get(&(system, quantity)).map_or_else(Cell::not_run, cell);
            if system.compression().is_none() || self.ours.is_empty() {
                let row = row("").linux(linux);
                rows.push(row.ours("no part of this repository", Fidelity::Order));
                continue;
            }
            for (peb_size, values) in &self.ours {
                let size = eraseblock_base::size::format_size((*peb_size).into());
                let Some(ours) = values.get(&(system, quantity)).map(cell) else { continue };
                let is_first = *peb_size == PEB_SIZES[0];
                let linux = if is_first { linux.clone() } else { Cell::not_run() };
                let row = row(&format!("eraseblocks of {size}, "));
                rows.push(row.linux(linux).ours(ours, Fidelity::Order));
            }
        }
        rows
    }
}

fn cell(range: &[f64; 2]) -> Cell {
    let [low, high] = range.map(rounded);
    if low < high { Cell::Range([low, high]) } else { Cell::Number(high) }
}

fn put(values: &mut Values, system: System, steps: &Steps, trees: u32, bytes: f64) {
    for (quantity, range) in quantities(steps, trees, bytes) {
        values.insert((system, quantity), range);
    }
}

/// Returns the title of a table.
pub(super) fn title(table: &str) -> &'static str {
    match table {
        "L1" => "trees of small files on a card",
        "L2" => "the slowest removal of a tree on a card",
        "L3" => "large files on a card",
        _ => "",
    }
}

/// Returns what a reader of a table must know.
pub(super) fn note(table: &str) -> String {
    if !TABLES.contains(&table) {
        return String::new();
    }
    format!(
        "The published runs used a card that is lost; {PRESET} is a plausible one of its class. The card and the \
         trees are scaled to 1/{SCALE}: units of 1 MiB instead of 8 MiB, and trees of {FILES} files. The times are those \
         of the card alone, without the processor, multiplied by the ratio to 500 MB (L3: 6 GB); of a range, \
         the higher end includes the sync that follows. So they are a lower bound of what a user waits, and \
         single figures are not comparable with the published ones; the claims judge their order in Linux. \
         ubifs in Linux lies on block2mtd without the published patch, so erasing writes and reads go page by page. Ours is \
         UBIFS on our flash on a block device, which writes each page by itself. nilfs2 runs without its \
         cleaner. The text unpacked ten trees side by side; the medium says how many here."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::card::ours::Cost;

    #[test]
    fn the_tree_has_the_size_of_the_scale() {
        let bytes = bytes_of_tree();
        let expected = TREE / f64::from(SCALE);
        assert!((bytes / expected - 1.0).abs() < 0.05, "{bytes} of {expected}");
    }

    #[test]
    fn quantities_are_means_and_maxima_of_the_trees() {
        let step =
            |name: &str, nanoseconds| (name.to_owned(), Cost { nanoseconds, ..Cost::default() });
        let second = 1_000_000_000;
        let steps = Steps::from([
            step("write-1", second),
            step("write-2", 3 * second),
            step("write-sync", 2 * second),
            step("rm-1", second),
            step("rm-sync-1", second),
            step("rm-2", 2 * second),
            step("rm-sync-2", 5 * second),
        ]);
        let found: BTreeMap<_, _> = quantities(&steps, 2, TREE).into_iter().collect();
        let expected = [(Write, [2.0, 3.0]), (Remove, [1.5, 4.5]), (SlowestRemove, [2.0, 7.0])];
        for (quantity, range) in expected {
            assert_eq!(cell(&found[&quantity]), Cell::Range(range), "{quantity:?}");
        }
    }

    /// Every published number is where its source says. Needs the texts in `ERASEBLOCK_SEEDS`.
    #[test]
    fn published_numbers_are_in_the_texts() {
        let rows = Results::default().rows();
        assert!(rows.iter().all(|row| !row.source.is_empty()));
        crate::evaluate::rows::check_sources(&rows);
    }

    #[test]
    fn without_a_guest_the_linux_column_says_so() {
        let rows = Results::default().rows();
        let claims = rows.iter().filter(|row| row.is_claim()).count();
        assert_eq!(claims, CLAIMS.len());
        let is_open = |row: &Row| row.verdict == Verdict::NotComparable;
        assert!(rows.iter().all(is_open));
    }
}
