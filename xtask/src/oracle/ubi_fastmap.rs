//! `ubi-fastmap`: Linux attaches images with our fastmap without a scan, and with a scan if the
//! image does not lie at its place. Debian's kernel is built without fastmap: it always scans, and
//! must find the same.

use crate::command::output;
use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::linux_writes::CHIPS;
use crate::oracle::mounts_ours::Sources;
use crate::oracle::{Checks, Paths};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the image is written to the chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Put {
    /// Page by page, past bad blocks.
    Raw,
    /// By `ubiformat`, which gives all other blocks a header.
    Ubiformat,
}

#[derive(Debug)]
struct Case {
    name: &'static str,
    chip: usize,
    put: Put,
    /// Further arguments of the simulator.
    load: &'static str,
    /// Whether `put --fastmap` writes into the image after `build`.
    changed: bool,
    /// Whether Linux attaches by fastmap; otherwise it must scan.
    by_fastmap: bool,
    /// Kernel messages that belong to the case.
    allowed: &'static [&'static str],
    /// Kernel messages about its own writes after it attached our image.
    later: &'static [&'static str],
}

const PLAIN: Case = Case {
    name: "",
    chip: 0,
    put: Put::Raw,
    load: "",
    changed: false,
    by_fastmap: true,
    allowed: &[],
    later: &[],
};

const CASES: [Case; 8] = [
    Case { name: "build-raw", ..PLAIN },
    Case { name: "build-ubiformat", put: Put::Ubiformat, ..PLAIN },
    // Linux asserts, harmlessly, when it attaches by its own fastmap of two blocks.
    Case {
        name: "build-two-blocks",
        chip: 2,
        later: &["failed in ubi_wl_init", "Call Trace"],
        ..PLAIN
    },
    Case { name: "build-nor", chip: 4, ..PLAIN },
    // A block of a volume is bad; all later blocks lie one further up.
    Case { name: "build-bad-inside", load: "badblocks=10", by_fastmap: false, ..PLAIN },
    // The anchor, too, lies one further up.
    Case { name: "build-bad-first", load: "badblocks=1", by_fastmap: false, ..PLAIN },
    // Linux notices when it erases the block.
    Case {
        name: "build-bad-after",
        load: "badblocks=120",
        allowed: &["error -5", "PEB 120", "Call Trace"],
        ..PLAIN
    },
    Case { name: "put", changed: true, ..PLAIN },
];

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(check_name).collect()
}

fn check_name(case: &Case) -> String {
    format!("ubi-fastmap/{}", case.name)
}

/// Runs the wanted cases in one boot.
pub(crate) fn run(guest: &Guest, paths: &Paths, checks: &mut Checks) -> Result<()> {
    let wanted: Vec<&Case> = CASES.iter().filter(|case| checks.wants(&check_name(case))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let sources = Sources::make(paths)?;
    let dir = paths.work.join("ubi-fastmap-made");
    fs::create_dir_all(&dir)?;
    let cases: Result<Vec<BatchCase>> =
        wanted.iter().map(|case| batch_case(case, paths, &sources, &dir)).collect();
    let batch = Batch::run(guest, paths, "ubi-fastmap", &[], &cases?)?;
    println!("      ubi-fastmap: {:.1} s in the guest", batch.seconds());
    for case in wanted {
        let outcome = batch.case_dir(case.name).and_then(|dir| judge(&dir, case, &sources));
        checks.record(&check_name(case), outcome);
    }
    fs::remove_dir_all(&dir)?;
    paths.finish(batch)
}

fn batch_case(case: &Case, paths: &Paths, sources: &Sources, dir: &Path) -> Result<BatchCase> {
    let put = if case.put == Put::Raw { "raw" } else { "ubiformat" };
    let variables =
        vec![("LOAD", format!("{} {}", CHIPS[case.chip].load, case.load)), ("PUT", put.to_owned())];
    let image = make(case, &paths.ours, sources, dir)?;
    let files = vec![("image", image), ("firmware.bin", sources.firmware.clone())];
    let script = include_str!("../../guest/ubi-fastmap.sh");
    Ok(BatchCase { name: case.name.to_owned(), script, variables, files })
}

/// Returns the image that our command built, and changed.
fn make(case: &Case, ours: &Path, sources: &Sources, dir: &Path) -> Result<PathBuf> {
    let chip = &CHIPS[case.chip];
    let layout = format!(
        "[flash]\npeb = {}\npage = {}\nsubpage = {}\nblocks = {}\n\n[image]\nfastmap = true\n\n\
         [[volume]]\nname = 'firmware'\ntype = 'static'\ncontent = {{ file = '{}' }}\n\n\
         [[volume]]\nname = 'data'\nsize = '4MiB'\ncontent = {{ ubifs = '{}' }}\n\n\
         [[volume]]\nname = 'rest'\nsize = '100KiB'\nflags = ['autoresize']\n",
        chip.peb_size,
        chip.page_size,
        chip.subpage_size,
        chip.pebs,
        sources.firmware.display(),
        sources.small.0.display()
    );
    let layout = if case.changed { layout.replace("flags = ['autoresize']\n", "") } else { layout };
    let file = dir.join("layout.toml");
    fs::write(&file, layout)?;
    let image = dir.join(format!("{}.image", case.name));
    output(Command::new(ours).arg("build").arg(&file).arg("-o").arg(&image))?;
    if case.changed {
        let mut target = image.clone().into_os_string();
        target.push(":data");
        let mut put = Command::new(ours);
        put.arg("put").arg(target).arg(&sources.firmware).args(["/added", "--fastmap"]);
        output(&mut put)?;
    }
    Ok(image)
}

/// Reads the kernel's log, and compares what Linux listed with the source.
fn judge(dir: &Path, case: &Case, sources: &Sources) -> Result<()> {
    let attached = fs::read_to_string(dir.join("dmesg-attach"))?;
    let by_fastmap = attached.contains("attached by fastmap");
    let expected = case.by_fastmap && dir.join("has-fastmap").exists();
    ensure!(by_fastmap == expected, "by fastmap: {by_fastmap}\n{attached}");
    let log = fs::read_to_string(dir.join("dmesg"))?;
    let rest = log.strip_prefix(attached.as_str()).context("the log was cut")?;
    let mut found = complaints(&attached, case.allowed);
    found.extend(complaints(rest, &[case.allowed, case.later].concat()));
    ensure!(found.is_empty(), "the kernel complains: {}", found.join("; "));
    let names = fs::read_to_string(dir.join("linux/lines"))?;
    for name in ["firmware", "data", "rest"] {
        ensure!(names.contains(&format!("name={name} ")), "no volume {name}: {names}");
    }
    let listed = fs::read_to_string(dir.join("manifest")).context("Linux listed nothing")?;
    let is_added = |line: &&str| case.changed && line.contains("added");
    ensure!(listed.lines().any(|line| is_added(&line)) == case.changed, "no file was added");
    let listed: Vec<&str> = listed.lines().filter(|line| !is_added(line)).collect();
    let mut differences = differences(&sources.small.1, &listed.join("\n"), Ignore::OwnSizes);
    // A new name changes its directory.
    differences.retain(|line| !case.changed || !line.starts_with(".: "));
    ensure!(differences.is_empty(), "{}", summary(&differences));
    Ok(())
}
