//! `eraseblock lab`: campaigns on simulated chips.

mod chip;
mod figures;
mod filesystems;
mod forecast;
mod ops;
mod page;
mod shrink;
mod story;
mod ubi;
mod units;

use crate::args::size64;
use crate::failure::Failure;
use crate::output::Output;
use crate::session::Session;
use clap::{Subcommand, ValueEnum};
use eraseblock::raw::base::{Findings, Location};
use eraseblock::raw::lab::powercut::{Options, StateId, Target, explain};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `lab`.
#[derive(Debug, clap::Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

/// The campaigns.
#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Cut the power at every flash event, in every way, and judge what comes up
    Powercut(PowercutArgs),
    /// Judge one state again and explain it: operations, flash events, what was seen, the rule
    Replay(ReplayArgs),
    /// Find the shortest sequence of operations and the simplest cut that still break the rule
    Shrink(ShrinkArgs),
    /// Count what attaching, writing and wear cost on simulated chips
    Figures(FiguresArgs),
    /// Predict how long a chip lives: a workload on a simulated one, projected to its endurance
    Forecast(forecast::ForecastArgs),
    /// Do again what applications did: a recording of a mount, of fio or of strace
    ReplayOps(ops::ReplayOpsArgs),
    /// Convert a recording of a mount, of fio or of strace
    ConvertOps(ops::ConvertOpsArgs),
}

/// Arguments of `lab figures`.
#[derive(Debug, clap::Args)]
pub(crate) struct FiguresArgs {
    /// What is measured
    #[arg(long, value_name = "NAME", default_value = "ubi")]
    pub target: FiguresTarget,
}

/// What has figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FiguresTarget {
    /// UBI.
    Ubi,
    /// UBIFS and JFFS2 side by side.
    Fs,
}

/// The subject of a campaign.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum LabTarget {
    /// UBI.
    Ubi,
    /// UBIFS on UBI.
    Ubifs,
    /// JFFS2.
    Jffs2,
    /// YAFFS2.
    Yaffs2,
}

/// Arguments of `lab powercut`.
#[derive(Debug, clap::Args)]
pub(crate) struct PowercutArgs {
    /// What is judged
    #[arg(long, value_name = "NAME")]
    pub target: LabTarget,
    /// The simulated chip; the first one when left out, `all` for a campaign of UBI on all of them
    #[arg(long, value_name = "NAME")]
    pub chip: Option<String>,
    /// Which workloads UBI does
    #[arg(long, value_name = "KIND", default_value = "all")]
    pub workload: Workload,
    /// Stop after this time: a number and s, m or h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<Duration>,
    /// Stop after this many states
    #[arg(long, value_name = "N", value_parser = size64)]
    pub states: Option<u64>,
    /// Seed of random operations and cuts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Which sequences of operations a file system does
    #[arg(long, value_name = "KIND", default_value = "single")]
    pub sequences: Sequences,
    /// Judge every n-th state only
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub every: u32,
    /// Cut the recovery of every n-th state, too; 0 for none
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub nested: u32,
    /// Random operations in a sequence
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub length: u32,
    /// Fail unless every occasional activity (commit, garbage collection) and every rare event of the
    /// workloads (an erase that fails, an attach without a free block) occurred, and every sequence
    /// of one operation ran despite --states or --budget
    #[arg(long)]
    pub thorough: bool,
    /// Also write the counts as a page of HTML
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// How the campaign is divided.
    #[command(flatten)]
    pub division: units::UnitArgs,
    /// A chip of any part or geometry.
    #[command(flatten)]
    pub other: chip::ChipArgs,
}

impl PowercutArgs {
    /// Returns the name of the chip, if one was asked for.
    fn chip(&self) -> Result<Option<String>, Failure> {
        Ok(self.other.name()?.or_else(|| self.chip.clone()))
    }

    /// Returns the most sequences that are judged.
    fn most(&self) -> usize {
        self.division.units.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Begins the page, if one was asked for: a long run must not fail at its end.
    fn page(&self, session: &mut Session) -> Result<Option<Output>, Failure> {
        self.html.as_deref().map(|path| session.create(path)).transpose()
    }
}

/// Workloads of UBI.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// All of them in turn.
    All,
    /// Everything, in the proportions of ordinary use.
    Mixed,
    /// Many programs and erases fail, a third of them in appends to mapped LEBs.
    Failing,
    /// All LEBs are mapped, so that attaching has to erase before it can write.
    Full,
    /// Unmapped blocks are erased at once instead of as late as possible.
    Eager,
}

