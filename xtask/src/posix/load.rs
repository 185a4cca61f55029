//! Loads: many threads perform all operations concurrently. They check what they read; the final
//! state is checked after the mount has ended.

use super::mounts::Kind;
use super::score::Score;
use super::{Extent, installed};
use crate::command::output;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The operations of each of four workers of stress-ng, one after the other.
const STRESSORS: [&str; 10] =
    ["hdd", "dir", "link", "symlink", "rename", "xattr", "dentry", "utime", "seek", "fstat"];

pub(super) fn run(kind: Kind, work: &Path, dir: &Path, extent: Extent<'_>) -> Result<Score> {
    let seconds = extent.load.as_secs();
    stress_ng(work, dir, seconds).context("stress-ng")?;
    fio(work, dir, seconds).context("fio")?;
    dbench(dir, seconds).context("dbench")?;
    let unit = format!("loads of {seconds} s, stress-ng, fio and dbench, and a clean check");
    Ok(Score::passed("load", kind, 3, unit))
}

fn stress_ng(work: &Path, dir: &Path, seconds: u64) -> Result<()> {
    let here = dir.join("stress");
    fs::create_dir_all(&here)?;
    let mut command = Command::new(installed("stress-ng")?);
    command.arg("--temp-path").arg(&here).args(["--verify", "--timeout", &seconds.to_string()]);
    command.args(["--hdd-bytes", "4M", "--seek-size", "1M", "--dentries", "256"]);
    for stressor in STRESSORS {
        let workers = if stressor == "hdd" { "2" } else { "1" };
        command.args([&format!("--{stressor}"), workers]);
    }
    output(command.current_dir(work))?;
    fs::remove_dir_all(&here)?;
    Ok(())
}

fn fio(work: &Path, dir: &Path, seconds: u64) -> Result<()> {
    let here = dir.join("fio");
    fs::create_dir_all(&here)?;
    let mut command = Command::new(installed("fio")?);
    command.arg(format!("--directory={}", here.display()));
    command.args(["--rw=randrw", "--size=3M", "--numjobs=2", "--time_based=1"]);
    command.args(["--ioengine=psync", "--verify=crc32c", "--verify_fatal=1", "--fsync=64"]);
    command.args(["--verify_backlog=64"]);
    command.arg(format!("--runtime={seconds}"));
    // All blocks of a job have one size, because overlapping ones cannot be verified.
    command.args(["--name=small", "--bs=512", "--name=odd", "--bs=5120", "--name=large"]);
    command.args(["--bs=48k"]);
    output(command.current_dir(work))?;
    fs::remove_dir_all(&here)?;
    Ok(())
}

fn dbench(dir: &Path, seconds: u64) -> Result<()> {
    let here = dir.join("dbench");
    fs::create_dir_all(&here)?;
    let mut command = Command::new(installed("dbench")?);
    command.arg("-D").arg(&here).args(["-t", &seconds.to_string(), "4"]);
    output(&mut command)?;
    fs::remove_dir_all(&here)?;
    Ok(())
}
