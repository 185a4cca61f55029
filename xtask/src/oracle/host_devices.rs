//! `host-devices`: our programs use the kernel's MTD and UBI devices inside the guest, and a block
//! device as flash.

use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::{Checks, Paths, views};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

#[derive(Debug)]
struct Case {
    name: &'static str,
    load: &'static str,
    /// Factory bad blocks of the chip.
    bad: &'static str,
    /// Whether bits flip on reads.
    flips: bool,
}

const CASES: [Case; 4] = [
    Case {
        name: "nand2k-bad-blocks",
        load: "load_nand 0x20,0xa1,0x00,0x15 128 badblocks=5,77",
        bad: "[5, 77]",
        flips: false,
    },
    Case {
        name: "nand2k-bit-flips",
        load: "load_nand 0x20,0xa1,0x00,0x15 96 bitflips=2 bch=4",
        bad: "[]",
        flips: true,
    },
    Case { name: "nand512", load: "load_nand 0x98,0x76 512", bad: "[]", flips: false },
    Case { name: "nor", load: "load_nor 8192 64", bad: "[]", flips: false },
];

/// A block device as flash; Linux does not support the format, so the case judges itself.
const BLOCK: &str = "loop-device";

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(|case| check_name(case.name)).chain([check_name(BLOCK)]).collect()
}

fn check_name(case: &str) -> String {
    format!("host-devices/{case}")
}

/// Runs the wanted cases in one boot.
pub(crate) fn run(guest: &Guest, paths: &Paths, checks: &mut Checks) -> Result<()> {
    let wanted: Vec<&Case> =
        CASES.iter().filter(|case| checks.wants(&check_name(case.name))).collect();
    let block = checks.wants(&check_name(BLOCK));
    if wanted.is_empty() && !block {
        return Ok(());
    }
    let firmware = paths.work.join("firmware.bin");
    fs::create_dir_all(&paths.work)?;
    fs::write(&firmware, (0..75_001_u32).flat_map(u32::to_be_bytes).collect::<Vec<u8>>())?;
    let mut cases: Vec<BatchCase> = wanted
        .iter()
        .map(|case| BatchCase {
            name: case.name.to_owned(),
            script: include_str!("../../guest/host-devices.sh"),
            variables: vec![("LOAD", case.load.to_owned())],
            files: vec![("firmware.bin", firmware.clone())],
        })
        .collect();
    if block {
        cases.push(BatchCase {
            name: BLOCK.to_owned(),
            script: include_str!("../../guest/host-block.sh"),
            variables: Vec::new(),
            files: vec![("firmware.bin", firmware)],
        });
    }
    let programs = [paths.ours.as_path(), paths.xtask.as_path()];
    let batch = Batch::run(guest, paths, "host-devices", &programs, &cases)?;
    println!("      host-devices: {:.1} s in the guest", batch.seconds());
    for case in wanted {
        let outcome = batch.case_dir(case.name).and_then(|dir| judge(&dir, case));
        checks.record(&check_name(case.name), outcome);
    }
    if block {
        let outcome = batch.case_dir(BLOCK).and_then(|dir| judge_block(&dir));
        checks.record(&check_name(BLOCK), outcome);
    }
    paths.finish(batch)
}

/// The kernel's message when the subject opens a volume, which it is writing to, a second time.
const SECOND_OPENER: &str = "cannot open device 0, volume 2, error -16";
/// Highest erase counter of ubiformat: no block may have a lower one afterwards.
const GIVEN_COUNTER: u64 = 7;

fn judge(dir: &Path, case: &Case) -> Result<()> {
    let read = |name: &str| {
        fs::read_to_string(dir.join(name)).with_context(|| format!("there is no {name}"))
    };
    let found = complaints(&read("dmesg")?, &[SECOND_OPENER]);
    ensure!(found.is_empty(), "the kernel complains: {}", found.join("; "));
    let bad = format!("bad {}", case.bad);
    ensure!(read("facts")?.contains(&bad), "the driver's bad blocks: {}", read("facts")?);
    let flips = "most bits corrected in one codeword: 0";
    let seen = read("output")?.contains(flips);
    ensure!(!case.flips || !seen, "bit-flips were not reported");
    judge_wear(&json(&read("format")?)?, &json(&read("wear")?)?)?;
    let busy = read("busy")?;
    ensure!(busy.contains("attached as ubi0") && busy.contains("hint:"), "when in use: {busy}");
    let linux = |name: &str| views::of_linux(&dir.join(name));
    views::compare(&linux("linux-formatted")?, &read("ours-formatted")?)
        .context("formatted by us")?;
    let view = linux("linux-lebs")?;
    let lebs: Vec<&str> = view.lines().filter(|line| line.starts_with("leb 2 ")).collect();
    ensure!(
        lebs == read("ours-lebs")?.lines().collect::<Vec<_>>(),
        "LEBs written through the volume differ"
    );
    views::compare(&linux("linux-end")?, &read("ours-end")?).context("written by Linux")?;
    for name in ["ours-volume", "ours-mtd"] {
        let differences = differences(&read("manifest")?, &read(name)?, Ignore::Nothing);
        ensure!(differences.is_empty(), "{name}: {}", summary(&differences));
    }
    Ok(())
}

fn judge_block(dir: &Path) -> Result<()> {
    let found = complaints(&fs::read_to_string(dir.join("dmesg"))?, &[]);
    ensure!(found.is_empty(), "the kernel complains: {}", found.join("; "));
    let busy = fs::read_to_string(dir.join("busy"))?;
    ensure!(busy.contains("in use") && busy.contains("hint:"), "when in use: {busy}");
    Ok(())
}

fn json(text: &str) -> Result<serde_json::Value> {
    Ok(serde_json::from_str(text)?)
}

/// Checks that our format kept the counters of ubiformat, and counted its own erase.
fn judge_wear(format: &serde_json::Value, wear: &serde_json::Value) -> Result<()> {
    ensure!(format["counters_kept"] == format["formatted"], "format: {format}");
    let least = wear["min_ec"].as_u64().context("no min_ec")?;
    ensure!(least > GIVEN_COUNTER, "an erase counter fell to {least}");
    Ok(())
}
