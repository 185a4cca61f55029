//! The kernel oracle: real Linux decides whether images are right.
//!
//! - `linux-writes`: real Linux writes images, clean and cut off, and lists what it sees.
//! - `we-read`: our reader reads these images, and the results are compared.
//! - `host-devices`: our programs use `/dev/mtdX` and `/dev/ubiX_Y` inside the guest, and mount
//!   them alternately with Linux.
//! - `ubi-chips`: Linux attaches chips that we wore and cut, and we attach those that ubi-utils
//!   wore.
//! - `ubi-fastmap`: Linux attaches images by the fastmap that we wrote.
//! - `linux-mounts-ours`: Linux checks, lists and uses images that our builder made.
//! - `linux-mounts-pretended`: Linux lists images of trees that only fakeroot shows, ours and those
//!   of mtd-utils.
//! - `we-write-ubifs` and `we-write-jffs2`: we and Linux write one file system alternately.

pub(crate) mod batch;
pub(crate) mod compare;
mod host_devices;
mod host_mounts;
mod jffs2_chips;
mod jffs2_ours;
mod jffs2_writes;
mod linux_writes;
mod mounts_ours;
mod pretended;
mod ubi_chips;
mod ubi_fastmap;
mod views;
mod we_read;
mod we_write;
mod written;

use crate::command::{cargo, repository};
use crate::guest::Guest;
use crate::kernel::{Kernel, cache_dir, missing_packages};
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The paths of everything.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Job directories of the guest.
    pub(crate) work: PathBuf,
    /// Images made by Linux, one directory each.
    pub(crate) images: PathBuf,
    /// The static `oracle-manifest`.
    pub(crate) manifest_program: PathBuf,
    /// Our command.
    pub(crate) ours: PathBuf,
    /// This program, for `xtask subject`.
    pub(crate) xtask: PathBuf,
    keep: bool,
}

impl Paths {
    /// Removes the files of a batch, unless they are to be kept.
    pub(crate) fn finish(&self, batch: batch::Batch) -> Result<()> {
        if self.keep { Ok(()) } else { batch.remove() }
    }
}

/// The checks that vary another one in a compressor, a chip or a moment: `--short` leaves them out.
const VARIED: [&str; 37] = [
    "linux-writes/nand2k-lzo",
    "linux-writes/nand512-none",
    "linux-writes/nand4k-zstd",
    "linux-writes/jffs2-nor-zlib",
    "linux-writes/jffs2-nand512",
    "linux-mounts-ours/zlib",
    "linux-mounts-ours/none",
    "linux-mounts-ours/zstd",
    "linux-mounts-ours/no-subpage",
    "linux-mounts-ours/big-tree",
    "linux-mounts-ours/personality",
    "linux-mounts-ours/small-pages",
    "linux-mounts-ours/repaired-big-lpt",
    "ubi-fastmap/build-ubiformat",
    "ubi-fastmap/build-two-blocks",
    "ubi-fastmap/build-bad-first",
    "ubi-fastmap/build-bad-after",
    "ubi-chips/ours-nand2k-cut-early",
    "ubi-chips/ours-nand512-worn",
    "ubi-chips/ours-nand512-cut-late",
    "ubi-chips/ours-nor-worn",
    "ubi-chips/linux-nand512",
    "we-write-jffs2/nand2k-with-oob",
    "we-write-jffs2/nand2k",
    "we-write-jffs2/nand512",
    "we-write-jffs2/nor-without-summary",
    "host-devices/nand512",
    "host-devices/nand2k-bad-blocks",
    "host-devices/nor",
    "host-devices/mount-ubifs-nor",
    "host-devices/mount-jffs2-nand2k",
    "host-devices/mount-jffs2-nand512",
    "linux-mounts-ours/jffs2-nor-lzo",
    "linux-mounts-ours/jffs2-nor-rtime",
    "linux-mounts-ours/jffs2-personality-nand",
    "linux-mounts-pretended/mtd-utils",
    "linux-mounts-pretended/mtd-utils-jffs2",
];

/// Returns the check that decides whether one is [`VARIED`]: an image is read if it was written.
fn decisive(name: &str) -> String {
    let image = name.strip_prefix("we-read/").and_then(|image| image.rsplit_once('-'));
    image.map_or_else(|| name.to_owned(), |(case, _)| format!("linux-writes/{case}"))
}

/// Which checks run, and how long each one lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Extent {
    /// Without the [`VARIED`] ones: one round of a file system that is written alternately, and a
    /// quarter of the operations by which Linux writes its images.
    Short,
    #[default]
    Full,
}

