//! The tables of the text 003: UBI and UBIFS on a partition of 32 MiB on a chip with pages of 512
//! bytes and sub-pages of 256.

use super::flash::{Flash, Ops, System};
use super::steps;
use super::tree::noise;
use crate::evaluate::rows::{Cell, Fidelity, Row, Verdict};
use anyhow::{Context, Result, ensure};
use eraseblock_base::random::SplitMix64;
use eraseblock_base::{Geometry, Leb, MediumKind, VolumeId};
use eraseblock_mtd::LebDevice;
use eraseblock_nandsim::ChipConfig;
use eraseblock_ubifs::{OpenOptions, Ubifs};
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::{Limits, Master, Superblock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const PEB: u32 = 16 << 10;
const PAGE: u32 = 512;
const SUBPAGE: u32 = 256;
const OOB: u32 = 16;
/// Blocks of the chip of 64 MiB, and of the partition of 32 MiB.
const CHIP_BLOCKS: u32 = 4096;
const BLOCKS: u32 = 2048;
/// Blocks reserved for bad ones: as published (`ubiattach -b 5`), and Linux's default today.
pub(super) const RESERVES: [(&str, u32); 2] = [("reserve 20", 20), ("reserve 80", 80)];
/// Bytes of an LEB; with other sub-pages no number of the tables is comparable.
const LEB: u32 = 15_872;
/// Bytes of a data node with 4096 bytes that cannot be compressed.
const FULL_NODE: u32 = 4144;
/// A megabyte of the published table.
const MEGABYTE: f64 = 1_024_000.0;

/// Pages of both copies of the volume table.
pub(super) const TABLE_PAGES: u64 = 2 * (LEB / PAGE) as u64;

/// File size, published MB, line.
pub(super) const SPACE: [(usize, f64, &str); 8] = [
    (1 << 20, 23.5, "003:192 \"23.5 (71.8)\""),
    (256 << 10, 23.5, "003:193 \"23.5 (71.8)\""),
    (64 << 10, 23.4, "003:194 \"23.4 (71.6)\""),
    (16 << 10, 23.2, "003:195 \"23.2 (70.9)\""),
    (4 << 10, 22.1, "003:196 \"22.1 (67.5)\""),
    (1 << 10, 18.9, "003:197 \"18.9 (57.8)\""),
    (512, 13.6, "003:198 \"13.6 (41.7)\""),
    (256, 8.6, "003:199 \"8.6 (26.3)\""),
];

/// The published times of booting, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Boot {
    /// Reading the bad-block markers of the whole chip.
    markers: f64,
    /// Attaching UBI to 2048, 1024 and 512 blocks.
    attach: [(u32, f64); 3],
}

const BOOT: Boot = Boot { markers: 428.0, attach: [(2048, 295.0), (1024, 181.0), (512, 123.0)] };

/// Returns an erased partition.
fn partition(blocks: u32, reserve: u32) -> Result<Flash> {
    partition_of(CHIP_BLOCKS, blocks, reserve)
}

/// Returns an erased partition on a chip of `chip_blocks` blocks.
fn partition_of(chip_blocks: u32, blocks: u32, reserve: u32) -> Result<Flash> {
    let geometry = Geometry::new(MediumKind::Nand, PEB, chip_blocks, PAGE, SUBPAGE, OOB)?;
    let flash = Flash::new(ChipConfig::of_geometry(geometry)?, blocks, reserve)?;
    check(&flash)?;
    Ok(flash)
}

/// Fails if the LEBs have another size than the published ones.
fn check(flash: &Flash) -> Result<()> {
    let found = flash.layout.leb_size();
    ensure!(found == LEB, "LEBs of {found} bytes, expected {LEB}: are sub-pages {SUBPAGE} bytes?");
    Ok(())
}

