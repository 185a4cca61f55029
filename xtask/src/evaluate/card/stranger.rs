//! flashbench in real Linux on our cards. It knows nothing of them; its output alone must show the
//! allocation unit, the page and the number of open units.

use super::flashbench::{Boundary, boundaries, rates, section};
use super::served::Served;
use crate::evaluate::lab::Lab;
use crate::evaluate::rows::{Cell, Fidelity, Row, Verdict};
use crate::guest::{Guest, JobDir};
use crate::kernel::unpacked_package;
use crate::oracle::{Checks, Paths};
use anyhow::{Context, Result, bail, ensure};
use eraseblock_card::presets;
use eraseblock_card::probe::{self, Pattern};
use std::fs;
use std::path::Path;

/// What the guest runs. The first disk is a card in slow motion, for boundaries: what the guest
/// itself needs for a request is small against the card's times then. The others have the speed of
/// a card: one as the preset has it, and one whose number of open units is another.
const JOB: &str = include_str!("../../../guest/card-stranger.sh");

/// Host time over card time for boundaries.
const SLOW_MOTION: f64 = 4.0;

const PRESET: &str = "sd-2012-c10";
/// The sizes of the card, which only the verdict knows.
const UNIT: u64 = 8 << 20;
const PAGE: u64 = 16 << 10;
const OPEN: u32 = 5;
const HIDDEN_OPEN: u32 = 3;

/// A read that crosses a boundary must take this much longer than at half the alignment, in
/// nanoseconds of the card.
const STEP: f64 = 150_000.0;

/// Runs flashbench, or takes what it printed in an earlier run; returns its rows.
pub(super) fn run(lab: &mut Lab, checks: &mut Checks) -> Result<Vec<Row>> {
    let program = unpacked_package("flashbench")?.join("usr/bin/flashbench");
    let preset = serde_json::to_string(&presets::find(PRESET)?.parameters)?;
    let inputs = lab
        .inputs()?
        .with("job", JOB)
        .with("card", format!("{preset} {SLOW_MOTION} {HIDDEN_OPEN}"))
        .with_file("flashbench", &program)?
        .with_file("ours", &lab.paths.ours)?;
    let (guest, paths) = (&lab.guest, &lab.paths);
    let part = lab.kept.part("card-stranger", &inputs, |folder| {
        measure(guest, paths, &program, &folder.join("output"))
    })?;
    let output = fs::read_to_string(part.folder.join("output"))?;
    println!("{output}");
    let boundaries = boundaries(section(&output, "boundaries")?)?;
    checks.record("flashbench/unit-and-page", judge_sizes(&boundaries));
    for (card, expected) in [("preset", OPEN), ("hidden", HIDDEN_OPEN)] {
        checks
            .record(&format!("flashbench/open-units-{card}"), judge_open(&output, card, expected));
    }
    checks.record("flashbench/random", judge_random(&output));
    checks.record("flashbench/fat", judge_fat(section(&output, "fat")?));
    rows(&output)
}

/// Boots the guest with three cards and keeps what flashbench prints.
fn measure(guest: &Guest, paths: &Paths, program: &Path, kept: &Path) -> Result<()> {
    let job = JobDir::create(&paths.work.join("card-stranger"))?;
    job.add_with_libraries(program)?;
    job.write("job.sh", JOB)?;
    // The path of a socket is short.
    let folder = tempfile::tempdir()?;
    let start = |name: &str, open: &[&str], pace: f64| {
        let card = [&["--preset", PRESET, "--size", "1GiB"], open].concat();
        Served::start(&paths.ours, folder.path(), name, &card, &pace.to_string())
    };
    let hidden = HIDDEN_OPEN.to_string();
    let cards = [
        ("slow", start("slow", &[], SLOW_MOTION)?),
        ("preset", start("preset", &[], 1.0)?),
        ("hidden", start("hidden", &["--open", &hidden], 1.0)?),
    ];
    let devices: Vec<String> =
        cards.iter().flat_map(|(name, served)| served.device(name)).collect();
    let report = guest.run_with(&job, &devices)?;
    if let Some(reason) = report.failure() {
        bail!("{reason}");
    }
    fs::copy(job.path().join("output"), kept)?;
    Ok(())
}

