//! How long a chip lives under a workload. The workload runs on a simulated chip until its most worn
//! block has been erased a number of times; what that took is projected to the rated endurance. A
//! workload is one made for forecasts, or a recording that is repeated.
//!
//! # Invariants
//! 1. No number without a steady state: if the last windows of the run differ by more than a
//!    twentieth, or the run ends early, there is a reason instead ([`Outcome::NotConverged`]).
//! 2. Bytes by cause add up to what was programmed.
//! 3. UBI's threshold of wear levelling is shortened as the endurance is: with a tenth of the erases
//!    simulated, a tenth of the threshold. The erases that the shorter threshold costs in addition are
//!    taken off again.

mod causes;
mod life;
mod meter;
mod passes;
mod turns;
mod workload;

pub use causes::Cause;
pub use life::Spread;
pub use workload::Workload;

use crate::Shape;
use crate::files::{Stack, ubifs};
use eraseblock_base::VolumeId;
use eraseblock_jffs2::{Jffs2Rw, RwOptions};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::Chip;
use eraseblock_recording::Step;
use eraseblock_ubi::{OpenOptions, UbiDevice};
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::background::rest;
use eraseblock_vfs::{FsError, FsErrorKind, WritableFileSystem};
use life::Endurance;
use meter::Meter;
use passes::Passes;
use std::sync::Arc;
use workload::Application;

/// Windows of a run.
const WINDOWS: u32 = 8;
/// The last windows, which must agree.
const STEADY: usize = 3;
/// By how much they may differ from their mean.
const TOLERANCE: f64 = 0.05;
/// UBI's usual threshold of wear levelling.
const WL_THRESHOLD: u32 = 4096;
/// Steps of background work after a piece of foreground work.
const BACKGROUND_STEPS: u32 = 64;

/// A file system whose chip is forecast.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// UBIFS on UBI.
    Ubifs,
    /// JFFS2.
    Jffs2,
}

/// What is done all day.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Use<'a> {
    /// A workload made for forecasts.
    Made(Workload),
    /// A recording, again and again.
    Recorded(&'a [Step]),
}

/// What is forecast.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Question<'a> {
    /// The file system.
    pub system: System,
    /// The chip.
    pub shape: Shape,
    /// What applications do.
    pub workload: Use<'a>,
    /// Share of the file system that holds content that never changes, in percent.
    pub fill: u8,
    /// Bytes that applications write in a day.
    pub per_day: u64,
    /// Erases that a block endures; `None` for the rating of the part.
    pub endurance: Option<u32>,
    /// Erases of the most worn block that are simulated, at least 8; at most its endurance.
    pub erases: u32,
    /// Standard deviation of the logarithm of the endurance, between blocks.
    pub sigma: f64,
    /// For how many days a worn block holds its data, at this temperature in degrees Celsius.
    pub retention: (f64, f64),
    /// The temperature at which the chip lies without power.
    pub temperature: f64,
    /// Seed of what is written, and of the draws.
    pub seed: u64,
}

/// A part of the run.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Window {
    /// Bytes that applications wrote.
    pub written: u64,
    /// Bytes that were programmed.
    pub programmed: u64,
    /// Erases of all blocks.
    pub erases: u64,
    /// LEBs that UBI moved.
    pub moves: u64,
    /// Bytes of them that the shortened threshold costs in addition.
    pub shortened: u64,
    /// Erases of the most worn block.
    pub most: u32,
}

impl Window {
    /// Returns programmed bytes for a written one, with the usual threshold of wear levelling.
    #[allow(clippy::cast_precision_loss)] // a ratio for people
    pub fn amplification(&self) -> f64 {
        (self.programmed - self.shortened) as f64 / self.written.max(1) as f64
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            written: self.written - before.written,
            programmed: self.programmed - before.programmed,
            erases: self.erases - before.erases,
            moves: self.moves - before.moves,
            shortened: self.shortened - before.shortened,
            most: self.most - before.most,
        }
    }
}