/// Returns the rows of a table.
pub(super) fn rows(table: &str) -> Result<Vec<Row>> {
    match table {
        "T1" => boot(&BOOT),
        "T2" => markers(),
        "T3" => headers(),
        "T4" => df(),
        "T5" => space(),
        "T6" | "T7" => blocks(table),
        "T8" => Ok(vec![not_run(
            table,
            "scrubbing on a preemptible kernel",
            "003:246 \"the scrubbing could be canceled\"",
            "it is a property of the kernel's scheduler",
        )]),
        "T9" => Ok(vec![not_run(
            table,
            "verified writes of sub-pages",
            "003:289 \"error -5\"",
            "Linux has no such option any more",
        )]),
        "T10" => Ok(vec![not_run(
            table,
            "read-only after an error",
            "003:364 \"UBIFS became read-only\"",
            "no errors are injected here",
        )]),
        _ => Ok(Vec::new()),
    }
}

fn not_run(table: &str, what: &str, source: &str, why: &str) -> Row {
    Row::new(table, what, "behaviour", "")
        .published(Cell::lost(), source)
        .ours(Cell::text(format!("not run: {why}")), Fidelity::None)
        .judged(Verdict::NotComparable)
}

/// Returns the cost of reading the markers of all blocks of the chip.
fn marker_ops() -> Result<Ops> {
    let flash = partition(BLOCKS, 0)?;
    flash.read_markers()?;
    Ok(flash.ops())
}

fn markers() -> Result<Vec<Row>> {
    let ops = marker_ops()?;
    let row = Row::new("T2", "bad-block table in memory", "OOB reads of 16 bytes", "")
        .on("driver", "64 MiB chip")
        .published(CHIP_BLOCKS, "003:102 \"Reading 1 OOB (16 Byte) per a EraseBlock\"")
        .ours(ops.reads, Fidelity::Exact);
    Ok(vec![row.within(0.0)])
}

/// Returns the cost of attaching UBI to a partition of this many blocks whose volume is full.
fn attach_ops(blocks: u32) -> Result<Ops> {
    let flash = partition(blocks, 20)?;
    let ubi = flash.attach_volume()?;
    let volume = ubi.volume(VolumeId::new(0))?;
    let data = vec![0x5A; PAGE as usize];
    (0..volume.leb_count()).try_for_each(|leb| volume.write(Leb::new(leb), 0, &data))?;
    drop(volume);
    ubi.flush()?;
    ubi.detach()?;
    let before = flash.ops();
    flash.attach()?;
    Ok(flash.ops() - before)
}

fn headers() -> Result<Vec<Row>> {
    let ops = attach_ops(BLOCKS)?;
    let row = |what, metric| Row::new("T3", what, metric, "").on("ubi", "32 MiB");
    Ok(vec![
        row("attach, headers of the blocks", "pages read")
            .published(BLOCKS, "003:121 \"Reading 1 page (512 Byte) per a EraseBlock\"")
            .ours(ops.reads - TABLE_PAGES, Fidelity::Exact)
            .within(0.0),
        row("attach, volume tables", "pages read").ours(TABLE_PAGES, Fidelity::Exact),
    ])
}

/// Returns what the board adds to an operation, in microseconds. The bad-block scan alone says it;
/// the time of the attach is then a prediction.
#[allow(clippy::cast_precision_loss)] // counts and times of one chip
fn board_cost(markers_ms: f64, ops: Ops) -> f64 {
    (markers_ms * 1000.0 - ops.ns as f64 / 1000.0) / ops.reads as f64
}

