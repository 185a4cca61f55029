//! The tables of the text 001: partitions of 8, 32 and 120 MiB on a chip with large pages.

use super::claims::{CLAIMS, Results};
use super::flash::{Flash, System};
use super::steps::{self, Measured, PART, Step};
use super::tree;
use crate::evaluate::rows::{Cell, Fidelity, Row, Verdict};
use anyhow::{Result, ensure};
use eraseblock_base::Leb;
use eraseblock_ubifs::mkfs::{self, Compressor, LebSink, MkfsOptions, NoProgress};
use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The partitions of the published runs, in MiB.
pub(super) const PARTITIONS: [u32; 3] = [8, 32, 120];
/// The partitions and the files that fit them: MiB, system, published MB, source.
pub(super) const FITS: [(u32, System, f64, &str); 4] = [
    (8, System::Jffs2, 13.0, "001:787 \"jffs2 fits 13 MB of files\""),
    (8, System::Ubifs, 6.6, "001:794 \"ubifs fits 6.6 MB of files\""),
    (4, System::Jffs2, 5.1, "001:798 \"jffs2 fits 5.1 MB of files\""),
    (4, System::Ubifs, 1.6, "001:802 \"ubifs fits only 1.6 MB of\""),
];
/// MiB of a partition, published MB of it that UBI takes, source.
pub(super) const OVERHEAD: [(u32, f64, &str); 4] = [
    (4, 0.8, "001:800 \"UBI consumes 0.8 MB\""),
    (8, 0.9, "001:792 \"UBI consumes 0.9 MB\""),
    (32, 1.2, "001:807 \"32 MB: consumes 1.2 MB\""),
    (128, 3.6, "001:809 \"128 MB: consumes 3.6 MB\""),
];
/// By how many percent zlib must be better than LZO to be used.
pub(super) const FAVOUR: &str = "20";
const THREADS: usize = 2;
const NOT_COUNTED: &str = "not run: needs a build with `--features heap`";

/// The steps of a table, with the number and the words of its chart.
const CHARTS: [(&str, &str, &[Step], &str); 5] = [
    ("BL1", "mount", &[Step::Mount, Step::Attach], "001:637 \"Mount time (seconds)\""),
    ("BL4", "read all files", &[Step::Read], "001:672 \"Read time (seconds)\""),
    ("BL5", "remove all files", &[Step::Remove], "001:692 \"File removal time (seconds)\""),
    ("BL6", "write", &[Step::Write], "001:718 \"Write time (seconds)\""),
    ("BL7", "random write", &[Step::Random], "001:753 \"Random write time (seconds)\""),
];

/// Returns the tables that need all steps on all partitions.
pub(super) const fn needs_runs(table: &str) -> bool {
    !matches!(table.as_bytes(), b"BL8" | b"BL9")
}

/// A system, the MiB of its partition, and what was measured.
type Run = ((System, u32), Measured);

/// Measures every system on every partition.
pub(super) fn measure(partitions: &[u32], results: &mut Results) -> Result<()> {
    let smallest = partitions.iter().copied().min().unwrap_or(PARTITIONS[0]).max(PARTITIONS[0]);
    let trees: Vec<_> =
        partitions.iter().map(|medium| (*medium, steps::entries(*medium, smallest))).collect();
    let jobs = trees.iter().rev().flat_map(|tree| System::ALL.map(|system| (system, tree)));
    let jobs: Mutex<VecDeque<_>> = Mutex::new(jobs.collect());
    let done: Mutex<Vec<Result<Run>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some((system, (medium, entries))) = job else { break };
                    let measured = steps::measure(system, *medium, entries);
                    let measured = measured.map(|measured| ((system, *medium), measured));
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(measured);
                }
            });
        }
    });
    for measured in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
        results.runs.extend([measured?]);
    }
    Ok(())
}

/// Returns the rows of a table.
pub(super) fn rows(table: &str, results: &Results) -> Result<Vec<Row>> {
    let mut rows = match table {
        "BL2" => sizes(results, "BL2", "after the mount", "memory", |run| run.memory),
        "BL3" => sizes(results, "BL3", "df", "used", |run| run.used),
        "BL8" => favour()?,
        "BL9" => small(results)?,
        _ => Vec::new(),
    };
    if let Some((_, what, steps, source)) = CHARTS.iter().find(|chart| chart.0 == table) {
        for ((system, medium), run) in in_order(results) {
            for step in *steps {
                rows.extend(step_rows(table, what, *step, (system, medium), run, source));
            }
        }
    }
    let claims = CLAIMS.iter().filter(|claim| claim.table() == table);
    rows.extend(claims.map(|claim| claim.row(results)));
    Ok(rows)
}