/// The answer.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Forecast {
    /// Erases that a block endures.
    pub endurance: u32,
    /// Parts of the run, in order.
    pub windows: Vec<Window>,
    /// Bytes programmed since the chip was filled, by cause.
    pub causes: Vec<(Cause, u64)>,
    /// Erases of each block at the end, from the least to the most.
    pub wear: Vec<u32>,
    /// The life.
    pub outcome: Outcome,
    /// Days for which a worn block holds its data without power.
    pub retention: f64,
    /// Steps of a recording that its repetitions left out, because they cannot be done twice.
    pub left_out: u64,
}

/// What follows for the life of the chip.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// There is no steady state: the reason.
    NotConverged(String),
    /// The days of its life.
    Life(Life),
}

/// Days until something happens, all with the stated bytes a day.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Life {
    /// Programmed bytes for a written one, in the steady state.
    pub amplification: f64,
    /// Until the most worn block reaches its rated erases.
    pub rated: f64,
    /// Until the first block wears out, where endurance differs between blocks.
    pub first: Spread,
    /// Until UBI's reserve for bad blocks is used up; `None` without UBI.
    pub reserve: Option<Spread>,
}

/// Runs the workload and returns the forecast; `progress` gets the erases of the most worn block.
///
/// # Errors
///
/// Fails if the chip cannot hold the file system, or if it fails for another reason than a lack of
/// space.
pub fn forecast(
    question: &Question<'_>,
    progress: &mut dyn FnMut(u32),
) -> Result<Forecast, String> {
    if question.erases < WINDOWS || question.fill > 95 || question.per_day == 0 {
        return Err(format!(
            "{} erases, {} percent, {} bytes a day: expected at least {WINDOWS}, at most 95, at least 1",
            question.erases, question.fill, question.per_day
        ));
    }
    let run = Run::start(question)?;
    let measured = run.go(question, progress)?;
    let mut wear = run.wear();
    let after = run.meter.bytes();
    let bytes = |cause: Cause| after[cause as usize] - measured.bytes[cause as usize];
    let causes = Cause::ALL.map(|cause| (cause, bytes(cause))).to_vec();
    let outcome = match measured.ended.clone().or_else(|| drift(&measured.windows)) {
        Some(reason) => Outcome::NotConverged(reason),
        None => Outcome::Life(run.life(question, &measured, &wear)),
    };
    wear.sort_unstable();
    let (days, rated) = question.retention;
    let retention = life::retention(days, rated, question.temperature);
    let Measured { windows, left_out, .. } = measured;
    let endurance = run.endurance;
    Ok(Forecast { endurance, windows, causes, wear, outcome, retention, left_out })
}

/// Splits a run into windows of as many erases each.
fn split(samples: &[Window]) -> Vec<Window> {
    let (Some(first), Some(end)) = (samples.first(), samples.last()) else { return Vec::new() };
    let whole = end.erases - first.erases;
    let mut last = first;
    let mut windows = Vec::new();
    for sample in samples {
        let due = first.erases + whole * (windows.len() as u64 + 1) / u64::from(WINDOWS);
        if sample.erases >= due && sample.erases > last.erases {
            windows.push(sample.since(last));
            last = sample;
        }
    }
    windows
}

/// Returns how the last windows differ, if they do.
fn drift(windows: &[Window]) -> Option<String> {
    let last = &windows[windows.len().saturating_sub(STEADY)..];
    if last.len() < STEADY {
        return Some(format!("the run has {} windows only", last.len()));
    }
    #[allow(clippy::cast_precision_loss)] // three
    let mean = last.iter().map(Window::amplification).sum::<f64>() / last.len() as f64;
    let apart = last.iter().map(|window| (window.amplification() / mean - 1.0).abs());
    let apart = apart.fold(0.0, f64::max);
    (apart > TOLERANCE).then(|| {
        format!("the amplification of the last {STEADY} windows differs by {:.0} %", apart * 100.0)
    })
}

/// A file system on its chip.
struct Run {
    // In the order in which they are dropped.
    fs: Box<dyn WritableFileSystem>,
    ubi: Option<UbiDevice>,
    chip: Arc<Chip>,
    meter: Arc<Meter>,
    endurance: u32,
    threshold: u32,
}