/// Returns what a block adds to the attach, in microseconds, from the costs for two sizes.
#[allow(clippy::cast_precision_loss)] // counts and times of one chip
fn predicted_slope(board_us: f64, large: (u32, Ops), small: (u32, Ops)) -> f64 {
    let ops = large.1 - small.1;
    let chip_us = ops.ns as f64 / 1000.0;
    (chip_us + ops.reads as f64 * board_us) / f64::from(large.0 - small.0)
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Returns megabytes of the published table, in thousandths.
#[allow(clippy::cast_precision_loss)] // bytes of a small chip
pub(super) fn megabytes(bytes: u64) -> f64 {
    (bytes as f64 / MEGABYTE * 1000.0).round() / 1000.0
}

/// Returns the name of a row of the table of writable space.
pub(super) fn space_row(size: usize, reserve: &str) -> String {
    format!("files of {}, {reserve}", eraseblock_base::size::format_size(size as u64))
}

/// The time that a block adds to the attach, predicted from the time of the bad-block scan.
fn boot(published: &Boot) -> Result<Vec<Row>> {
    let board = board_cost(published.markers, marker_ops()?);
    let costs: Vec<(u32, Ops)> = published
        .attach
        .iter()
        .map(|(blocks, _)| Ok((*blocks, attach_ops(*blocks)?)))
        .collect::<Result<_>>()?;
    let mut rows = vec![
        Row::new("T1", "board, each operation", "time added", "us")
            .on("driver", "64 MiB chip")
            .published(Cell::text("428 ms for 4096 reads"), "003:84 \"428 429 428\"")
            .ours(rounded(board), Fidelity::Model),
    ];
    let sources = ["003:85 \"295 181 123\""; 2];
    for (pair, source) in [(0, 1), (1, 2)].into_iter().zip(sources) {
        let (large, small) = (published.attach[pair.0], published.attach[pair.1]);
        let slope = (large.1 - small.1) * 1000.0 / f64::from(large.0 - small.0);
        let ours = predicted_slope(board, costs[pair.0], costs[pair.1]);
        let what = format!("attach, predicted, from {} to {} blocks", small.0, large.0);
        rows.push(
            Row::new("T1", &what, "time a block", "us")
                .on("ubi", "32 MiB")
                .published(rounded(slope), source)
                .ours(rounded(ours), Fidelity::Model)
                .within(0.2),
        );
    }
    Ok(rows)
}

fn df() -> Result<Vec<Row>> {
    let source = "003:145 \"22960 20 21468\"";
    let mut rows = Vec::new();
    for (name, reserve) in RESERVES {
        let flash = partition(BLOCKS, reserve)?;
        let mounted = flash.mount(System::Ubifs)?;
        let sizes = mounted.reader().stat_fs()?;
        let kibibytes = |blocks: u64| blocks * u64::from(sizes.block_size) / 1024;
        let values = [
            ("1k-blocks", 22_960_u32, kibibytes(sizes.blocks)),
            ("used", 20, kibibytes(sizes.blocks - sizes.blocks_free)),
            ("available", 21_468, kibibytes(sizes.blocks_available)),
        ];
        for (metric, published, ours) in values {
            let row = Row::new("T4", &format!("df, empty, {name}"), metric, "KiB")
                .on("ubifs", "32 MiB")
                .published(published, source)
                .ours(ours, Fidelity::Exact);
            let is_published = reserve == RESERVES[0].1;
            rows.push(if is_published {
                row.within(0.03)
            } else {
                row.judged(Verdict::NotComparable)
            });
        }
        mounted.end()?;
    }
    Ok(rows)
}

/// Fills a new partition with files of random bytes; returns their bytes and the partition.
fn filled(size: usize, reserve: u32) -> Result<(u64, Flash)> {
    let flash = partition(BLOCKS, reserve)?;
    let mounted = flash.mount(System::Ubifs)?;
    let mut chance = SplitMix64::new(size as u64);
    let fs = mounted.writer().context("mounted for reading only")?;
    let bytes = steps::fill_with(fs, size, |size| noise(&mut chance, size))?;
    mounted.end()?;
    Ok((bytes, flash))
}

fn space() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, reserve) in RESERVES {
        let bytes = std::thread::scope(|scope| {
            let halves: Vec<_> = [0, 1]
                .map(|half| {
                    scope.spawn(move || {
                        let sizes = SPACE.iter().skip(half).step_by(2);
                        sizes.map(|(size, ..)| Ok((*size, filled(*size, reserve)?.0))).collect()
                    })
                })
                .into_iter()
                .map(|thread| thread.join().expect("no panic in a measurement"))
                .collect();
            halves.into_iter().collect::<Result<Vec<Vec<(usize, u64)>>>>()
        })?;
        let bytes: BTreeMap<usize, u64> = bytes.into_iter().flatten().collect();
        for (size, published, source) in SPACE {
            let row = Row::new("T5", &space_row(size, name), "content", "MB")
                .on("ubifs", "32 MiB")
                .published(published, source)
                .ours(megabytes(bytes[&size]), Fidelity::Exact);
            let is_published = reserve == RESERVES[0].1;
            rows.push(if is_published {
                row.within(0.03)
            } else {
                row.judged(Verdict::NotComparable)
            });
        }
    }
    Ok(rows)
}

