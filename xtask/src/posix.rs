//! Public suites that test mounts: pjdfstest, fsx, loads of stress-ng, fio and dbench, and everyday
//! programs, on UBIFS and JFFS2 mounted by the command; the first two also on the model file system
//! through the same FUSE adapter. Tests that are left out are printed with the reason; the oracle's
//! guest verifies that the reason applies to Linux's own file systems, too.

mod day;
mod fsx;
mod load;
mod mounts;
mod pjdfstest;
mod score;
mod sqlite;

use crate::command::repository;
use anyhow::{Context, Result, bail};
use mounts::{Kind, Mount};
use score::Score;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Their names.
const SUITES: [&str; 4] = ["pjdfstest", "fsx", "load", "day"];

/// The extent of the tests.
#[derive(Clone, Copy, Debug)]
struct Extent<'a> {
    /// Seeds of fsx, and operations of each.
    fsx: (u32, u32),
    /// Time of each load.
    load: Duration,
    /// Whether to run everything that takes minutes.
    is_full: bool,
    /// Part of a kernel's sources, to unpack in full.
    kernel: Option<&'a Path>,
}

impl Extent<'_> {
    const SHORT: Self =
        Self { fsx: (2, 2_000), load: Duration::from_secs(4), is_full: false, kernel: None };
    const FULL: Self =
        Self { fsx: (10, 100_000), load: Duration::from_secs(200), is_full: true, kernel: None };
}

/// Runs the suites. `--short` takes about two minutes and may skip tests, with the reason, if the
/// host has no FUSE; otherwise a suite that cannot run has failed. `--only ubifs|jffs2|model`
/// selects one kind of mount, `--suite pjdfstest|fsx|load|day` one suite, `--suite linux` pjdfstest
/// on Linux's own file systems, `--tree DIR` local sources of a kernel.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let is_short = arguments.iter().any(|argument| argument == "--short");
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).map(String::as_str)
    };
    let (only, suite) = (value("--only"), value("--suite"));
    if let Err(error) = fs::File::options().read(true).write(true).open("/dev/fuse") {
        return without_fuse(is_short, &error);
    }
    let [work, bench] = ["target/posix", "target/bench"].map(|dir| repository().join(dir));
    for dir in [&work, &bench] {
        fs::create_dir_all(dir)?;
    }
    let is_untarred = !is_short && suite.is_none_or(|suite| suite == "day");
    let kernel = match value("--tree") {
        Some(tree) => Some(PathBuf::from(tree)),
        None if is_untarred => Some(crate::bench::source_tree(&bench)?),
        None => None,
    };
    let extent = if is_short { Extent::SHORT } else { Extent::FULL };
    let extent = Extent { kernel: kernel.as_deref(), ..extent };
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| only.is_none_or(|only| kind.name() == only)).collect();
    if kinds.is_empty() {
        bail!("--only takes ubifs, jffs2 or model");
    }
    if suite.is_some_and(|suite| suite != "linux" && !SUITES.contains(&suite)) {
        bail!("--suite takes {} or linux", SUITES.join(", "));
    }
    // pjdfstest mostly sleeps, so the kinds run in parallel.
    let results: Vec<Result<Vec<Score>>> = std::thread::scope(|scope| {
        let job = |kind: Kind| {
            let work = work.join(kind.name());
            scope.spawn(move || judge(kind, &work, extent, suite))
        };
        let is_linux_asked =
            !is_short && only.is_none() && suite.is_none_or(|suite| suite == "linux");
        let linux = is_linux_asked.then(|| scope.spawn(|| Ok(pjdfstest::linux::run())));
        let threads: Vec<_> = kinds.into_iter().map(job).chain(linux).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|result| result.unwrap_or_else(|_| bail!("a suite's thread died"))).collect()
    });
    let scores: Vec<Vec<Score>> = results.into_iter().collect::<Result<_>>()?;
    let scores = scores.concat();
    print!("{}", score::table(&scores));
    Ok(is_good(&scores))
}

/// Returns whether something was tested and nothing failed.
fn is_good(scores: &[Score]) -> bool {
    !scores.is_empty() && scores.iter().all(|score| score.failed == 0)
}

/// A suite that cannot run is not a failure in the short form, which is one test of many; it is one
/// if the suites themselves were requested.
fn without_fuse(is_short: bool, error: &std::io::Error) -> Result<bool> {
    if is_short {
        eprintln!("left out: all suites: /dev/fuse: {error}");
        return Ok(true);
    }
    bail!("no suite can run: /dev/fuse: {error} (only --short may leave them out)")
}

/// Runs the suites on one kind of mount, each on a new file system.
fn judge(kind: Kind, work: &Path, extent: Extent<'_>, suite: Option<&str>) -> Result<Vec<Score>> {
    fs::create_dir_all(work)?;
    let mut scores = Vec::new();
    for name in SUITES {
        let is_for_model = matches!(name, "pjdfstest" | "fsx");
        if suite.is_some_and(|suite| suite != name) || kind == Kind::Model && !is_for_model {
            continue;
        }
        let score = on_new(kind, work, extent, name);
        scores.push(score.unwrap_or_else(|error| Score::stopped(name, kind, &error)));
    }
    Ok(scores)
}

/// Runs one suite on a new file system and checks the file system afterwards.
fn on_new(kind: Kind, work: &Path, extent: Extent<'_>, suite: &str) -> Result<Score> {
    let mount = Mount::new(kind, work, extent.is_full)?;
    let dir = mount.dir();
    let score = match suite {
        "pjdfstest" => pjdfstest::run(kind, work, dir),
        "fsx" => fsx::run(kind, work, dir, extent.fsx),
        "load" => load::run(kind, work, dir, extent),
        _ => day::run(kind, work, dir, extent),
    }?;
    mount.end()?;
    Ok(score)
}

/// Returns the command for a program of the suites.
fn tool(name: &str) -> Command {
    Command::new(repository().join("target/tools/bin").join(name))
}

/// Returns the first of these that exists.
fn installed(name: &str) -> Result<PathBuf> {
    crate::command::find_program(name)
        .with_context(|| format!("{name} is not installed: `make test-posix` as root installs it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_short_form_may_be_left_out() {
        let closed = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert!(without_fuse(true, &closed()).unwrap());
        let error = without_fuse(false, &closed()).unwrap_err().to_string();
        assert!(error.contains("/dev/fuse: permission denied"), "{error}");
        assert!(run(&["--suite".to_owned(), "none".to_owned()]).is_err());
    }

    /// Suites whose packages were missing once counted as passed.
    #[test]
    fn what_did_not_run_is_not_good() {
        let stopped = Score::stopped("linux", Kind::Ubifs, &anyhow::anyhow!("not installed"));
        assert!(!is_good(&[stopped]));
        assert!(!is_good(&[]));
        assert!(is_good(&[Score::passed("fsx", Kind::Model, 2, "seeds".to_owned())]));
    }
}