/// Returns the runs by medium, then by system.
fn in_order(results: &Results) -> Vec<((System, u32), &Measured)> {
    let mut runs: Vec<_> = results.runs.iter().map(|(key, run)| (*key, run)).collect();
    runs.sort_by_key(|((system, medium), _)| (*medium, *system));
    runs
}

/// Returns the time and the counts of a step; one row if it did not fit, none if the system has no
/// such step.
fn step_rows(
    table: &str,
    what: &str,
    step: Step,
    (system, medium): (System, u32),
    run: &Measured,
    source: &str,
) -> Vec<Row> {
    let impossible = match step {
        Step::Write | Step::Remove | Step::Random => {
            system == System::Squashfs || (step == Step::Random && system == System::Jffs2Plain)
        }
        Step::Attach => !system.is_on_ubi() || !run.steps.contains_key(&step),
        Step::Mount | Step::Read => false,
    };
    if impossible {
        return Vec::new();
    }
    let what = if step == Step::Attach { "of this, attaching UBI" } else { what };
    let row = |metric, unit| {
        Row::new(table, what, metric, unit)
            .on(system.name(), format!("{medium} MiB"))
            .published(Cell::lost(), source)
    };
    let Some(ops) = run.steps.get(&step) else {
        return vec![row("time", "ms").ours("does not fit", Fidelity::Exact)];
    };
    let chunks = (step == Step::Random)
        .then(|| row("chunks of 1 MiB", "").ours(run.chunks, Fidelity::Exact));
    let rows = vec![
        row("time", "ms").ours(steps::milliseconds(*ops), Fidelity::Model),
        row("page reads", "").ours(ops.reads, Fidelity::Exact),
        row("page programs", "").ours(ops.programs, Fidelity::Exact),
        row("erases", "").ours(ops.erases, Fidelity::Exact),
    ];
    chunks.into_iter().chain(rows).collect()
}

fn sizes(
    results: &Results,
    table: &str,
    what: &str,
    metric: &str,
    get: impl Fn(&Measured) -> Option<u64>,
) -> Vec<Row> {
    let (source, fidelity) = if table == "BL2" {
        ("001:651 \"Memory consumption after mounting\"", Fidelity::Order)
    } else {
        ("001:663 \"Used space (MB)\"", Fidelity::Exact)
    };
    let row = |((system, medium), run): ((System, u32), &Measured)| {
        let row = Row::new(table, what, metric, "KiB")
            .on(system.name(), format!("{medium} MiB"))
            .published(Cell::lost(), source);
        match get(run) {
            Some(bytes) => row.ours(bytes.div_ceil(1024), fidelity),
            None if run.steps.contains_key(&Step::Mount) => row.ours(NOT_COUNTED, fidelity),
            None => row.ours("does not fit", fidelity),
        }
    };
    in_order(results).into_iter().map(row).collect()
}

/// Counts the pages of an image.
#[derive(Default)]
struct Pages {
    bytes: u64,
}

impl LebSink for Pages {
    fn write_leb(&mut self, _leb: Leb, data: &[u8]) -> io::Result<()> {
        self.bytes += data.len() as u64;
        Ok(())
    }

    fn finish(&mut self, _leb_cnt: u32) -> io::Result<()> {
        Ok(())
    }
}

/// Images of the same tree, with LZO alone, and with zlib where that is better by a fifth.
fn favour() -> Result<Vec<Row>> {
    let better: u8 = FAVOUR.parse()?;
    let source = "001:776 \"between 0.1 and 1%\"";
    let entries = steps::entries(PARTITIONS[0], PARTITIONS[0]);
    let tree = tree::source(&entries)?;
    let flash = steps::partition(PARTITIONS[0])?;
    let (leb_size, min_io) = (flash.layout.leb_size(), flash.layout.min_io());
    let mut pages = Vec::new();
    for compressor in [Compressor::Lzo, Compressor::FavourLzo { percent: better }] {
        let mut options = MkfsOptions::new(leb_size, min_io, flash.blocks());
        options.compressor = compressor;
        let mut sink = Pages::default();
        mkfs::build(&tree, &options, &mut sink, &NoProgress)?;
        pages.push(sink.bytes / u64::from(min_io));
    }
    let [lzo, both] = pages[..] else { return Ok(Vec::new()) };
    let row = |what, metric, unit| {
        Row::new("BL8", what, metric, unit)
            .on("ubifs", format!("{} MiB", PARTITIONS[0]))
            .published(Cell::lost(), source)
    };
    let more = percent(lzo, both);
    Ok(vec![
        row("image, only lzo", "pages", "").ours(lzo, Fidelity::Exact),
        row("image, lzo and zlib", "pages", "").ours(both, Fidelity::Exact),
        row("claim: only lzo makes at most 1 % of a difference", "pages", "%")
            .published("between 0.1 and 1%", source)
            .ours(more, Fidelity::Exact)
            .judged(Verdict::of(Some(more.abs() <= 1.0))),
    ])
}