/// What is in a full file system.
#[derive(Debug)]
struct Census {
    superblock: Superblock,
    master: Master,
    /// How many LEBs with three full nodes have this many free, dirty and used bytes.
    typical: BTreeMap<[u32; 3], u32>,
}

fn census(flash: &Flash) -> Result<Census> {
    let ubi = flash.attach_volume()?;
    let volume = Arc::new(ubi.volume(VolumeId::new(0))?);
    let (fs, _) = Ubifs::open(volume.clone(), &OpenOptions { strict: true })?;
    let superblock = fs.superblock().clone();
    let master = fs.master().context("no master node")?.clone();
    let limits = Limits::of(&superblock);
    let first = superblock.leb_cnt - superblock.main_lebs();
    let mut typical = BTreeMap::new();
    let mut leb = vec![0; LEB as usize];
    for number in (first..superblock.leb_cnt).map(Leb::new) {
        if volume.is_mapped(number)? {
            volume.read(number, 0, &mut leb)?;
            if let Some(sizes) = three_full_nodes(number, &leb, limits) {
                *typical.entry(sizes).or_default() += 1;
            }
        }
    }
    Ok(Census { superblock, master, typical })
}

/// Returns the free, dirty and used bytes of an LEB that holds three full data nodes and nothing
/// else.
fn three_full_nodes(number: Leb, leb: &[u8], limits: Limits) -> Option<[u32; 3]> {
    let mut scanner = Scanner::new(number, leb, 0, limits);
    let sizes: Vec<u32> = scanner.by_ref().map(|(_, node)| node.header.len).collect();
    let used: u32 = sizes.iter().sum();
    let end = scanner.offset().next_multiple_of(PAGE);
    (sizes == [FULL_NODE; 3]).then(|| [LEB - end, end - used, used])
}

/// The blocks of a partition full of files of 1 MiB, and those of its typical LEB.
fn blocks(table: &str) -> Result<Vec<Row>> {
    let (_, flash) = filled(1 << 20, RESERVES[0].1)?;
    block_rows(table, &census(&flash)?)
}

/// Returns the rows of both tables of blocks for the image of a full partition.
pub(super) fn rows_of_image(image: &Path) -> Result<Vec<Row>> {
    let flash = partition_of(BLOCKS, BLOCKS, RESERVES[0].1)?;
    flash.import(image)?;
    let census = census(&flash)?;
    Ok([block_rows("T6", &census)?, block_rows("T7", &census)?].concat())
}

fn block_rows(table: &str, census: &Census) -> Result<Vec<Row>> {
    let reserve = RESERVES[0].1;
    let Census { superblock, master, typical } = census;
    let row = |what: &str, metric: &str, unit: &str| {
        Row::new(table, what, metric, unit).on("ubifs", "32 MiB")
    };
    let exact = |what, published: u32, ours: u32, source| {
        row(what, "blocks", "").published(published, source).ours(ours, Fidelity::Exact)
    };
    if table == "T7" {
        let (sizes, count) =
            typical.iter().max_by_key(|(_, count)| **count).context("no such LEB")?;
        let source = "003:214 \"free 3072, dirty 368 (used 12432)\"";
        let names = ["free", "dirty", "used"];
        let rows = names.into_iter().zip([3072_u32, 368, 12_432]).zip(sizes);
        let rows = rows.map(|((metric, published), ours)| {
            row("LEB of three full nodes", metric, "bytes")
                .published(published, source)
                .ours(*ours, Fidelity::Exact)
                .within(0.0)
        });
        let many = row("LEBs like this", "blocks", "").ours(*count, Fidelity::Exact);
        return Ok(rows.chain([many]).collect());
    }
    let main = superblock.main_lebs();
    let areas = superblock.log_lebs + superblock.lpt_lebs + superblock.orph_lebs;
    let fixed = superblock.leb_cnt - main - areas;
    let own = BLOCKS - reserve - superblock.leb_cnt;
    ensure!(own + reserve + fixed + areas + main == BLOCKS, "the blocks do not add up");
    let unknown = Verdict::NotComparable;
    let data = main - master.empty_lebs - master.idx_lebs;
    Ok(vec![
        exact("UBI itself", 4, own, "003:204 \"4\"").within(0.0),
        exact("for bad blocks", 20, reserve, "003:205 \"For Bad Block\"").within(0.0),
        exact("UBIFS", 2024, superblock.leb_cnt, "003:206 \"UBIFS (2024 EBs)\"").within(0.0),
        exact("superblock and master", 3, fixed, "003:206 \"3\"").within(0.0),
        exact("log, LPT and orphans", 14, areas, "003:207 \"LOG/LPT\"").within(0.0),
        exact("main area", 2007, main, "003:208 \"Main Area (2007 EBs)\"").within(0.0),
        // The text does not name the files that filled it.
        exact("full: empty", 24, master.empty_lebs, "003:208 \"Empty Block 24\"").judged(unknown),
        exact("full: index", 19, master.idx_lebs, "003:209 \"Index Block 19\"").judged(unknown),
        exact("full: data", 1964, data, "003:210 \"Data Block 1964\"").within(0.03),
    ])
}

