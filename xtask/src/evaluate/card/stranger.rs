//! flashbench in real Linux on our cards. It knows nothing of them; its output alone must show the
//! allocation unit, the page and the number of open units.

use super::flashbench::{Boundary, boundaries, rates, section};
use super::served::Served;
use crate::guest::{Guest, JobDir};
use crate::kernel::{libraries_of, unpacked_package};
use crate::oracle::{Checks, Paths};
use anyhow::{Context, Result, bail, ensure};
use std::fs;

/// What the guest runs. The first disk is a card in slow motion, for boundaries: what the guest
/// itself needs for a request is small against the card's times then. The others have the speed of
/// a card: one as the preset has it, and one whose number of open units is another.
const JOB: &str = include_str!("../../../guest/card-stranger.sh");

/// Host time over card time for boundaries.
const SLOW_MOTION: f64 = 4.0;

/// The sizes of the card, which only the verdict knows.
const UNIT: u64 = 8 << 20;
const PAGE: u64 = 16 << 10;
const OPEN: u32 = 5;
const HIDDEN_OPEN: u32 = 3;

/// A read that crosses a boundary must take this much longer than at half the alignment, in
/// nanoseconds of the card.
const STEP: f64 = 150_000.0;

pub(super) fn run(guest: &Guest, paths: &Paths, checks: &mut Checks) -> Result<()> {
    let output = measure(guest, paths)?;
    println!("{output}");
    let boundaries = boundaries(section(&output, "boundaries")?)?;
    checks.record("flashbench/unit-and-page", judge_sizes(&boundaries));
    for (card, expected) in [("preset", OPEN), ("hidden", HIDDEN_OPEN)] {
        checks
            .record(&format!("flashbench/open-units-{card}"), judge_open(&output, card, expected));
    }
    checks.record("flashbench/random", judge_random(&output));
    checks.record("flashbench/fat", judge_fat(section(&output, "fat")?));
    Ok(())
}

/// Boots the guest with three cards and returns what flashbench prints.
fn measure(guest: &Guest, paths: &Paths) -> Result<String> {
    let package = unpacked_package("flashbench")?;
    let program = package.join("usr/bin/flashbench");
    let job = JobDir::create(&paths.work.join("card-stranger"))?;
    job.add_program(&program)?;
    fs::create_dir(job.path().join("lib"))?;
    for library in libraries_of(&program)? {
        let name = library.file_name().context("a library has a name")?;
        fs::copy(&library, job.path().join("lib").join(name))?;
    }
    job.write("job.sh", JOB)?;
    // The path of a socket is short.
    let folder = tempfile::tempdir()?;
    let start = |name: &str, open: &[&str], pace: f64| {
        let card = [&["--preset", "sd-2012-c10", "--size", "1GiB"], open].concat();
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
    Ok(fs::read_to_string(job.path().join("output"))?)
}

/// The largest boundary with a step is the allocation unit, the smallest is the page.
fn judge_sizes(rows: &[Boundary]) -> Result<()> {
    let is_step = |pair: &&[Boundary]| pair[0].longer - pair[1].longer >= STEP * SLOW_MOTION;
    let mut steps = rows.windows(2).filter(is_step).map(|pair| pair[0].alignment);
    let (first, last) = (steps.next(), steps.next_back());
    ensure!(
        (first, last) == (Some(UNIT), Some(PAGE)),
        "found a unit of {first:?} and a page of {last:?} bytes, expected {UNIT} and {PAGE}"
    );
    Ok(())
}

/// The last number of units before the rate at the smallest block falls to less than half of the
/// rate at the largest.
fn judge_open(output: &str, card: &str, expected: u32) -> Result<()> {
    let mut found = 0;
    for count in 2..=expected + 1 {
        let rows = rates(section(output, &format!("{card} open {count}"))?);
        let [first, .., last] = rows.as_slice() else { bail!("{count} open: too few rows") };
        let (first, last) = (first[0].megabytes, last[0].megabytes);
        println!("{card}: {count} units: {first} MB/s in whole units, {last} MB/s in 1 MiB blocks");
        if last < first / 2.0 {
            break;
        }
        found = count;
    }
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