impl Extent {
    fn rounds(self) -> u32 {
        if self == Self::Short { 1 } else { u32::MAX }
    }

    /// Linux performs one operation in so many.
    fn share(self) -> NonZeroU32 {
        const QUARTER: NonZeroU32 = NonZeroU32::new(4).unwrap();
        if self == Self::Short { QUARTER } else { NonZeroU32::MIN }
    }
}

/// Counts and prints the outcome of named checks.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    only: Option<String>,
    extent: Extent,
    passed: u32,
    failed: u32,
}

impl Checks {
    /// Returns checks that have the same request and count from zero.
    fn same(&self) -> Self {
        Self { only: self.only.clone(), extent: self.extent, passed: 0, failed: 0 }
    }

    /// Returns whether a check was requested.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let is_left_out = self.extent == Extent::Short && VARIED.contains(&decisive(name).as_str());
        !is_left_out && self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Adds the counts of others.
    pub(crate) fn add(&mut self, others: &Self) {
        self.passed += others.passed;
        self.failed += others.failed;
    }

    /// Prints the counts, and returns whether no check failed.
    pub(crate) fn finish(&self) -> bool {
        println!("{} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }

    /// Prints and counts the outcome of a check.
    pub(crate) fn record(&mut self, name: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("pass  {name}");
            }
            Err(reason) => {
                self.failed += 1;
                println!("FAIL  {name}: {reason:#}");
            }
        }
    }
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
struct Options {
    only: Option<String>,
    list: bool,
    keep: bool,
    fresh: bool,
    prepare: bool,
    extent: Extent,
    ours: Option<PathBuf>,
    builder: mounts_ours::Builder,
}

fn options(args: &[String]) -> Result<Options> {
    let mut options = Options::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--only" => options.only = Some(value()?.clone()),
            "--bin" => options.ours = Some(PathBuf::from(value()?)),
            "--builder" => options.builder = value()?.parse()?,
            "--list" => options.list = true,
            "--keep" => options.keep = true,
            "--fresh" => options.fresh = true,
            "--prepare" => options.prepare = true,
            "--short" => options.extent = Extent::Short,
            other => bail!("unknown argument {other}"),
        }
    }
    Ok(options)
}

/// `cargo xtask oracle`: returns false if a check failed. `--prepare` only fetches and builds the
/// parts of the guest; `--short` is the extent of `make test`.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let options = options(args)?;
    let only = options.only.clone();
    let checks = Checks { only, extent: options.extent, ..Checks::default() };
    let mut names = names();
    names.retain(|name| checks.wants(name));
    if options.list {
        println!("{}", names.join("\n"));
        return Ok(true);
    }
    if let Some(outcome) = left_out(&names) {
        return Ok(outcome);
    }
    if names.is_empty() {
        bail!("no check is called that (hint: --list)");
    }
    let ours = our_command(options.ours.as_deref(), &names)?;
    let (guest, paths) = machine(ours, options.keep)?;
    if options.prepare {
        return Ok(true);
    }
    let checks = in_lanes(jobs(&guest, &paths, &options), &checks)?;
    Ok(checks.finish())
}

/// Names of all checks.
fn names() -> Vec<String> {
    let mut names = linux_writes::names();
    names.extend(jffs2_writes::names());
    names.extend(we_read::names());
    names.extend(host_devices::names());
    names.extend(host_mounts::names());
    names.extend(ubi_chips::names());
    names.extend(ubi_fastmap::names());
    names.extend(mounts_ours::names());
    names.extend(pretended::names());
    names.extend(jffs2_ours::names());
    names.extend(we_write::names());
    names
}

/// Checks that share guests.
type Job<'a> = Box<dyn FnOnce(&mut Checks) -> Result<()> + Send + 'a>;

/// Number of concurrent guests: each keeps about one processor busy, and has 2 GiB of memory.
const LANES: usize = 2;

/// Returns all jobs, the longest ones first.
fn jobs<'a>(guest: &'a Guest, paths: &'a Paths, options: &'a Options) -> Vec<Job<'a>> {
    let (rounds, share) = (options.extent.rounds(), options.extent.share());
    vec![
        Box::new(move |checks| {
            linux_writes::run(guest, paths, options.fresh, share, checks)?;
            jffs2_writes::run(guest, paths, options.fresh, share, checks)?;
            // It reads the images that these wrote.
            we_read::run(paths, checks);
            Ok(())
        }),
        Box::new(move |checks| we_write::run(guest, paths, rounds, checks)),
        Box::new(|checks| mounts_ours::run(guest, paths, options.builder, checks)),
        Box::new(|checks| ubi_chips::run(guest, paths, checks)),
        Box::new(|checks| ubi_fastmap::run(guest, paths, checks)),
        Box::new(|checks| host_devices::run(guest, paths, checks)),
        Box::new(|checks| host_mounts::run(guest, paths, checks)),
        Box::new(|checks| pretended::run(guest, paths, checks)),
        Box::new(|checks| jffs2_ours::run(guest, paths, checks)),
    ]
}