/// Returns the title of a table.
pub(super) fn title(table: &str) -> &'static str {
    match table {
        "T1" => "boot time",
        "T2" => "the bad-block table",
        "T3" => "reads of an attach",
        "T4" => "df of an empty file system",
        "T5" => "random bytes that fit, by the size of the files",
        "T6" => "blocks of a full file system",
        "T7" => "a typical block",
        "T8" => "scrubbing on a preemptible kernel",
        "T9" => "verified writes of sub-pages",
        "T10" => "errors",
        _ => "",
    }
}

/// Returns the chip in words.
pub(super) const fn medium() -> &'static str {
    "64 MiB, blocks of 16 KiB, pages of 512 bytes, sub-pages of 256"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_the_published_table_add_up() {
        assert_eq!(BLOCKS, 4 + 20 + 2024);
        assert_eq!(2024, 3 + 14 + 2007);
        assert_eq!(2007, 24 + 19 + 1964);
    }

    #[test]
    fn three_full_nodes_fit_an_leb() {
        assert_eq!(partition(64, 0).unwrap().layout.leb_size(), LEB);
        assert_eq!(3072 + 368 + 12_432, LEB);
        assert_eq!(12_432, 3 * FULL_NODE);
        assert_eq!(LEB - FULL_NODE * 3 - 368, 3072);
    }

    #[test]
    fn other_sub_pages_are_refused() {
        let geometry = Geometry::new(MediumKind::Nand, PEB, 64, PAGE, PAGE, OOB).unwrap();
        let flash = Flash::new(ChipConfig::of_geometry(geometry).unwrap(), 64, 0).unwrap();
        let error = check(&flash).unwrap_err().to_string();
        assert!(error.starts_with("LEBs of 15360 bytes, expected 15872"), "{error}");
    }

    /// The parameter comes from the bad-block scan alone.
    #[test]
    fn the_attach_is_predicted_and_not_fitted() {
        let ours = |published: &Boot| {
            let rows = boot(published).unwrap();
            rows.into_iter().map(|row| row.ours).collect::<Vec<_>>()
        };
        let mut changed = BOOT;
        for (_, time) in &mut changed.attach {
            *time *= 2.0;
        }
        assert_eq!(ours(&changed), ours(&BOOT));
        let verdicts = |published: &Boot| {
            let rows = boot(published).unwrap();
            rows.into_iter().skip(1).map(|row| row.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&BOOT), [Verdict::Holds; 2]);
        assert_eq!(verdicts(&changed), [Verdict::HoldsNoLonger; 2]);
        let other = Boot { markers: 600.0, ..BOOT };
        assert_ne!(ours(&other), ours(&BOOT));
    }

    #[test]
    fn reads_of_an_attach_grow_with_the_blocks_exactly() {
        let reads = |blocks| attach_ops(blocks).unwrap().reads - TABLE_PAGES;
        let [small, middle, large] = [512, 1024, 2048].map(reads);
        assert_eq!((middle - small) * 2, large - middle);
    }

    #[test]
    fn the_published_slopes_are_the_same() {
        let [large, middle, small] = BOOT.attach;
        let slope =
            |one: (u32, f64), other: (u32, f64)| (one.1 - other.1) / f64::from(one.0 - other.0);
        assert!((slope(large, middle) / slope(middle, small) - 1.0).abs() < 0.02);
    }
}
