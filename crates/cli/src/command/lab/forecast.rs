//! How long a chip lives, as a text.

use super::chip::ChipArgs;
use super::ops;
use crate::args::size64;
use crate::failure::Failure;
use crate::session::Session;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use eraseblock::raw::lab::Shape;
use eraseblock::raw::lab::forecast::{Cause, Forecast, Life, Outcome, Question, Spread, System};
use eraseblock::raw::lab::forecast::{Use, Window, Workload, forecast};
use eraseblock::raw::recording::{Op, Step};
use std::ffi::OsString;
use std::path::PathBuf;

/// Bytes that applications write in a day, if nothing else is known.
const PER_DAY: u64 = 64 << 20;
/// A day in nanoseconds.
const DAY: u128 = 86_400_000_000_000;

/// Arguments of `lab forecast`.
#[derive(Debug, clap::Args)]
pub(crate) struct ForecastArgs {
    /// The file system
    #[arg(long, value_name = "NAME", default_value = "ubifs")]
    fs: ForecastFs,
    /// What applications do
    #[arg(long, value_name = "NAME", default_value = "database", value_parser = Self::workloads())]
    workload: Workload,
    /// A recording instead, again and again, of any kind that `lab replay-ops` reads
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    recording: Option<PathBuf>,
    /// Of recordings of fio and strace: the folder that becomes the root; what lies elsewhere is left
    /// out
    #[arg(long, value_name = "DIR", default_value = "/", requires = "recording")]
    root: OsString,
    /// Bytes that applications write in a day: 64 MiB, or as fast as in the recording, when left out
    #[arg(long, value_name = "SIZE", value_parser = size64)]
    per_day: Option<u64>,
    /// Share of the file system that holds content that never changes, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=95))]
    fill: u8,
    /// Erases that a block endures; the rating of the part when left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8..))]
    endurance: Option<u32>,
    /// Erases of the most worn block that are simulated
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(8..))]
    erases: u32,
    /// By how much endurance differs between blocks: standard deviation in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100))]
    spread: u8,
    /// Days for which a worn block holds its data at 30 degrees Celsius
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    retention: u32,
    /// Temperature at which the board lies without power, in degrees Celsius
    #[arg(long, value_name = "DEGREES", default_value_t = 40, value_parser = clap::value_parser!(i16).range(-40..=125), allow_negative_numbers = true)]
    temperature: i16,
    /// Seed of what is written, and of the chips drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The chip with a name of its own
    #[arg(long, value_name = "NAME", default_value = "block")]
    chip: String,
    /// A chip of any part or geometry.
    #[command(flatten)]
    other: ChipArgs,
}

/// The file system of a forecast.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ForecastFs {
    /// UBIFS on UBI.
    Ubifs,
    /// JFFS2.
    Jffs2,
}

impl ForecastArgs {
    /// Returns the parser of the names of workloads.
    fn workloads() -> impl TypedValueParser<Value = Workload> {
        let possible = Workload::ALL.map(|workload| {
            let (name, words) = workload.words();
            PossibleValue::new(name).help(words)
        });
        PossibleValuesParser::new(possible).map(|name| {
            let named = |workload: &Workload| workload.words().0 == name;
            Workload::ALL.into_iter().find(named).expect("the parser knows only these names")
        })
    }

    /// Returns what is done, in a word.
    fn work(&self) -> String {
        match &self.recording {
            Some(path) => path.display().to_string(),
            None => self.workload.words().0.to_owned(),
        }
    }

    /// Returns the question; without `steps`, it is about a named workload.
    fn question<'a>(&self, steps: Option<&'a [Step]>) -> Result<Question<'a>, Failure> {
        let name = self.other.name()?.unwrap_or_else(|| self.chip.clone());
        let shape = Shape::named(&name).map_err(Failure::usage)?;
        let system = match self.fs {
            ForecastFs::Ubifs => System::Ubifs,
            ForecastFs::Jffs2 => System::Jffs2,
        };
        if matches!(self.fs, ForecastFs::Ubifs) {
            shape.check_ubi().map_err(Failure::usage)?;
        }
        Ok(Question {
            system,
            shape,
            workload: steps.map_or(Use::Made(self.workload), Use::Recorded),
            fill: self.fill,
            per_day: self.per_day.or(steps.map(a_day)).unwrap_or(PER_DAY).max(1),
            endurance: self.endurance,
            erases: self.erases,
            sigma: f64::from(self.spread) / 100.0,
            retention: (f64::from(self.retention), 30.0),
            temperature: f64::from(self.temperature),
            seed: self.seed,
        })
    }
}