/// Runs the jobs, [`LANES`] at a time, and sums up their checks.
fn in_lanes(jobs: Vec<Job<'_>>, checks: &Checks) -> Result<Checks> {
    let queue = Mutex::new(VecDeque::from(jobs));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let lane = || -> Result<Checks> {
        let mut mine = checks.same();
        while let Some(job) = next() {
            job(&mut mine)?;
        }
        Ok(mine)
    };
    let lanes: Vec<Result<Checks>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|lane| lane.unwrap_or_else(|_| bail!("a lane panicked"))).collect()
    });
    let mut all = Checks::default();
    for lane in lanes {
        all.add(&lane?);
    }
    Ok(all)
}

/// Returns a guest for jobs with our command, and where everything is.
pub(crate) fn machine(ours: PathBuf, keep: bool) -> Result<(Guest, Paths)> {
    let xtask = std::env::current_exe()?;
    let programs = [ours.as_path(), xtask.as_path()].into_iter().filter(|path| path.exists());
    let guest = Guest::new(Kernel::prepare(&programs.collect::<Vec<_>>())?);
    let paths = Paths {
        work: cache_dir().join("work"),
        images: cache_dir().join("images"),
        manifest_program: build_manifest_program()?,
        ours,
        xtask,
        keep,
    };
    Ok((guest, paths))
}

/// Reports which checks are left out if the oracle is not available, and returns whether that is
/// accepted.
fn left_out(names: &[String]) -> Option<bool> {
    let accepted = std::env::var_os("ERASEBLOCK_NO_ORACLE").is_some_and(|value| value == "1");
    let missing = missing_packages();
    if !accepted && missing.is_empty() {
        return None;
    }
    for name in names {
        println!("left out  {name}");
    }
    if accepted {
        println!("{} checks left out: ERASEBLOCK_NO_ORACLE=1", names.len());
    } else {
        println!(
            "{} checks left out: these Debian packages are not installed: {} \
             (hint: make setup, or ERASEBLOCK_NO_ORACLE=1)",
            names.len(),
            missing.join(" ")
        );
    }
    println!("0 passed, {} failed", if accepted { 0 } else { names.len() });
    Some(accepted)
}

/// Returns our command: the given one, or the release build, built now if a check needs it.
pub(crate) fn our_command(given: Option<&Path>, names: &[String]) -> Result<PathBuf> {
    if let Some(path) = given {
        return path.canonicalize().with_context(|| format!("no {}", path.display()));
    }
    let built = repository().join("target/release/eraseblock");
    if names.iter().any(|name| !name.starts_with("linux-writes/")) {
        let mut build = cargo();
        build.args(["build", "--quiet", "--release", "--package", "eraseblock-cli"]);
        if !build.current_dir(repository()).status()?.success() {
            bail!("cannot build eraseblock");
        }
    }
    Ok(built)
}

/// Builds `oracle-manifest` without shared libraries, so that it runs in the guest. What hashes in
/// it is optimised in tests, too (Cargo.toml).
fn build_manifest_program() -> Result<PathBuf> {
    let target = "x86_64-unknown-linux-gnu";
    let status = cargo()
        .args(["build", "--quiet", "--package", "oracle-manifest", "--target", target])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(repository())
        .status()?;
    if !status.success() {
        bail!("cannot build oracle-manifest");
    }
    Ok(repository().join("target").join(target).join("debug/oracle-manifest"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varied_check_exists_and_leaves_others_of_its_kind() {
        let (all, checks) = (names(), Checks { extent: Extent::Short, ..Checks::default() });
        for varied in VARIED {
            assert!(all.iter().any(|name| name == varied), "there is no {varied}");
            let (kind, _) = varied.split_once('/').unwrap();
            let is_kept = |name: &&String| name.starts_with(kind) && checks.wants(name);
            assert!(all.iter().filter(is_kept).count() > 1, "{kind}");
        }
        // What Linux does not write is not read either.
        assert!(!checks.wants("we-read/nand2k-lzo-cut1"));
        assert!(checks.wants("we-read/nand2k-zstd-cut1"));
        assert!(Checks::default().wants("we-read/nand2k-lzo-cut1"));
    }
}
