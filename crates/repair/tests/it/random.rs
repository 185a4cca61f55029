//! Campaigns of random damage: how they are counted, and what all of them demand.

use eraseblock_repair::Level;
use eraseblock_vfs::{FileSystem, FsError};
use eraseblock_vfs_testkit::manifest::manifest_of;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

/// The most processor time that a repair may take; other programs take part of the time of day.
const LIMIT: Duration = Duration::from_secs(2);

/// A number that looks random.
pub(crate) struct Dice(u64);

impl Dice {
    /// The dice of one damage, which differ for neighbours.
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn new(state: u64) -> Self {
        Self(state)
    }

    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below.max(1)
    }
}

/// How one repair ended.
pub(crate) enum Outcome {
    /// It was repaired at this level; `None` is an empty plan.
    Repaired(Option<Level>),
    /// It was refused, which leaves the image as it was: the net below the rules, not a rule.
    Refused(String),
}

/// Something that must not be.
pub(crate) type Violation = String;

/// What a campaign has seen.
#[derive(Default)]
struct Tally {
    levels: BTreeMap<Option<Level>, usize>,
    refused: Vec<String>,
    failed: Vec<String>,
    slowest: Duration,
}

impl Tally {
    fn add(&mut self, seed: u64, took: Duration, outcome: std::thread::Result<Judged>) {
        self.slowest = self.slowest.max(took);
        if took > LIMIT {
            self.failed.push(format!("{seed}: {took:?}"));
        }
        match outcome {
            Ok(Ok(Outcome::Repaired(level))) => *self.levels.entry(level).or_default() += 1,
            Ok(Ok(Outcome::Refused(why))) => self.refused.push(format!("{seed}: {why}")),
            Ok(Err(failure)) => self.failed.push(format!("{seed}: {failure}")),
            Err(_) => self.failed.push(format!("{seed}: panic")),
        }
    }
}

type Judged = Result<Outcome, Violation>;

/// Damages and repairs what each seed stands for. One in `refusals` may be refused at most.
#[expect(clippy::print_stdout, reason = "the figures of a campaign")]
pub(crate) fn campaign(
    seeds: Range<u64>,
    refusals: usize,
    mut one: impl FnMut(u64) -> Result<Outcome, Violation>,
) {
    let seeds = asked_for().unwrap_or(seeds);
    let count = seeds.clone().count();
    let mut tally = Tally::default();
    for seed in seeds {
        let started = processor_time();
        let outcome = catch_unwind(AssertUnwindSafe(|| one(seed)));
        tally.add(seed, processor_time().saturating_sub(started), outcome);
        if seed % 1000 == 999 {
            println!("{seed}: {} failed, {} refused", tally.failed.len(), tally.refused.len());
        }
    }
    let Tally { levels, refused, failed, slowest } = tally;
    let sum = |level: Option<Level>| levels.get(&level).copied().unwrap_or_default();
    println!(
        "{count} images: {} safe, {} drop, {} rebuild, {} with nothing to do, {} refused, {} \
         failed; slowest {slowest:?}",
        sum(Some(Level::Safe)),
        sum(Some(Level::Drop)),
        sum(Some(Level::Rebuild)),
        sum(None),
        refused.len(),
        failed.len(),
    );
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(
        refused.len() * refusals <= count,
        "{} of {count} refused: {refused:#?}",
        refused.len()
    );
    assert!(sum(None) * 2 < count, "{} of {count} needed no repair", sum(None));
}

/// Returns the processor time of this thread; zero on a system that does not say.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next().and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(first.unwrap_or_default())
}

/// Returns the seeds in the environment.
fn asked_for() -> Option<Range<u64>> {
    let text = std::env::var("ERASEBLOCK_DAMAGE").ok()?;
    let (from, to) = text.split_once("..").expect("FROM..TO");
    Some(from.parse().expect("a number")..to.parse().expect("a number"))
}

/// Puts a repaired image and what is in it into the folder `ERASEBLOCK_KEEP`, for real Linux.
pub(crate) fn keep(kind: &str, seed: u64, image: impl FnOnce() -> Vec<u8>, fs: &dyn FileSystem) {
    let Some(folder) = std::env::var_os("ERASEBLOCK_KEEP").map(PathBuf::from) else { return };
    let mut unreadable = |path: &[u8], error: &FsError| {
        panic!("{}: {error}", path.escape_ascii());
    };
    let lines = manifest_of(fs, &mut unreadable);
    let list = lines.iter().fold(String::new(), |list, line| list + &line.to_string() + "\n");
    std::fs::write(folder.join(format!("{kind}-{seed}.image")), image()).unwrap();
    std::fs::write(folder.join(format!("{kind}-{seed}.list")), list).unwrap();
}

/// The last one that was made, by its seed: several damages in a row are of the same one.
pub(crate) struct Shelf<T>(Option<(u64, T)>);

impl<T> Shelf<T> {
    pub(crate) fn new() -> Self {
        Self(None)
    }

    pub(crate) fn take(&mut self, seed: u64, make: impl FnOnce(u64) -> T) -> &T {
        if self.0.as_ref().is_none_or(|(kept, _)| *kept != seed) {
            self.0 = Some((seed, make(seed)));
        }
        &self.0.as_ref().expect("it was made above").1
    }
}
