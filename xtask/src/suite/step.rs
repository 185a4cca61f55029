//! Runs one step with its output in a log, and measures its wall-clock time and processor time.

use crate::command::repository;
use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Clock ticks per second in `/proc`, on all supported architectures.
const TICKS: f64 = 100.0;

/// The result of a step.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Ran {
    pub(super) is_success: bool,
    pub(super) wall: Duration,
    /// Processor time of the step and of all processes that it waited for.
    pub(super) processor: Duration,
}

/// Runs a command in the root of the repository with its output in `log`.
pub(super) fn run(command: &[String], log: &Path) -> Result<Ran> {
    let [program, args @ ..] = command else { anyhow::bail!("a step without a command") };
    let out = File::create(log)?;
    let begin = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .current_dir(repository())
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let (status, processor) = ended(&mut child)?;
    Ok(Ran { is_success: status.success(), wall: begin.elapsed(), processor })
}

/// Waits for the end of a process; returns its status, and the processor time of it and of all
/// processes that it waited for.
pub(crate) fn ended(child: &mut Child) -> Result<(ExitStatus, Duration)> {
    // /proc has its figures after its end, until it is waited for.
    waitid(WaitId::Pid(Pid::from_child(child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    Ok((child.wait()?, processor_time(&stat)))
}

/// Returns user and system time of a process and of the children it waited for, from
/// `/proc/PID/stat`. The name of the process, in parentheses, may contain anything.
fn processor_time(stat: &str) -> Duration {
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum();
    Duration::from_secs_f64(ticks / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_the_children_too() {
        let stat = "7 (a ) b) Z 1 7 7 0 -1 4 9 9 0 0 100 20 300 4 20 0 1 0 5 0 0";
        assert_eq!(processor_time(stat), Duration::from_millis(4240));
        let log = tempfile::NamedTempFile::new().unwrap();
        let busy = "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); done'; echo end; exit 3";
        let ran = run(&["sh", "-c", busy].map(str::to_owned), log.path()).unwrap();
        assert!(!ran.is_success && ran.processor > Duration::ZERO, "{ran:?}");
        assert_eq!(fs::read_to_string(log.path()).unwrap(), "end\n");
    }
}
