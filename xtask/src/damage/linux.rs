//! `cargo xtask damage --linux`: real Linux mounts repaired images read-write, with its self-checks on;
//! and `fsck.ubifs` of mtd-utils, if a folder has it, repairs what the damage scripts damaged.

use super::peer;
use crate::command::{cargo, repository};
use crate::guest::{Guest, GuestReport, JobDir, complaints};
use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::{machine, our_command};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reported for every small partition of a large chip.
const SMALL_RESERVE: &str = "cannot reserve enough PEBs for bad PEB handling";

/// The kinds of images.
const KINDS: [&str; 4] = ["ubifs", "ubifs-sums", "ubi", "jffs2"];

/// What is tried, and with what.
pub(super) struct Request {
    /// Damages of each kind.
    pub(super) count: u64,
    /// Names of images and scripts that are tried, such as `ubi-27`; all if there are none.
    pub(super) only: Vec<String>,
    /// A folder with `fsck.ubifs`, its libraries and `ld-linux-x86-64.so.2`.
    pub(super) peer: Option<PathBuf>,
    /// The command, or the release build.
    pub(super) ours: Option<PathBuf>,
}

/// Makes the images, boots, and prints how many Linux took without a message. Returns false if there was
/// one, if it listed something else than we, or if the peer repaired better.
pub(super) fn run(request: &Request) -> Result<bool> {
    let ours = our_command(request.ours.as_deref(), &[])?;
    let (mut guest, paths) = machine(ours, true)?;
    guest.timeout = Duration::from_hours(2);
    let job = JobDir::create(&paths.work.join("repaired"))?;
    job.add_program(&paths.manifest_program)?;
    job.write("lib.sh", include_str!("../../guest/lib.sh"))?;
    let script = include_str!("../../guest/repaired.sh");
    job.write("job.sh", format!(". ./lib.sh\n{script}"))?;
    let [images, scripts] = ["images", "scripts"].map(|name| job.path().join(name));
    fs::create_dir(&images)?;
    fs::create_dir(&scripts)?;
    let seeds = [("ERASEBLOCK_DAMAGE", format!("0..{}", request.count))];
    kept("eraseblock-repair", "campaign", &images, &seeds)?;
    if let Some(peer) = &request.peer {
        kept("eraseblock-cli", "scripts::every_damage_is_named", &scripts, &[])?;
        peer::complete(&paths.ours, &scripts)?;
        copy(peer, &job.path().join("peer"))?;
    }
    for folder in [&images, &scripts] {
        select(folder, &request.only)?;
    }
    let report = until_done(&guest, &job)?;
    println!("{:.0} s in the guest", report.elapsed.as_secs_f64());
    let mut is_right = judge(&images, request.only.is_empty())?;
    if request.peer.is_some() {
        is_right &= peer::compare(&paths.ours, &scripts)?;
    }
    if let Some(failure) = report.failure() {
        println!("{failure}");
        return Ok(false);
    }
    Ok(is_right)
}

/// Boots again if something hangs in the kernel, which then does not let the machine go off. The script
/// does no image twice, so that this ends.
fn until_done(guest: &Guest, job: &JobDir) -> Result<GuestReport> {
    let [hangs, status] = ["hangs", "status"].map(|name| job.path().join(name));
    loop {
        let report = guest.run_watched(job, &[], &|| hangs.exists() && status.exists())?;
        let Ok(what) = fs::read_to_string(&hangs) else { return Ok(report) };
        println!("does not end: {}", what.trim());
        for file in [&hangs, &status] {
            fs::remove_file(file)?;
        }
    }
}

/// Removes all files but those of these names, if there are any.
fn select(folder: &Path, names: &[String]) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !names.is_empty() && !names.contains(&name) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Runs a test that leaves its images in a folder.
fn kept(package: &str, test: &str, folder: &Path, variables: &[(&str, String)]) -> Result<()> {
    let mut tests = cargo();
    tests.args(["test", "--quiet", "-p", package, "--test", "it", test]);
    tests.env("ERASEBLOCK_KEEP", folder).current_dir(repository());
    for (name, value) in variables {
        tests.env(name, value);
    }
    ensure!(tests.status()?.success(), "{test} of {package} failed");
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("no {}", from.display()))? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Holds what Linux listed and said against what we list; prints counts for each kind, of which there must be
/// some if nothing was selected.
fn judge(folder: &Path, of_all: bool) -> Result<bool> {
    let mut counts: BTreeMap<&str, (u32, u32)> = KINDS.map(|kind| (kind, (0, 0))).into();
    for path in files(folder, "image")? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let kind = name.rsplit_once('-').map_or("", |(kind, _)| kind);
        let (passed, failed) = counts.get_mut(kind).context("an image of no kind")?;
        match mounted(&path) {
            Ok(()) => *passed += 1,
            Err(error) => {
                *failed += 1;
                println!("FAIL  {name}: {error:#}");
            }
        }
    }
    for (kind, (passed, failed)) in &counts {
        println!(
            "{kind}: {passed} mounted, listed, written to and unmounted without a message, {failed} not"
        );
    }
    Ok(counts.values().all(|(passed, failed)| (*passed > 0 || !of_all) && *failed == 0))
}

fn mounted(image: &Path) -> Result<()> {
    let read = |extension| fs::read_to_string(image.with_extension(extension)).unwrap_or_default();
    let log = [read("before"), read("dmesg")].concat();
    let said = complaints(&log, &[SMALL_RESERVE]);
    ensure!(said.is_empty(), "Linux says: {}", said.join("; "));
    let differences = differences(&read("list"), &read("found"), Ignore::OwnSizes);
    ensure!(differences.is_empty(), "{}", summary(&differences));
    ensure!(image.with_extension("ok").exists(), "Linux cannot write to it");
    Ok(())
}

/// Returns the files with an extension, in order.
pub(super) fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    Ok(paths)
}