#[allow(clippy::needless_pass_by_value)] // for map_err
pub(crate) fn text(error: impl ToString) -> String {
    error.to_string()
}

impl Run {
    fn start(question: &Question<'_>) -> Result<Self, String> {
        let shape = question.shape;
        let blank = shape.chip();
        let endurance = question.endurance.unwrap_or(blank.config().endurance()).max(1);
        let erases = question.erases.min(endurance);
        let scaled = u64::from(WL_THRESHOLD) * u64::from(erases) / u64::from(endurance);
        let threshold = u32::try_from(scaled).unwrap_or(WL_THRESHOLD).clamp(2, WL_THRESHOLD);
        match question.system {
            System::Ubifs => {
                let stack = ubifs(shape);
                let chip = Arc::new(stack.format()?);
                let meter = Arc::new(Meter::new(chip.clone(), Some(shape.layout())));
                let ubi = attach(meter.clone(), &shape.layout(), threshold)?;
                let volume = Arc::new(ubi.volume(VolumeId::new(0)).map_err(text)?);
                let mounted = UbifsMount::mount(volume, MountOptions::default());
                let (fs, _) = mounted.map_err(text)?;
                let ubi = Some(ubi);
                Ok(Self { fs: Box::new(fs), ubi, chip, meter, endurance, threshold })
            }
            System::Jffs2 => {
                let chip = Arc::new(blank);
                let meter = Arc::new(Meter::new(chip.clone(), None));
                let (fs, _) = Jffs2Rw::mount(meter.clone(), &RwOptions::default()).map_err(text)?;
                Ok(Self { fs: Box::new(fs), ubi: None, chip, meter, endurance, threshold })
            }
        }
    }

    /// Fills the chip, and works until the most worn block has its erases.
    fn go(
        &self,
        question: &Question<'_>,
        progress: &mut dyn FnMut(u32),
    ) -> Result<Measured, String> {
        let mut work = Work::start(&*self.fs, question).map_err(text)?;
        self.rest()?;
        self.meter.begin_turns();
        let first = self.window(0);
        let (bytes, wear) = (self.meter.bytes(), self.wear());
        let mut measured = Measured { windows: Vec::new(), bytes, wear, ended: None, left_out: 0 };
        let goal = question.erases.min(self.endurance);
        let (mut samples, mut sampled) = (vec![first], self.chip.counters().erases);
        while samples.last().is_some_and(|last| last.most < goal) {
            match work.go_on() {
                Ok(()) => {}
                Err(error) if error.kind() == FsErrorKind::NoSpace => {
                    let bytes = work.written();
                    measured.ended = Some(format!("the file system is full after {bytes} bytes"));
                    break;
                }
                Err(error) => return Err(error.to_string()),
            }
            self.rest()?;
            // Windows begin and end with an erase.
            let erases = self.chip.counters().erases;
            if erases != sampled {
                sampled = erases;
                let now = self.window(work.written());
                progress(now.most);
                samples.push(now);
            }
        }
        measured.windows = split(&samples);
        measured.left_out = work.left_out();
        Ok(measured)
    }

    /// Does what UBI and the file system do while nothing else happens.
    fn rest(&self) -> Result<(), String> {
        rest(&*self.fs, BACKGROUND_STEPS).map_err(text)?;
        let Some(ubi) = &self.ubi else { return Ok(()) };
        while ubi.background_step().map_err(text)? {}
        Ok(())
    }

    /// Returns the counts so far.
    fn window(&self, written: u64) -> Window {
        let (wear, bytes) = (self.chip.wear_report(), self.meter.bytes());
        let moved = bytes[Cause::Moved as usize];
        let kept = moved * u64::from(self.threshold) / u64::from(WL_THRESHOLD);
        Window {
            written,
            programmed: bytes.iter().sum(),
            shortened: moved - kept,
            erases: wear.total_erases,
            moves: self.ubi.as_ref().map_or(0, |ubi| ubi.health().counters.moves),
            most: wear.max_erases,
        }
    }

