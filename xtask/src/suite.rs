//! `cargo xtask test`: every step that a change must pass, some of them concurrently.
//!
//! Each step writes its own log and prints one line with its time and counts when it ends; a failed
//! step also prints the end of its log. A table of all steps ends the run. A step that counts tests
//! and reports none has failed: a suite that stopped running must not look like a pass.

mod counts;
mod plan;
mod step;

pub(crate) use step::ended;

use crate::command::repository;
use anyhow::{Context, Result, bail, ensure};
use plan::Step;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use step::Ran;

/// Number of lines printed of a failed step's log.
const TAIL_LINES: usize = 40;

/// The progress of a step.
#[derive(Debug)]
enum Progress {
    Waiting,
    Running,
    /// It ended, or could not be started.
    Ended(Outcome),
    /// An earlier step that it needs failed.
    LeftOut,
}

/// The result of a step.
#[derive(Debug)]
struct Outcome {
    is_good: bool,
    ran: Ran,
    /// Its counts, as text.
    counts: String,
}

/// Runs the steps of `make test`, or with `--full` those of `make test-full`. `--list` prints the
/// steps instead; `--only STEP` runs one, without those it needs; `--since SECONDS`, seconds since
/// 1970, is the start of the whole run.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let (mut is_full, mut is_listed, mut since) = (false, false, Duration::ZERO);
    let (mut only, mut rest) = (None, args.iter());
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--full" => is_full = true,
            "--only" => only = Some(rest.next().context("--only needs a value")?),
            "--list" => is_listed = true,
            "--since" => {
                let begun: u64 = rest.next().context("--since needs a value")?.parse()?;
                since = std::time::UNIX_EPOCH.elapsed()?.saturating_sub(Duration::from_secs(begun));
            }
            other => bail!("unknown argument {other}"),
        }
    }
    let mut steps = plan::steps(is_full)?;
    steps.retain(|step| only.is_none_or(|only| step.name == only));
    ensure!(!steps.is_empty(), "no step is called that (hint: --list)");
    if is_listed {
        for step in &steps {
            println!("{:<8} {}", step.name, step.command.join(" "));
        }
        return Ok(true);
    }
    let logs = repository().join("target/test-logs");
    fs::create_dir_all(&logs)?;
    println!("{} steps; logs: {}", steps.len(), logs.display());
    let begin = Instant::now();
    let progress = run_all(&steps, &logs);
    print!("{}", summary(&steps, &progress, since + begin.elapsed()));
    Ok(progress.iter().all(|progress| matches!(progress, Progress::Ended(end) if end.is_good)))
}

/// Runs all steps in order, each as soon as those it needs have passed. One more step than there
/// are processors runs at a time, because the public suites mostly sleep.
fn run_all(steps: &[Step], logs: &Path) -> Vec<Progress> {
    let workers = std::thread::available_parallelism().map_or(2, |count| count.get() + 1);
    let waiting = steps.iter().map(|_| Progress::Waiting).collect();
    let (state, changed) = (Mutex::new(waiting), Condvar::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| work(steps, logs, &state, &changed));
        }
    });
    state.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs steps until none is left that can run.
fn work(steps: &[Step], logs: &Path, state: &Mutex<Vec<Progress>>, changed: &Condvar) {
    let mut progress = state.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        leave_out(steps, &mut progress);
        if let Some(index) = ready(steps, &progress) {
            progress[index] = Progress::Running;
            drop(progress);
            let outcome = one(&steps[index], logs);
            progress = state.lock().unwrap_or_else(PoisonError::into_inner);
            progress[index] = Progress::Ended(outcome);
            changed.notify_all();
        } else if progress.iter().any(|progress| matches!(progress, Progress::Waiting)) {
            progress = changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        } else {
            return;
        }
    }
}

/// Marks the steps that can no longer run. A step stands after those that it needs.
fn leave_out(steps: &[Step], progress: &mut [Progress]) {
    for index in 0..steps.len() {
        let is_lost = |place: usize| match &progress[place] {
            Progress::LeftOut => true,
            Progress::Ended(outcome) => !outcome.is_good,
            _ => false,
        };
        if matches!(progress[index], Progress::Waiting)
            && steps[index].after.iter().any(|name| place(steps, name).is_some_and(is_lost))
        {
            progress[index] = Progress::LeftOut;
        }
    }
}

