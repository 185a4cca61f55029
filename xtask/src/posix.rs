//! Public suites that judge mounts: pjdfstest, fsx, loads of stress-ng, fio and dbench, and a
//! user's day, on UBIFS and JFFS2 mounted by the command; the first two also on the model file
//! system behind the same FUSE adapter. What a suite leaves out is printed with the reason.

mod day;
mod fsx;
mod load;
mod mounts;
mod pjdfstest;

use crate::command::repository;
use anyhow::{Context, Result, bail};
use mounts::{Kind, Mount};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How much of everything is done.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Seeds of fsx, and operations of each.
    fsx: (u32, u32),
    /// Time of each load.
    load: Duration,
    /// Everything that takes minutes.
    is_full: bool,
}

impl Extent {
    const SHORT: Self = Self { fsx: (2, 2_000), load: Duration::from_secs(4), is_full: false };
    const FULL: Self = Self { fsx: (10, 100_000), load: Duration::from_secs(200), is_full: true };
}

/// Runs the suites. `--short` takes about two minutes; `--only ubifs|jffs2|model` takes one kind
/// of mount, `--suite pjdfstest|fsx|load|day` one suite.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let is_short = arguments.iter().any(|argument| argument == "--short");
    let extent = if is_short { Extent::SHORT } else { Extent::FULL };
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).map(String::as_str)
    };
    let (only, suite) = (value("--only"), value("--suite"));
    if fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        eprintln!("left out: all suites: /dev/fuse cannot be opened");
        return Ok(true);
    }
    let work = repository().join("target/posix");
    fs::create_dir_all(&work)?;
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| only.is_none_or(|only| kind.name() == only)).collect();
    if kinds.is_empty() {
        bail!("--only takes ubifs, jffs2 or model");
    }
    // Most of the time of pjdfstest is sleep: the kinds run side by side.
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let job = |kind: Kind| {
            let work = work.join(kind.name());
            scope.spawn(move || {
                judge(kind, &work, extent, suite).with_context(|| kind.name().to_owned())
            })
        };
        let threads: Vec<_> = kinds.into_iter().map(job).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|result| result.unwrap_or_else(|_| bail!("a suite's thread died"))).collect()
    });
    let mut is_good = true;
    for error in results.into_iter().filter_map(Result::err) {
        eprintln!("posix: {error:#}");
        is_good = false;
    }
    Ok(is_good)
}

/// Runs the suites on one kind of mount, each on a new file system.
fn judge(kind: Kind, work: &Path, extent: Extent, suite: Option<&str>) -> Result<()> {
    fs::create_dir_all(work)?;
    let wanted = |name: &str| suite.is_none_or(|suite| suite == name);
    let on_new = |judge: &dyn Fn(&Path) -> Result<()>| {
        let mount = Mount::new(kind, work, extent.is_full)?;
        judge(mount.dir())?;
        mount.end()
    };
    if wanted("pjdfstest") {
        on_new(&|dir| pjdfstest::run(kind, work, dir))?;
    }
    if wanted("fsx") {
        on_new(&|dir| fsx::run(kind, work, dir, extent.fsx))?;
    }
    if kind == Kind::Model {
        return Ok(());
    }
    if wanted("load") {
        on_new(&|dir| load::run(kind, work, dir, extent))?;
    }
    if wanted("day") {
        on_new(&|dir| day::run(kind, work, dir, extent.is_full))?;
    }
    Ok(())
}

/// A program of the suites.
fn tool(name: &str) -> Command {
    Command::new(repository().join("target/tools/bin").join(name))
}

/// The first of these that exists.
fn installed(name: &str) -> Result<PathBuf> {
    crate::command::find_program(name)
        .with_context(|| format!("{name} is not installed: `make test-posix` as root installs it"))
}
