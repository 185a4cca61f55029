//! The guests: one records a workload, others judge the states that power cuts leave.

use super::image::Image;
use super::recording::Recording;
use super::script::{Expected, to_text, workload};
use super::served::{Conductor, Machine, Recorder};
use super::state::{Builder, Cut, Units};
use super::variant::Variant;
use super::verdict::{Finding, Harm, judge};
use crate::evaluate::disk::guest::{add_modules, program};
use crate::evaluate::lab::Lab;
use crate::guest::{Guest, GuestReport, JobDir};
use crate::oracle::Paths;
use anyhow::{Result, bail, ensure};
use eraseblock_vfs_testkit::scripted::Step;
use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const LIBRARY: &str = include_str!("../../../guest/cuts-lib.sh");
const RECORD: &str = include_str!("../../../guest/cuts-record.sh");
const JUDGE: &str = include_str!("../../../guest/cuts-judge.sh");
/// The seed of the workload.
pub(super) const SEED: u64 = 11;
/// A guest that is silent for so long is stuck.
const SILENCE: Duration = Duration::from_mins(5);
/// Boots after a stop, until the rest of the states is given up.
const BOOTS: usize = 12;

/// Returns everything that a guest runs to judge states.
pub(super) fn scripts() -> String {
    [LIBRARY, JUDGE].concat()
}

/// A recorded workload.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) steps: Vec<Step>,
    pub(super) recording: Arc<Recording>,
}

/// The devices of a machine: the disk with or without a cache, and the control disk.
pub(super) fn devices(sockets: &[PathBuf; 2], has_cache: bool) -> Vec<String> {
    let [cache, write_cache] = if has_cache { ["none", "on"] } else { ["directsync", "off"] };
    let disk = |socket: &PathBuf, name: &str, cache: &str, write_cache: &str| {
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
    let data = disk(&sockets[0], "data", cache, write_cache);
    let control = disk(&sockets[1], "control", "directsync", "off");
    data.into_iter().chain(control).collect()
}

/// Returns a job with the tools of a file system.
pub(super) fn job(
    guest: &Guest,
    paths: &Paths,
    variant: &Variant,
    name: &str,
    script: &str,
) -> Result<JobDir> {
    let job = JobDir::create(&paths.work.join(name))?;
    job.add_program(&paths.manifest_program)?;
    for tool in tools(variant)? {
        job.add_with_libraries(&tool)?;
    }
    add_modules(&job, guest, variant.system.needs().0)?;
    let preamble = variant.system.preamble().unwrap_or_default();
    let system = variant.system.script_name();
    let variables = format!("SYSTEM={system} OPTIONS='{}'\n", variant.options);
    job.write("job.sh", [preamble, &variables, LIBRARY, script].concat())?;
    Ok(job)
}

/// Returns the programs of a file system.
pub(super) fn tools(variant: &Variant) -> Result<Vec<PathBuf>> {
    let names = ["dd"].into_iter().chain(variant.system.needs().1).chain(variant.tool());
    names.map(program).collect()
}

/// Records the workload of a variant, or takes the recording of an earlier run.
pub(super) fn record(lab: &mut Lab, variant: &Variant, marks: u32) -> Result<Recorded> {
    let steps = workload(SEED, marks);
    let text = to_text(&steps);
    let mut inputs = lab
        .inputs()?
        .with("scripts", [LIBRARY, RECORD].concat())
        .with("workload", &text)
        .with("variant", variant.name)
        .with("options", variant.options)
        .with("bytes", variant.size().to_string());
    for tool in tools(variant)? {
        inputs = inputs.with_file("tool", &tool)?;
    }
    let (guest, paths) = (&lab.guest, &lab.paths);
    let name = format!("cuts-record-{}", variant.name);
    let part = lab.kept.part(&name, &inputs, |folder| {
        let job = job(guest, paths, variant, &name, RECORD)?;
        job.write("script", &text)?;
        let machine = Machine::new(Image::new(variant.size()), variant.recorder, None);
        let report = run(guest, &job, &machine, variant.has_cache)?;
        if let Some(reason) = report.failure() {
            bail!("{}: {reason}", variant.name);
        }
        let cache = fs::read_to_string(job.path().join("write_cache"))?;
        let expected = if variant.has_cache { "write back" } else { "write through" };
        ensure!(cache.trim() == expected, "the guest sees a disk that is {cache}");
        machine.into_recording().save(&folder.join("recording"))?;
        Ok(fs::remove_dir_all(job.path())?)
    })?;
    let recording = Recording::load(&part.folder.join("recording"))?;
    Ok(Recorded { steps, recording: Arc::new(recording) })
}

/// Boots with both disks.
pub(super) fn run(
    guest: &Guest,
    job: &JobDir,
    machine: &Machine,
    has_cache: bool,
) -> Result<GuestReport> {
    let is_stuck = || machine.silence() > SILENCE;
    machine.serve(|sockets| guest.run_watched(job, &devices(&sockets, has_cache), &is_stuck))?
}

/// The states that a guest was given, in order.
type Given = Arc<Mutex<Vec<Cut>>>;

/// Gives a guest one state after the other; equal images only once.
struct Feed {
    builder: Builder,
    left: VecDeque<Cut>,
    seen: HashSet<String>,
    given: Given,
}

impl Conductor for Feed {
    fn next(&mut self, disk: &mut Recording) -> io::Result<String> {
        while let Some(cut) = self.left.pop_front() {
            self.builder.advance(cut.position);
            let image = self.builder.image(cut).map_err(io::Error::other)?;
            if self.seen.insert(image.hash()) {
                disk.base = image;
                let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
                given.push(cut);
                return Ok(given.len().to_string());
            }
        }
        Ok("end".to_owned())
    }
}

/// A judged state.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) cut: Cut,
    pub(super) findings: Vec<Finding>,
}