/// Returns by how many percent `one` exceeds `other`, in hundredths.
#[allow(clippy::cast_precision_loss)] // pages of a small image
pub(super) fn percent(one: u64, other: u64) -> f64 {
    let exact = (one as f64 / other as f64 - 1.0) * 100.0;
    (exact * 100.0).round() / 100.0
}

/// Returns mebibytes in hundredths.
#[allow(clippy::cast_precision_loss)] // bytes of a small chip
pub(super) fn mebibytes(bytes: u64) -> f64 {
    (bytes as f64 / f64::from(1 << 20) * 100.0).round() / 100.0
}

/// The bytes that UBI takes (spec: ubi 11.3): the blocks that it reserves, and the headers of all others.
pub(super) fn overhead(blocks: u32, reserve: u32, peb_size: u32, data_offset: u32) -> u64 {
    let own = u64::from((reserve + 4).min(blocks));
    own * u64::from(peb_size) + (u64::from(blocks) - own) * u64::from(data_offset)
}

/// What fits very small partitions, and what UBI takes of them.
fn small(results: &Results) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (medium, system, published, source) in FITS {
        let fits = results.fits.get(&(system, medium)).copied();
        let row = Row::new("BL9", "files that fit", "content", "MiB")
            .on(system.name(), format!("{medium} MiB"))
            .published(published, source);
        // The published files were others.
        let row = row.judged(Verdict::NotComparable);
        rows.push(match fits {
            Some(bytes) => row.ours(mebibytes(bytes), Fidelity::Order),
            None => row.ours("does not fit", Fidelity::Order),
        });
    }
    let chip_blocks = steps::chip()?.geometry().peb_count();
    for (medium, published, source) in OVERHEAD {
        let blocks = medium * 8;
        let today = (chip_blocks * 20 / 1024).min(blocks - 4);
        let reserves =
            [("reserve of 2008", steps::reserve_2008(blocks)), ("reserve of today", today)];
        for (name, reserve) in reserves {
            let flash = Flash::new(steps::chip()?, blocks, reserve)?;
            let layout = flash.layout;
            let left = u64::from(flash.attach()?.available_lebs()) * u64::from(layout.leb_size());
            let taken = u64::from(blocks) * u64::from(layout.peb_size()) - left;
            let formula = overhead(blocks, reserve, layout.peb_size(), layout.data_offset());
            ensure!(taken == formula, "UBI takes {taken} bytes, by the formula {formula}");
            let row = Row::new("BL9", &format!("taken by UBI, {name}"), "bytes", "MiB")
                .on("ubi", format!("{medium} MiB"))
                .published(published, source)
                .ours(mebibytes(taken), Fidelity::Exact);
            let is_same = reserve == steps::reserve_2008(blocks);
            rows.push(if is_same { row.within(0.05) } else { row.judged(Verdict::NotComparable) });
        }
    }
    Ok(rows)
}

/// Fills very small partitions.
pub(super) fn measure_small(results: &mut Results) -> Result<()> {
    for (medium, system, ..) in FITS {
        let flash = steps::partition(medium)?;
        let mounted = flash.mount(system)?;
        if let Some(fs) = mounted.writer() {
            results.fits.insert((system, medium), steps::fill_with_tree(fs)?);
        }
        mounted.end()?;
    }
    Ok(())
}

/// Returns the title of a table.
pub(super) fn title(table: &str) -> &'static str {
    match table {
        "BL1" => "mount time",
        "BL2" => "memory after the mount",
        "BL3" => "used space",
        "BL4" => "reading all files",
        "BL5" => "removing all files",
        "BL6" => "writing a tree",
        "BL7" => "writing chunks of random bytes",
        "BL8" => "only lzo, or lzo and zlib",
        "BL9" => "very small partitions",
        "BL10" => "conclusions",
        _ => "",
    }
}

/// Returns the chip in words.
pub(super) fn medium() -> String {
    format!("{PART}: 256 MiB, blocks of 128 KiB, pages of 2048 bytes, sub-pages of 512")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ubi_takes_is_the_formula_of_the_specification() {
        // (2 + 4) x 128 KiB and 2 KiB of each other block.
        assert_eq!(overhead(64, 2, 131_072, 2048), 6 * 131_072 + 58 * 2048);
        assert_eq!(overhead(32, 40, 131_072, 2048), 32 * 131_072);
    }

    #[test]
    fn the_reserve_of_2008_is_a_hundredth_at_least_two_and_even() {
        assert_eq!([32, 64, 256, 960, 1024].map(steps::reserve_2008), [2, 2, 2, 10, 10]);
    }
}