    /// Returns the erases of each block.
    fn wear(&self) -> Vec<u32> {
        self.chip.geometry().pebs().map(|peb| self.chip.erase_count(peb)).collect()
    }

    /// Projects the steady state to the endurance.
    #[allow(clippy::cast_precision_loss)] // days for people
    fn life(&self, question: &Question<'_>, measured: &Measured, wear: &[u32]) -> Life {
        let last = &measured.windows[measured.windows.len() - STEADY..];
        let sum = |of: fn(&Window) -> u64| last.iter().map(of).sum::<u64>().max(1) as f64;
        let (written, erases) = (sum(|it| it.written), sum(|it| it.erases));
        // Each move costs an erase.
        let shortened = 1.0 - f64::from(self.threshold) / f64::from(WL_THRESHOLD);
        let erases = erases - sum(|it| it.moves) * shortened;
        let a_day = erases / written * question.per_day as f64;
        // UBI looks at erase counters: what it did in proportion, it goes on doing.
        let projected = match self.ubi {
            Some(_) => wear.to_vec(),
            None => self.meter.turns().project(wear, self.endurance, question.seed),
        };
        let since = projected.iter().zip(&measured.wear).map(|(now, then)| now - then);
        let since: Vec<u32> = since.collect();
        let all = since.iter().copied().map(u64::from).sum::<u64>().max(1) as f64;
        let rates: Vec<f64> = since.iter().map(|it| f64::from(*it) / all * a_day).collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        let endurance = Endurance { rated: self.endurance, sigma: question.sigma };
        let worn = |index: u32| life::worn(&rates, endurance, index as usize, question.seed);
        Life {
            amplification: sum(|it| it.programmed - it.shortened) / written,
            rated: f64::from(self.endurance) / most,
            first: worn(0),
            reserve: self.ubi.as_ref().map(|ubi| worn(ubi.health().bad_block_reserve.0)),
        }
    }
}

/// What a run has shown.
struct Measured {
    windows: Vec<Window>,
    /// Bytes by cause, and erases of each block, when the chip had been filled.
    bytes: causes::Bytes,
    wear: Vec<u32>,
    /// The reason, if the run ended early.
    ended: Option<String>,
    /// Steps of a recording that were left out.
    left_out: u64,
}

/// Applications at work.
enum Work<'a> {
    Made(Application<'a>),
    Recorded(Box<Passes<'a>>),
}

impl<'a> Work<'a> {
    /// Fills the file system; what is done next is counted.
    fn start(fs: &'a dyn WritableFileSystem, question: &Question<'a>) -> Result<Self, FsError> {
        let Question { fill, seed, .. } = *question;
        let made = |workload| {
            let mut application = Application::new(fs, workload, seed);
            application.fill(fill).map(|()| application)
        };
        Ok(match question.workload {
            Use::Made(workload) => Self::Made(made(workload)?),
            Use::Recorded(steps) => {
                // For its static content alone.
                made(Workload::Archive)?;
                Self::Recorded(Box::new(Passes::new(fs, steps, seed)))
            }
        })
    }

    /// Does the next piece of work.
    fn go_on(&mut self) -> Result<(), FsError> {
        match self {
            Self::Made(application) => application.work(),
            Self::Recorded(passes) => passes.work(),
        }
    }

    fn written(&self) -> u64 {
        match self {
            Self::Made(application) => application.written,
            Self::Recorded(passes) => passes.written(),
        }
    }

    fn left_out(&self) -> u64 {
        match self {
            Self::Made(_) => 0,
            Self::Recorded(passes) => passes.left_out,
        }
    }
}

/// Attaches UBI, and levels wear at a threshold.
fn attach(
    device: Arc<dyn Mtd>,
    layout: &HeaderLayout,
    wl_threshold: u32,
) -> Result<UbiDevice, String> {
    let options = OpenOptions { wl_threshold, ..OpenOptions::default() };
    UbiDevice::open(device, layout, &options).map_err(text)
}
