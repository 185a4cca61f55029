//! pjdfstest on Linux's own UBIFS and JFFS2, in the oracle's guest: a test that is excluded here
//! must fail there, too.

use super::{CONFIGURATION, Excluded, LINK_COUNT_MAX, REMOUNTING, failed};
use crate::command::repository;
use crate::guest::{Guest, JobDir};
use crate::kernel::{Kernel, cache_dir, missing_packages};
use crate::posix::mounts::Kind;
use crate::posix::score::Score;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The suite's name in the table.
const SUITE: &str = "linux";

/// Boots once and judges both.
pub(in crate::posix) fn run() -> Vec<Score> {
    let kinds = [Kind::Ubifs, Kind::Jffs2];
    let missing = missing_packages();
    if !missing.is_empty() {
        let error = anyhow::anyhow!("{} are not installed", missing.join(", "));
        return kinds.map(|kind| Score::stopped(SUITE, kind, &error)).to_vec();
    }
    match boot() {
        Ok(job) => kinds
            .map(|kind| {
                let log =
                    |what| fs::read_to_string(job.join(format!("{}-{what}.log", kind.name())));
                let score = match (log("everything"), log("erofs")) {
                    (Ok(all), Ok(remounting)) => score(kind, &all, &remounting),
                    (Err(error), _) | (_, Err(error)) => Err(error).context("no log"),
                };
                score.unwrap_or_else(|error| Score::stopped(SUITE, kind, &error))
            })
            .to_vec(),
        Err(error) => kinds.map(|kind| Score::stopped(SUITE, kind, &error)).to_vec(),
    }
}

/// Runs the suite in the guest; returns the directory of the logs.
fn boot() -> Result<PathBuf> {
    let program = repository().join("target/tools/bin/pjdfstest");
    let mut guest = Guest::new(Kernel::prepare(&[&program])?);
    guest.timeout = Duration::from_hours(1);
    let dir = cache_dir().join("work/pjdfstest");
    let job = JobDir::create(&dir)?;
    job.add_program(&program)?;
    job.write("lib.sh", include_str!("../../../guest/lib.sh"))?;
    job.write("job.sh", include_str!("../../../guest/pjdfstest.sh"))?;
    let text = CONFIGURATION.replace("NAP", "1.02").replace("RENAME", "rename_ctime = {}");
    job.write("pjdfstest.toml", text)?;
    match guest.run(&job)?.failure() {
        Some(failure) => bail!("{failure}"),
        None => Ok(dir),
    }
}

/// Compares the failures of Linux with the tests excluded here.
fn score(kind: Kind, everything: &str, remounting: &str) -> Result<Score> {
    let failed: BTreeSet<&str> = failed(everything).union(&failed(remounting)).copied().collect();
    let (passed, skipped) = (count(everything, "passed")?, count(everything, "skipped")?);
    let more = count(remounting, "passed")?;
    ensure!(skipped == REMOUNTING + 1, "{skipped} tests are skipped, {LINK_COUNT_MAX} expected");
    let mut remarks = Vec::new();
    let mut known = BTreeSet::new();
    for Excluded { names, why } in kind.excluded().iter().chain(kind.skipped()) {
        for name in *names {
            let found: Vec<&str> =
                failed.iter().filter(|failed| failed.starts_with(name)).copied().collect();
            ensure!(!found.is_empty(), "{name} is excluded here and passes on Linux's own");
            known.extend(found);
        }
        remarks.push(format!("fails, too: {}: {why}", names.join(", ")));
    }
    let alone: Vec<&str> = failed.difference(&known).copied().collect();
    if !alone.is_empty() {
        remarks.push(format!("fails, and passes on ours: {}", alone.join(", ")));
    }
    let unit = "tests of pjdfstest on Linux's own; excluded are those that fail".to_owned();
    let score = Score::passed(SUITE, kind, passed + more, unit);
    Ok(Score { excluded: u32::try_from(failed.len())?, remarks, ..score })
}

/// Returns a number of the summary.
fn count(log: &str, what: &str) -> Result<u32> {
    let summary = log.lines().find_map(|line| line.strip_prefix("Summary: ")).unwrap_or_default();
    let number = |part: &str| part.strip_suffix(what)?.trim().parse().ok();
    summary.split(", ").find_map(number).with_context(|| format!("no summary: {summary:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOUNTS: &str = "Summary: 0 failed, 0 skipped, 13 passed, 0 expected failures, 13 total";

    #[test]
    fn an_exclusion_must_hold_on_linux() {
        let log = "utimensat::subsecond FAILED\nchmod::x FAILED\n\
                   Summary: 2 failed, 14 skipped, 382 passed, 0 expected failures, 398 total";
        let good = score(Kind::Ubifs, log, REMOUNTS).unwrap();
        assert_eq!((good.passed, good.excluded, good.failed), (395, 2, 0));
        assert!(good.remarks.iter().any(|remark| remark.ends_with("on ours: chmod::x")));
        let better = log.replace("utimensat::subsecond", "utimensat::other");
        let error = score(Kind::Ubifs, &better, REMOUNTS).unwrap_err().to_string();
        assert!(error.contains("passes on Linux's own"), "{error}");
        assert!(score(Kind::Ubifs, "", REMOUNTS).is_err());
    }
}