/// Sequences of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Sequences {
    /// All of one operation.
    Single,
    /// All of two operations, in an order made of the seed.
    Pair,
    /// Long random ones.
    Random,
    /// Long random ones on a file system that has been used a lot.
    Aged,
}

/// Arguments of `lab replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// The name of the state, as `lab powercut` prints it
    pub id: String,
    /// The seed of the campaign
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Random operations in a sequence
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub length: u32,
    /// Save the chip as the last cut left it as FILE.before, and after the recovery as FILE.after
    #[arg(long, value_name = "FILE")]
    pub chip: Option<PathBuf>,
}

impl ReplayArgs {
    fn options(&self, id: &StateId) -> Options {
        Options { seed: self.seed, run_length: self.length, ..Options::of(vec![id.plan]) }
    }
}

/// Arguments of `lab shrink`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShrinkArgs {
    /// The state.
    #[command(flatten)]
    pub state: ReplayArgs,
    /// Stop after judging this many states, with the smallest one until then
    #[arg(long, value_name = "N", value_parser = size64, default_value = "200000")]
    pub states: u64,
}

/// Does what was asked.
pub(crate) fn run(args: &LabArgs, session: &mut Session) -> Result<(), Failure> {
    match &args.command {
        LabCommand::Powercut(args) if args.division.is_divided() => units::run(args, session),
        LabCommand::Powercut(args) => match args.target {
            LabTarget::Ubi => ubi::powercut(args, session),
            LabTarget::Ubifs | LabTarget::Jffs2 | LabTarget::Yaffs2 => {
                filesystems::powercut(args, session)
            }
        },
        LabCommand::Replay(args) => replay(args, session),
        LabCommand::Shrink(args) => shrink::run(args, session),
        LabCommand::Figures(args) => match args.target {
            FiguresTarget::Ubi => figures::ubi(session),
            FiguresTarget::Fs => figures::fs(session),
        },
        LabCommand::Forecast(args) => forecast::run(args, session),
        LabCommand::ReplayOps(args) => ops::replay(args, session),
        LabCommand::ConvertOps(args) => ops::convert(args, session),
    }
}

/// Returns what an id names a state of.
fn find(id: &StateId) -> Result<Box<dyn Target>, Failure> {
    let (name, chip) = (id.target.0.as_str(), Some(id.target.1.as_str()));
    match name {
        "ubi" => Ok(Box::new(ubi::find(chip)?)),
        _ => filesystems::find(name, chip),
    }
}

/// Judges one state.
fn replay(args: &ReplayArgs, session: &mut Session) -> Result<(), Failure> {
    let id: StateId = args.id.parse()?;
    let explained = explain(find(&id)?.as_ref(), &id, &args.options(&id))?;
    story::print(&args.id, args.chip.as_deref(), session, &explained, None)
}

/// Makes a finding of a violation, so that the run does not end with 0.
fn violation(session: &mut Session, id: &str, rule: &str, message: &str) {
    let mut findings = Findings::new();
    findings.error(Location::Whole, "violation", format!("{id}: {rule}: {message}"));
    session.report(findings);
}

/// The number that ends a campaign's summary.
fn rate(states: u64, seconds: f64) -> u64 {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rate = (states as f64 / seconds.max(0.001)) as u64;
    rate
}

/// Returns the speed of a campaign.
fn speed(states: u64, seconds: f64, busy: f64) -> String {
    format!(
        "{} states a second in {seconds:.0} seconds; {} a second of processor time",
        rate(states, seconds),
        rate(states, busy),
    )
}

/// Measures a campaign. The lab itself reads no clock.
struct Watch {
    start: Instant,
    /// Seconds computed before.
    busy: f64,
}

impl Watch {
    fn start() -> Self {
        Self { start: Instant::now(), busy: processor_seconds() }
    }

    /// Returns whether a time budget is used up.
    fn is_over(&self, budget: Option<Duration>) -> bool {
        budget.is_some_and(|budget| self.start.elapsed() >= budget)
    }

    /// Returns seconds on the clock, and those of all threads together.
    fn seconds(&self) -> (f64, f64) {
        (self.start.elapsed().as_secs_f64(), processor_seconds() - self.busy)
    }
}

/// Seconds all threads of this process have computed: unlike those on the clock they do not
/// depend on what else the machine does.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    std::time::Duration::try_from(time).unwrap_or_default().as_secs_f64()
}

/// Parses `40s`, `5m`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time: expected a number and s, m or h");
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("40s"), Ok(Duration::from_secs(40)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "s", "40", "4x", "-1s", "99999999999999999999h", "9999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