/// Returns the first step that can run now.
fn ready(steps: &[Step], progress: &[Progress]) -> Option<usize> {
    let has_passed = |place: usize| matches!(&progress[place], Progress::Ended(end) if end.is_good);
    (0..steps.len()).find(|index| {
        matches!(progress[*index], Progress::Waiting)
            && steps[*index].after.iter().all(|name| place(steps, name).is_none_or(has_passed))
    })
}

fn place(steps: &[Step], name: &str) -> Option<usize> {
    steps.iter().position(|step| step.name == name)
}

/// Runs one step and prints its result.
fn one(step: &Step, logs: &Path) -> Outcome {
    let file = logs.join(format!("{}.log", step.name));
    let ran = step::run(&step.command, &file).unwrap_or_else(|error| {
        let _ = fs::write(&file, format!("{error:#}\n"));
        Ran::default()
    });
    let log = String::from_utf8_lossy(&fs::read(&file).unwrap_or_default()).into_owned();
    let counted = (step.counts)(&log);
    let is_good = ran.is_success && counted.is_ok();
    let counts = counted.unwrap_or_else(str::to_owned);
    let outcome = Outcome { is_good, ran, counts };
    let mut text = line(step.name, &outcome);
    if !outcome.is_good {
        let lines: Vec<&str> = log.lines().collect();
        for last in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
            let _ = writeln!(text, "    {last}");
        }
        let _ = writeln!(text, "    the whole log: {}", file.display());
    }
    print!("{text}");
    outcome
}

fn line(name: &str, outcome: &Outcome) -> String {
    let word = if outcome.is_good { "pass" } else { "FAIL" };
    let (wall, processor) = (outcome.ran.wall.as_secs_f64(), outcome.ran.processor.as_secs_f64());
    let text = format!("{word}  {name:<8} {wall:>7.1} s {processor:>9.1} s   {}", outcome.counts);
    text.trim_end().to_owned() + "\n"
}

/// Returns the table of all steps, and the total time.
fn summary(steps: &[Step], progress: &[Progress], total: Duration) -> String {
    let mut text = format!("\n      {:<8} {:>9} {:>11}   counted\n", "step", "time", "processor");
    let (mut good, mut processor) = (0, Duration::ZERO);
    for (step, progress) in steps.iter().zip(progress) {
        match progress {
            Progress::Ended(outcome) => {
                good += usize::from(outcome.is_good);
                processor += outcome.ran.processor;
                text += &line(step.name, outcome);
            }
            _ => {
                let _ = writeln!(
                    text,
                    "----  {:<8} left out: needs {}",
                    step.name,
                    step.after.join(", ")
                );
            }
        }
    }
    let (minutes, seconds) = (total.as_secs() / 60, total.as_secs() % 60);
    let _ = writeln!(
        text,
        "{good} of {} steps passed in {minutes} min {seconds} s; {:.0} s of processor time",
        steps.len(),
        processor.as_secs_f64()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &'static str, after: &'static [&'static str], script: &str) -> Step {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        Step { name, command, after, counts: counts::last_line }
    }

    #[test]
    fn what_needs_a_failed_step_is_left_out_and_the_rest_runs() {
        let logs = tempfile::tempdir().unwrap();
        let steps = [
            step("bad", &[], "echo 3 passed, 1 failed; exit 1"),
            step("needs", &["bad"], "echo 1 passed, 0 failed"),
            step("further", &["needs"], "echo 1 passed, 0 failed"),
            step("good", &[], "echo 7 passed, 0 failed"),
        ];
        let progress = run_all(&steps, logs.path());
        let text = summary(&steps, &progress, Duration::from_secs(61));
        let words: Vec<&str> = text.lines().skip(2).map(|line| &line[..4]).collect();
        assert_eq!(words, ["FAIL", "----", "----", "pass", "1 of"], "{text}");
        assert!(text.contains("7 passed, 0 failed"), "{text}");
        assert!(text.contains("1 of 4 steps passed in 1 min 1 s"), "{text}");
        assert!(!logs.path().join("needs.log").exists());
    }

    #[test]
    fn a_suite_that_counts_nothing_has_failed() {
        let logs = tempfile::tempdir().unwrap();
        let progress = run_all(&[step("silent", &[], "true")], logs.path());
        assert!(matches!(&progress[..], [Progress::Ended(outcome)] if !outcome.is_good));
    }
}
