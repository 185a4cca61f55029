//! Which mutants each test reaches, and how long it takes: recorded once for each build.

use super::tree::{Judges, Program, Tree};
use crate::command::repository;
use crate::suite::ended;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

/// The longest test that judges mutants, in seconds of processor time.
const LONGEST: f64 = 10.0;
/// The same in a quick run.
const LONGEST_QUICK: f64 = 2.0;

/// Address space of a test in KiB: some mutants allocate without bound.
const MEMORY: u32 = 3 << 20;

/// A test is killed after this many times its limit of processor time.
const WAITING: u64 = 10;

const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// Where tests make their temporary files.
pub(super) const SCRATCH: &str = "target/mutants/tmp";

/// The crate whose tests may reach mutants of every other one.
const LAB: &str = "lab";

/// Who judges, cheapest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Group {
    /// Tests inside of a crate.
    Unit,
    /// Integration tests of a crate.
    Integration,
    /// The short power-cut campaigns.
    Cuts,
    /// Tests of the lab: promises, faults, longer campaigns.
    Lab,
}

/// A test, as it ran without a mutant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) seconds: f64,
    /// Numbers of mutants.
    pub(super) reached: BTreeSet<usize>,
}

/// A test program with its tests.
#[derive(Debug)]
pub(super) struct Covered {
    pub(super) program: Program,
    pub(super) group: Group,
    pub(super) tests: Vec<Test>,
}

/// Tests by program, kept with the time at which it was built and the longest test in seconds.
type Kept = BTreeMap<PathBuf, (u128, f64, Vec<Test>)>;

/// Returns the tests of these crates and of the lab, from the last record if the program is the
/// same. Fails if a test fails without a mutant.
pub(super) fn coverage(
    tree: &Tree,
    rooms: &BTreeSet<&str>,
    judges: Judges,
) -> Result<Vec<Covered>> {
    let longest = match judges {
        Judges::All => LONGEST,
        Judges::OfTheCrates => LONGEST_QUICK,
    };
    let path = tree.root.join("coverage.json");
    let mut kept: Kept = fs::read(&path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let mut covered = Vec::new();
    let is_needed = |it: &&Program| it.room() == LAB || rooms.contains(it.room());
    for program in tree.programs.iter().filter(is_needed) {
        let built = built(&program.path)?;
        let known = kept.remove(&program.path);
        let (limit, tests) = match known {
            Some((time, limit, tests)) if time == built && limit >= longest => (limit, tests),
            _ => (longest, record(tree, program, longest)?),
        };
        kept.insert(program.path.clone(), (built, limit, tests.clone()));
        fs::write(&path, serde_json::to_vec(&kept)?)?;
        covered.push(Covered { program: program.clone(), group: group(program), tests });
    }
    kept.retain(|path, _| tree.programs.iter().any(|program| program.path == *path));
    fs::write(&path, serde_json::to_vec(&kept)?)?;
    covered.sort_by_key(|it| it.group);
    Ok(covered)
}

fn built(path: &Path) -> Result<u128> {
    let modified = fs::metadata(path)?.modified()?;
    Ok(modified.duration_since(UNIX_EPOCH)?.as_nanos())
}

fn group(program: &Program) -> Group {
    match program.name.as_str() {
        "cuts" => Group::Cuts,
        _ if program.room() == LAB => Group::Lab,
        "lib" => Group::Unit,
        _ => Group::Integration,
    }
}

/// Runs each test of a program by itself.
fn record(tree: &Tree, program: &Program, longest: f64) -> Result<Vec<Test>> {
    let listed = run(program, &["--list", "--format", "terse"], 60.0, &[])?;
    let names: Vec<&str> =
        listed.text.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let file = tree.root.join("record");
    let mut tests = Vec::new();
    for name in names {
        if file.exists() {
            fs::remove_file(&file)?;
        }
        let path = file.to_str().context("the path of the repository is not UTF-8")?;
        let setting = [("ERASEBLOCK_MUTANT_RECORD", path)];
        let done = run(program, &["--exact", name], longest, &setting)?;
        if done.is_timeout {
            println!("{name} takes more than {longest} s: it judges no mutants");
            continue;
        }
        ensure!(done.is_good, "{name} fails without a mutant:\n{}", done.text);
        let text = if file.exists() { fs::read_to_string(&file)? } else { String::new() };
        let reached = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        tests.push(Test { name: name.to_owned(), seconds: done.seconds, reached });
    }
    ensure!(!tests.is_empty() || program.name != "cuts", "there is no campaign");
    println!(
        "{} {}: {} tests, {:.0} s",
        program.room(),
        program.name,
        tests.len(),
        tests.iter().map(|test| test.seconds).sum::<f64>()
    );
    Ok(tests)
}

/// A test program that ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) is_good: bool,
    /// Whether a limit of time ended it.
    pub(super) is_timeout: bool,
    pub(super) text: String,
    /// Processor time, which other programs on the machine do not change.
    pub(super) seconds: f64,
}

/// Runs a test program with limits of time and memory. One that waits for ever uses no processor
/// time, so that it is killed after a multiple of it.
pub(super) fn run(
    program: &Program,
    args: &[&str],
    seconds: f64,
    settings: &[(&str, &str)],
) -> Result<Ran> {
    let seconds = Duration::from_secs_f64(seconds).as_secs() + 1;
    let limits = format!(
        "ulimit -v {MEMORY} && ulimit -t {seconds} && exec timeout -s KILL {} \"$@\"",
        seconds * WAITING
    );
    // Tests that are killed leave their files.
    let scratch = repository().join(SCRATCH);
    fs::create_dir_all(&scratch)?;
    let mut out = tempfile::tempfile()?;
    let mut command = Command::new("sh");
    command.args(["-c", &limits, "sh"]).arg(&program.path).args(args).arg("--test-threads=1");
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.env("TMPDIR", scratch).env("RUST_BACKTRACE", "0").envs(settings.iter().copied());
    // One thread, so that two mutants can be judged at once; no seeds left in the copy.
    command.env("RAYON_NUM_THREADS", "1").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(out.try_clone()?);
    let child = command.spawn();
    let mut child = child.with_context(|| format!("cannot run {}", program.path.display()))?;
    let (status, processor) = ended(&mut child)?;
    let mut bytes = Vec::new();
    out.rewind()?;
    out.read_to_end(&mut bytes)?;
    let signal = status.signal().or_else(|| status.code().map(|code| code - 128));
    Ok(Ran {
        is_good: status.success(),
        is_timeout: matches!(signal, Some(SIGKILL | SIGXCPU)),
        text: String::from_utf8_lossy(&bytes).into_owned(),
        seconds: processor.as_secs_f64(),
    })
}
