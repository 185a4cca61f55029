//! The guests of a session.

use super::image::Image;
use super::pile::{self, Pile};
use super::script::{Expected, to_text};
use super::served::Machine;
use super::session::{Given, Session};
use super::state::Level;
use super::variant::Variant;
use super::verdict::{Finding, Harm, judge};
use crate::evaluate::disk::System;
use crate::evaluate::disk::guest::{add_modules, program};
use crate::guest::{Guest, GuestReport, JobDir};
use crate::oracle::Paths;
use anyhow::{Result, bail, ensure};
use eraseblock_vfs_testkit::scripted::Step;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const SCRIPT: &str = include_str!("../../../guest/cuts.sh");
/// A guest that is silent for so long is stuck; its host may be busy.
const SILENCE: Duration = Duration::from_mins(10);
/// Boots after a stop, until what is left is given up.
const BOOTS: usize = 12;

/// What the guests of a session found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) judged: Vec<(Given, Vec<Finding>)>,
    pub(super) piles: Vec<(Variant, Level, Pile)>,
}

/// A judged state.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) cut: super::state::Cut,
    pub(super) findings: Vec<Finding>,
}

/// The devices of a machine: the disk with a cache, the control disk, and the disk without a cache.
fn devices(sockets: &[PathBuf; 2]) -> Vec<String> {
    let [data, control] = sockets;
    let disk = |socket: &Path, name: &str, cache: &str, write_cache: &str| {
        let file = format!("nbd+unix:///?socket={}", socket.display());
        [
            "-drive".to_owned(),
            format!("file={file},format=raw,if=none,id={name},cache={cache},discard=ignore"),
            "-device".to_owned(),
            format!(
                "virtio-blk-pci,drive={name},write-cache={write_cache},config-wce=off,\
                 request-merging=off,num-queues=1"
            ),
        ]
    };
    let disks = [
        disk(data, "cached", "none", "on"),
        disk(control, "control", "directsync", "off"),
        disk(data, "through", "directsync", "off"),
    ];
    disks.into_iter().flatten().collect()
}

/// Returns the programs of a file system.
pub(super) fn tools(system: System) -> Result<Vec<PathBuf>> {
    let names = ["dd"].into_iter().chain(system.needs().1).chain(super::variant::tool(system));
    names.map(program).collect()
}

fn job(guest: &Guest, paths: &Paths, system: System, steps: &[Step]) -> Result<JobDir> {
    let name = format!("cuts-{}", system.script_name());
    let job = JobDir::create(&paths.work.join(name))?;
    job.add_program(&paths.manifest_program)?;
    for tool in tools(system)? {
        job.add_with_libraries(&tool)?;
    }
    add_modules(&job, guest, system.needs().0)?;
    let preamble = system.preamble().unwrap_or_default();
    job.write("job.sh", [preamble, SCRIPT].concat())?;
    job.write("script", to_text(steps))?;
    for (name, script) in pile::scripts() {
        job.write(&name, script)?;
    }
    Ok(job)
}

/// Boots until the session is over.
pub(super) fn run(
    guest: &Guest,
    paths: &Paths,
    system: System,
    size: u64,
    steps: &[Step],
    session: &mut Session,
) -> Result<Found> {
    let mut found = Found::default();
    for _ in 0..BOOTS {
        let job = job(guest, paths, system, steps)?;
        let report = boot(guest, &job, size, session)?;
        println!("      {}: {:.0} s", system.script_name(), report.elapsed.as_secs_f64());
        collect(&job, &report, session, &mut found)?;
        if report.failure().is_none() {
            check_caches(&job)?;
            fs::remove_dir_all(job.path())?;
            return Ok(found);
        }
        if session.given.is_empty() {
            bail!("nothing was judged: {}", report.failure().unwrap_or_default());
        }
        session.interrupt();
    }
    println!("      {}: given up after {BOOTS} stops", system.script_name());
    Ok(found)
}

fn boot(guest: &Guest, job: &JobDir, size: u64, session: &mut Session) -> Result<GuestReport> {
    let machine = Machine::new(Image::new(size), session);
    let is_stuck = || machine.silence() > SILENCE;
    machine.serve(|sockets| guest.run_watched(job, &devices(&sockets), &is_stuck))?
}

/// A guest that takes a disk for another one proves nothing.
fn check_caches(job: &JobDir) -> Result<()> {
    let caches = fs::read_to_string(job.path().join("write_cache"))?;
    let kinds: Vec<&str> = caches.lines().filter(|line| line.starts_with("write ")).collect();
    ensure!(kinds == ["write back", "write through"], "the guest sees disks that are {kinds:?}");
    Ok(())
}

/// Reads the results of a boot.
fn collect(job: &JobDir, report: &GuestReport, session: &Session, found: &mut Found) -> Result<()> {
    let results = job.path().join("results");
    for (number, given) in session.given.iter().enumerate().skip(found.judged.len()) {
        let Some(recorded) = session.recordings.get(given.variant.recorded_as) else { continue };
        // Faults of the disk change positions.
        let recording = given.variant.faulty(&recorded.recording)?;
        let mark = recording.mark_before(given.cut.position);
        let expected = Expected::after(&recorded.steps, mark.filter(|mark| *mark > 0));
        let findings = match fs::read(results.join((number + 1).to_string())) {
            Ok(text) => judge(&String::from_utf8_lossy(&text), &expected),
            Err(_) => vec![Finding::new(Harm::Stopped, stop(report, job))],
        };
        found.judged.push((*given, findings));
    }
    for variant in super::variant::PLAIN {
        for level in Level::ALL {
            let pile = pile::read(&results, &variant, level)?;
            found.piles.extend(pile.map(|pile| (variant, level, pile)));
        }
    }
    Ok(())
}

/// Returns why a guest stopped, by the end of its console.
fn stop(report: &GuestReport, job: &JobDir) -> String {
    let console = fs::read(job.path().join("console")).unwrap_or_default();
    let console = String::from_utf8_lossy(&console);
    let last = console.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").to_owned();
    if report.timed_out { format!("no answer for {} s", SILENCE.as_secs()) } else { last }
}