/// Returns how many bytes a day are as many as in the recorded time. A recording of less than a
/// second counts as one of a second.
fn a_day(steps: &[Step]) -> u64 {
    let len = |step: &Step| if let Op::Write { len, .. } = step.op { u128::from(len) } else { 0 };
    let written: u128 = steps.iter().map(len).sum();
    let time = steps.iter().map(|step| step.at).max().unwrap_or(0).max(1_000_000_000);
    u64::try_from(written * DAY / u128::from(time)).unwrap_or(u64::MAX)
}

/// Runs the workload and prints what follows.
pub(super) fn run(args: &ForecastArgs, session: &mut Session) -> Result<(), Failure> {
    let recorded = args.recording.as_ref();
    let steps = recorded.map(|path| ops::steps(path, &args.root, session)).transpose()?;
    let question = args.question(steps.as_deref())?;
    let progress = session.progress(args.erases.into(), "erases of the most worn block");
    let answer = forecast(&question, &mut |erases| progress.set_position(erases.into()));
    progress.finish_and_clear();
    let answer = answer.map_err(Failure::new)?;
    if session.options.json {
        return session.json(&serde_json::json!({
            "system": question.system, "chip": question.shape.name(), "workload": args.work(),
            "fill": question.fill, "per_day": question.per_day, "seed": question.seed,
            "sigma": question.sigma, "temperature": question.temperature, "forecast": answer,
        }));
    }
    session.lines(report(args, &question, &answer))
}

fn report(args: &ForecastArgs, question: &Question<'_>, answer: &Forecast) -> Vec<String> {
    let sum = |of: fn(&Window) -> u64| answer.windows.iter().map(of).sum::<u64>();
    let (written, programmed) = (sum(|it| it.written), sum(|it| it.programmed));
    let shortened = sum(|it| it.shortened);
    let last: Vec<String> =
        answer.windows.iter().map(|it| format!("{:.2}", it.amplification())).collect();
    let at = |share: usize| answer.wear.get((answer.wear.len() - 1) * share / 100).copied();
    let [least, median, most] = [0, 50, 100].map(|share| at(share).unwrap_or(0));
    let mut lines = vec![
        format!("  {:<15} {} on {}", "simulated", words(args, question), question.shape.name()),
        format!(
            "  {:<15} {} MiB written, {} MiB programmed; {most} of {} erases",
            "",
            written >> 20,
            programmed >> 20,
            answer.endurance
        ),
        format!("  {:<15} {}", "amplification", last.join(", ")),
    ];
    lines.extend(answer.causes.iter().filter(|(_, bytes)| *bytes > 0).map(|(cause, bytes)| {
        let bytes = if *cause == Cause::Moved { bytes - shortened } else { *bytes };
        #[allow(clippy::cast_precision_loss)] // a ratio for people
        let ratio = bytes as f64 / written.max(1) as f64;
        format!("    {:<26} {ratio:.2}", cause.words())
    }));
    if answer.left_out > 0 {
        let count = answer.left_out;
        lines.push(format!("  {:<15} {count} steps that cannot be repeated", "left out"));
    }
    lines.push(format!("  {:<15} least {least}, median {median}, most {most}", "erases"));
    match &answer.outcome {
        Outcome::NotConverged(reason) => lines.push(format!("  {:<15} {reason}", "not converged")),
        Outcome::Life(life) => lines.extend(days(life)),
    }
    lines.push(format!(
        "  {:<15} a worn block holds its data for {:.0} days at {} degrees",
        "without power", answer.retention, args.temperature
    ));
    lines.push("The rating of a part is what its maker states, no guarantee.".to_owned());
    lines
}

fn words(args: &ForecastArgs, question: &Question<'_>) -> String {
    let fs = args.fs.to_possible_value().map(|value| value.get_name().to_owned());
    format!(
        "{}, {}, {} MiB a day, {} % full",
        fs.unwrap_or_default(),
        args.work(),
        question.per_day >> 20,
        args.fill
    )
}

fn days(life: &Life) -> Vec<String> {
    let spread = |spread: &Spread| {
        format!("{:.0} days ({:.0} to {:.0})", spread.median, spread.low, spread.high)
    };
    let mut lines = vec![
        format!("  {:<15} {:.0} days, if every block endures its rating", "rated life", life.rated),
        format!("  {:<15} {}", "first worn", spread(&life.first)),
    ];
    if let Some(reserve) = &life.reserve {
        lines.push(format!("  {:<15} {}", "reserve used", spread(reserve)));
    }
    lines
}