/// What flashbench found, and what the text found on its card with the same program.
fn rows(output: &str) -> Result<Vec<Row>> {
    let sizes = boundaries(section(output, "boundaries")?)?;
    let steps: Vec<u64> = steps(&sizes).collect();
    let bytes = |bytes: Option<&u64>, unit: u64| match bytes {
        Some(bytes) => Cell::from(bytes / unit),
        None => Cell::text("nothing found"),
    };
    let rate = |part: &str| -> Result<Cell> {
        let rows = rates(section(output, part)?);
        Ok(rows.last().and_then(|rates| rates.first()).context("no rows")?.megabytes.into())
    };
    let row = |what: &str, metric: &str, unit: &str, found: Cell, ours: Cell| {
        let verdict = Verdict::of(Some(found == ours));
        Row::new("C1", what, metric, unit)
            .on("flashbench", format!("{PRESET} of 1 GiB"))
            .published("not published", "")
            .linux(found)
            .ours(ours, Fidelity::Order)
            .judged(verdict)
    };
    let open = |card: &str, most| open_units(output, card, most).map(Cell::from);
    let unit =
        row("allocation unit", "found", "MiB", bytes(steps.first(), 1 << 20), (UNIT >> 20).into())
            .published(8_u32, "002:119 \"an 8 MB erase block size\"");
    let preset = row("open units", "found", "units", open("preset", OPEN + 1)?, OPEN.into())
        .published(5_u32, "002:119 \"five erase blocks can be open at a time\"");
    let page = row("page", "found", "KiB", bytes(steps.last(), 1 << 10), (PAGE >> 10).into());
    let hidden = row(
        "open units of a card that hides them",
        "found",
        "units",
        open("hidden", HIDDEN_OPEN + 1)?,
        HIDDEN_OPEN.into(),
    );
    let mut rows = vec![unit, page, preset, hidden];
    for (what, part) in [
        ("5 units, blocks of 1 MiB", "preset open 5"),
        ("6 units, blocks of 1 MiB", "preset open 6"),
        ("5 units in random order, blocks of 1 MiB", "preset random 5"),
    ] {
        let pattern = Pattern {
            count: if part.ends_with('6') { 6 } else { 5 },
            area: 8 << 20,
            random: part.contains("random"),
            smallest: 1 << 20,
        };
        let model = probe::open_units(&presets::find(PRESET)?.parameters, &pattern)?;
        let model = model.last().context("no rates")?.megabytes;
        let row = row(
            what,
            "rate of writing",
            "MB/s",
            rate(part)?,
            ((model * 100.0).round() / 100.0).into(),
        );
        rows.push(row.judged(Verdict::NoClaim));
    }
    Ok(rows)
}

/// Returns the boundaries with a step, from the largest.
fn steps(rows: &[Boundary]) -> impl DoubleEndedIterator<Item = u64> {
    let is_step = |pair: &&[Boundary]| pair[0].longer - pair[1].longer >= STEP * SLOW_MOTION;
    rows.windows(2).filter(is_step).map(|pair| pair[0].alignment)
}

/// The largest boundary with a step is the allocation unit, the smallest is the page.
fn judge_sizes(rows: &[Boundary]) -> Result<()> {
    let mut steps = steps(rows);
    let (first, last) = (steps.next(), steps.next_back());
    ensure!(
        (first, last) == (Some(UNIT), Some(PAGE)),
        "found a unit of {first:?} and a page of {last:?} bytes, expected {UNIT} and {PAGE}"
    );
    Ok(())
}

/// Returns the last number of units before the rate at the smallest block falls to less than half of
/// the rate at the largest.
fn open_units(output: &str, card: &str, most: u32) -> Result<u32> {
    let mut found = 0;
    for count in 2..=most {
        let rows = rates(section(output, &format!("{card} open {count}"))?);
        let [first, .., last] = rows.as_slice() else { bail!("{count} open: too few rows") };
        let (first, last) = (first[0].megabytes, last[0].megabytes);
        println!("{card}: {count} units: {first} MB/s in whole units, {last} MB/s in 1 MiB blocks");
        if last < first / 2.0 {
            break;
        }
        found = count;
    }
    Ok(found)
}

fn judge_open(output: &str, card: &str, expected: u32) -> Result<()> {
    let found = open_units(output, card, expected + 1)?;
    ensure!(found == expected, "found {found} open units, expected {expected}");
    Ok(())
}

/// Random blocks within the open units cost a merge each unit, and do not collapse.
fn judge_random(output: &str) -> Result<()> {
    let rows = rates(section(output, "preset random 5")?);
    let last = rows.last().context("no rows")?[0].megabytes;
    ensure!((3.5..6.0).contains(&last), "random blocks: {last} MB/s, expected 3.5 to 6");
    Ok(())
}

/// Random writes to the first unit, which is mapped by pages, cost no merges.
fn judge_fat(text: &str) -> Result<()> {
    let rows = rates(text);
    let last = rows.last().context("no rows")?;
    let [first, others @ ..] = last.as_slice() else { bail!("no units") };
    let fastest = others.iter().map(|rate| rate.megabytes).fold(0.0, f64::max);
    ensure!(
        first.megabytes > 1.5 * fastest,
        "unit 0: {} MB/s, the others at most {fastest}: expected 1.5 times as much",
        first.megabytes
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(step: impl Fn(u64) -> f64) -> Vec<Boundary> {
        let alignments = (11..30).rev().map(|shift| 1 << shift);
        alignments.map(|alignment| Boundary { alignment, longer: step(alignment) }).collect()
    }

    #[test]
    fn another_unit_or_page_is_noticed() {
        let card = |unit, page| {
            rows(move |at| {
                let steps = [(unit, 170_000.0), (page, 260_000.0)];
                steps
                    .iter()
                    .filter(|(size, _)| at >= *size)
                    .map(|(_, step)| step * SLOW_MOTION)
                    .sum()
            })
        };
        judge_sizes(&card(UNIT, PAGE)).unwrap();
        assert!(judge_sizes(&card(UNIT / 2, PAGE)).is_err());
        assert!(judge_sizes(&card(UNIT, 2 * PAGE)).is_err());
        assert!(judge_sizes(&rows(|_| 0.0)).is_err());
    }

    #[test]
    fn another_number_of_open_units_is_noticed() {
        let output = |open: u32| -> String {
            let rate = |count| if count <= open { 9.1 } else { 1.05 };
            let part =
                |count| format!("== c open {count}\n8MiB 9.2M/s \n1MiB {}M/s \n", rate(count));
            (2..8).map(part).collect::<Vec<_>>().concat()
        };
        judge_open(&output(5), "c", 5).unwrap();
        assert!(judge_open(&output(4), "c", 5).is_err());
        assert!(judge_open(&output(6), "c", 5).is_err());
    }
}
