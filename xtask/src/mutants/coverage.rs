//! Which mutants each test reaches, and how long it takes: recorded once for each build.

use super::tree::{Program, Tree};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The longest test that judges mutants, in seconds.
const LONGEST: f64 = 20.0;

/// Address space of a test in KiB: some mutants allocate without bound.
const MEMORY: u32 = 6 << 20;

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

/// Tests by program, kept with the time at which it was built.
type Kept = BTreeMap<PathBuf, (u128, Vec<Test>)>;

/// Returns the tests of every program, from the last record if the program is the same. Fails if a
/// test fails without a mutant.
pub(super) fn coverage(tree: &Tree) -> Result<Vec<Covered>> {
    let path = tree.root.join("coverage.json");
    let mut kept: Kept =
        fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let mut covered = Vec::new();
    for program in &tree.programs {
        let built = built(&program.path)?;
        let known = kept.remove(&program.path).filter(|(time, _)| *time == built);
        let tests = match known {
            Some((_, tests)) => tests,
            None => record(tree, program)?,
        };
        let (group, mut tests) = (group(program), tests);
        kept.insert(program.path.clone(), (built, tests.clone()));
        fs::write(&path, serde_json::to_vec(&kept)?)?;
        tests.retain(|test| test.seconds <= LONGEST);
        covered.push(Covered { program: program.clone(), group, tests });
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
    let is_lab = program.folder.ends_with("lab");
    match program.name.as_str() {
        "lib" => Group::Unit,
        "cuts" => Group::Cuts,
        _ if is_lab => Group::Lab,
        _ => Group::Integration,
    }
}

/// Runs each test of a program by itself.
fn record(tree: &Tree, program: &Program) -> Result<Vec<Test>> {
    let listed = run(program, &["--list", "--format", "terse"], 60.0, &[])?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let file = tree.root.join("record");
    let mut tests = Vec::new();
    for name in names {
        if file.exists() {
            fs::remove_file(&file)?;
        }
        let begun = Instant::now();
        let path = file.to_str().context("the path of the repository is not UTF-8")?;
        let setting = [("ERASEBLOCK_MUTANT_RECORD", path)];
        let done = run(program, &["--exact", name], 600.0, &setting)?;
        let seconds = begun.elapsed().as_secs_f64();
        if !done.status.success() {
            bail!("{name} fails without a mutant:\n{}", String::from_utf8_lossy(&done.stdout));
        }
        let text = if file.exists() { fs::read_to_string(&file)? } else { String::new() };
        let reached = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        if seconds > LONGEST {
            println!("{name} takes {seconds:.0} s: it judges no mutants");
        }
        tests.push(Test { name: name.to_owned(), seconds, reached });
    }
    ensure!(!tests.is_empty() || program.name != "cuts", "there is no campaign");
    println!(
        "{} {}: {} tests, {:.0} s",
        program.folder.file_name().unwrap_or_default().to_string_lossy(),
        program.name,
        tests.len(),
        tests.iter().map(|test| test.seconds).sum::<f64>()
    );
    Ok(tests)
}

/// Runs a test program with limits of time and memory.
pub(super) fn run(
    program: &Program,
    args: &[&str],
    seconds: f64,
    settings: &[(&str, &str)],
) -> Result<Output> {
    let limits = format!("ulimit -v {MEMORY}; exec timeout -s KILL \"$@\"");
    let time = Duration::from_secs_f64(seconds).as_secs().max(1).to_string();
    let mut command = Command::new("sh");
    command.args(["-c", &limits, "sh", &time]).arg(&program.path).args(args);
    command.arg("--test-threads=1").current_dir(&program.folder).stdin(Stdio::null());
    // One thread, so that two mutants can be judged at once; no seeds left in the copy.
    command.env("RAYON_NUM_THREADS", "1").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    command.env("RUST_BACKTRACE", "0").env("CARGO_MANIFEST_DIR", &program.folder);
    command.envs(settings.iter().copied()).stderr(Stdio::null());
    command.output().with_context(|| format!("cannot run {}", program.path.display()))
}
