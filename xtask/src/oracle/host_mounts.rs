//! `host-devices/mount-...`: our command and Linux mount `/dev/mtdX` alternately, and each sees the
//! state that the other left.

use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::jffs2_chips::{NAND_2K, NAND_512, NOR};
use crate::oracle::jffs2_writes::MARKERS;
use crate::oracle::{Checks, Paths};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

#[derive(Debug)]
struct Case {
    name: &'static str,
    kind: &'static str,
    load: &'static str,
}

const CASES: [Case; 5] = [
    Case {
        name: "mount-ubifs-nand2k",
        kind: "ubifs",
        load: "load_nand 0x20,0xa1,0x00,0x15 128 badblocks=9",
    },
    Case { name: "mount-ubifs-nor", kind: "ubifs", load: "load_nor 16384 64" },
    Case { name: "mount-jffs2-nand2k", kind: "jffs2", load: NAND_2K.load },
    Case { name: "mount-jffs2-nand512", kind: "jffs2", load: NAND_512.load },
    Case { name: "mount-jffs2-nor", kind: "jffs2", load: NOR.load },
];

/// What one side wrote, and how the other read it.
const PAIRS: [(&str, &str); 3] = [
    ("ours-wrote", "linux-read"),
    ("linux-wrote", "ours-read"),
    ("ours-wrote-again", "linux-read-again"),
];

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(|case| check_name(case.name)).collect()
}

fn check_name(case: &str) -> String {
    format!("host-devices/{case}")
}

/// Runs the wanted cases in one boot.
pub(crate) fn run(guest: &Guest, paths: &Paths, checks: &mut Checks) -> Result<()> {
    let wanted: Vec<&Case> =
        CASES.iter().filter(|case| checks.wants(&check_name(case.name))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let cases: Vec<BatchCase> = wanted
        .iter()
        .map(|case| BatchCase {
            name: case.name.to_owned(),
            script: include_str!("../../guest/host-mounts.sh"),
            variables: vec![
                ("LOAD", case.load.to_owned()),
                ("KIND", case.kind.to_owned()),
                ("MARKERS", MARKERS.to_owned()),
                // Entries that JFFS2 does not support are left out.
                ("EXOTIC", if case.kind == "jffs2" { "jffs2" } else { "" }.to_owned()),
            ],
            files: Vec::new(),
        })
        .collect();
    let batch = Batch::run(guest, paths, "host-mounts", &[&paths.ours], &cases)?;
    println!("      host-devices, mounts: {:.1} s in the guest", batch.seconds());
    for case in wanted {
        let outcome = batch.case_dir(case.name).and_then(|dir| judge(&dir));
        checks.record(&check_name(case.name), outcome);
    }
    paths.finish(batch)
}

fn judge(dir: &Path) -> Result<()> {
    let read = |name: &str| {
        fs::read_to_string(dir.join(name)).with_context(|| format!("there is no {name}"))
    };
    let found = complaints(&read("dmesg")?, &[]);
    ensure!(found.is_empty(), "the kernel complains: {}", found.join("; "));
    let busy = read("busy")?;
    ensure!(busy.contains("in use") && busy.contains("hint:"), "when in use: {busy}");
    for (wrote, saw) in PAIRS {
        let (expected, found) = (read(wrote)?, read(saw)?);
        ensure!(expected.lines().count() > 100, "{wrote}: next to nothing");
        let differences = differences(&expected, &found, Ignore::OwnSizes);
        ensure!(differences.is_empty(), "{wrote}, {saw}: {}", summary(&differences));
    }
    let stats: serde_json::Value = serde_json::from_str(&read("stats")?)?;
    ensure!(stats["flash_bytes_programmed"].as_u64() > Some(0), "stats: {stats}");
    Ok(())
}