/// Judges states in a guest, in the order of their positions; a state that stops the guest is judged by
/// that, and the next guest goes on after it.
pub(super) fn judge_states(
    guest: &Guest,
    paths: &Paths,
    variant: &Variant,
    recorded: &Recorded,
    cuts: &[Cut],
    units: Units,
) -> Result<Vec<Judged>> {
    let (mut judged, mut seen) = (Vec::new(), HashSet::new());
    let mut left: VecDeque<Cut> = cuts.iter().copied().collect();
    for _ in 0..BOOTS {
        let job = job(guest, paths, variant, &format!("cuts-judge-{}", variant.name), JUDGE)?;
        let given = Given::default();
        let builder = Builder::new(Arc::clone(&recorded.recording), units);
        let (from, given_to) = (left.clone(), Arc::clone(&given));
        let feed = Feed { builder, left: from, seen: seen.clone(), given: given_to };
        let base = Image::new(recorded.recording.base.size());
        let machine = Machine::new(base, Recorder::Off, Some(Box::new(feed)));
        let report = run(guest, &job, &machine, variant.has_cache)?;
        let given = given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ensure!(!given.is_empty(), "no state was judged: {}", report.tail);
        for (number, cut) in given.iter().enumerate() {
            let path = job.path().join("results").join((number + 1).to_string());
            let mark = recorded.recording.mark_before(cut.position);
            let expected = Expected::after(&recorded.steps, mark.filter(|mark| *mark > 0));
            let findings = match fs::read(path) {
                Ok(text) => judge(&String::from_utf8_lossy(&text), &expected),
                Err(_) => vec![Finding::new(Harm::Stopped, stop(&report, &job))],
            };
            judged.push(Judged { cut: *cut, findings });
        }
        let last = given.last().copied();
        let is_done = report.failure().is_none();
        fs::remove_dir_all(job.path())?;
        if is_done {
            return Ok(judged);
        }
        // Equal images were left out by the guest that stopped, and are by the next one.
        let mut builder = Builder::new(Arc::clone(&recorded.recording), units);
        for cut in &given {
            builder.advance(cut.position);
            seen.insert(builder.image(*cut)?.hash());
        }
        while left.front().is_some_and(|cut| last.is_some_and(|last| *cut <= last)) {
            left.pop_front();
        }
        if left.is_empty() {
            return Ok(judged);
        }
    }
    println!("      {}: {} states left after {BOOTS} stops", variant.name, left.len());
    Ok(judged)
}

/// Returns why a guest stopped, by the end of its console.
fn stop(report: &GuestReport, job: &JobDir) -> String {
    let console = fs::read(job.path().join("console")).unwrap_or_default();
    let console = String::from_utf8_lossy(&console);
    let last = console.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").to_owned();
    if report.timed_out { format!("no answer for {} s", SILENCE.as_secs()) } else { last }
}
