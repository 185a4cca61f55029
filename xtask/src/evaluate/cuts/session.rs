//! What one boot of a guest does: it records workloads, judges states of the recordings and lets cuts
//! accumulate, as the conductor says. Booting is the most expensive part.
//!
//! # Invariants
//! 1. The guest is given each state once, and equal images of a file system once.
//! 2. After a guest stopped, the next one goes on with the next state; the one that stopped it is judged
//!    by that.

use super::image::Image;
use super::pile::Rounds;
use super::recording::Recording;
use super::served::Conductor;
use super::state::{Builder, Cut, Level, Units, cuts, sample};
use super::variant::Variant;
use eraseblock_vfs_testkit::scripted::Step;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;

/// A recorded workload.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) steps: Vec<Step>,
    pub(super) recording: Arc<Recording>,
}

/// Something to do.
#[derive(Clone, Debug)]
pub(super) enum Job {
    Record(Variant),
    /// Judges so many states of a level.
    Sample(Variant, Level, usize),
    /// Judges these.
    Judge(Variant, Level, Vec<Cut>),
    Pile(Variant, Level, u32),
}

/// A state that a guest was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) variant: Variant,
    pub(super) level: Level,
    pub(super) cut: Cut,
}

/// States that are left of a job.
#[derive(Debug)]
struct States {
    variant: Variant,
    level: Level,
    builder: Builder,
    left: VecDeque<Cut>,
    seen: HashSet<String>,
}

#[derive(Debug, Default)]
enum Now {
    #[default]
    Nothing,
    Recording(Variant),
    States(Box<States>),
    Pile(Box<Rounds>),
}

/// The conductor of the boots of a file system.
#[derive(Debug)]
pub(super) struct Session {
    size: u64,
    units: Units,
    steps: Vec<Step>,
    jobs: VecDeque<Job>,
    now: Now,
    pub(super) recordings: BTreeMap<&'static str, Recorded>,
    pub(super) given: Vec<Given>,
}

/// Returns the device of a variant in the guest.
const fn device(variant: &Variant) -> &'static str {
    if variant.has_cache { "vda" } else { "vdc" }
}

impl Session {
    pub(super) fn new(size: u64, units: Units, steps: Vec<Step>, jobs: Vec<Job>) -> Self {
        Self {
            size,
            units,
            steps,
            jobs: jobs.into(),
            now: Now::Nothing,
            recordings: BTreeMap::new(),
            given: Vec::new(),
        }
    }

    /// Gives up what a guest was doing when it stopped, except for states that are left.
    pub(super) fn interrupt(&mut self) {
        if !matches!(self.now, Now::States(_)) {
            self.now = Now::Nothing;
        }
    }

    /// Takes what the guest has done.
    fn settle(&mut self, disk: &mut Recording) -> io::Result<()> {
        let done = std::mem::replace(disk, Recording::new(Image::new(self.size)));
        match &mut self.now {
            Now::Recording(variant) => {
                let last = self.steps.last();
                // A workload that failed half-way is no recording.
                if last.is_none_or(
                    |step| matches!(step, Step::Mark(mark) if done.position_of(*mark).is_ok()),
                ) {
                    let steps = self.steps.clone();
                    let recorded = Recorded { steps, recording: Arc::new(done) };
                    self.recordings.insert(variant.recorded_as, recorded);
                }
                self.now = Now::Nothing;
            }
            Now::Pile(rounds) => disk.base = rounds.cut(done, self.units)?,
            Now::Nothing | Now::States(_) => {}
        }
        Ok(())
    }

    /// Returns the next command of the job in progress, or `None` at its end.
    fn step(&mut self, disk: &mut Recording) -> io::Result<Option<String>> {
        match &mut self.now {
            Now::Nothing | Now::Recording(_) => Ok(None),
            Now::Pile(rounds) => Ok(rounds.next().map(|command| {
                let Variant { system, .. } = rounds.variant;
                command
                    .replace("SYSTEM", system.script_name())
                    .replace("DISK", device(&rounds.variant))
            })),
            Now::States(states) => {
                let Some((cut, image)) = states.next()? else { return Ok(None) };
                disk.base = image;
                let States { variant, level, .. } = **states;
                self.given.push(Given { variant, level, cut });
                let system = variant.system.script_name();
                Ok(Some(format!("judge {system} {} {}", device(&variant), self.given.len())))
            }
        }
    }

    /// Begins a job; returns its first command if it needs no state of the disk.
    fn begin(&mut self, job: Job, disk: &mut Recording) -> Option<String> {
        match job {
            Job::Record(variant) => {
                *disk = Recording::new(Image::new(self.size));
                self.now = Now::Recording(variant);
                let Variant { system, options, .. } = variant;
                Some(format!("record {} {} {options}", system.script_name(), device(&variant)))
            }
            Job::Pile(variant, level, most) => {
                *disk = Recording::new(Image::new(self.size));
                self.now = Now::Pile(Box::new(Rounds::new(variant, level, most)));
                Some(format!("pile {} {}", variant.system.script_name(), device(&variant)))
            }
            Job::Sample(variant, level, count) => {
                let recording = variant.of_recordings(&self.recordings)?;
                let chosen = recording
                    .position_of(0)
                    .map(|from| sample(&cuts(&recording, level, from, self.units), count));
                self.judge(variant, level, recording, chosen.unwrap_or_default());
                None
            }
            Job::Judge(variant, level, chosen) => {
                let recording = variant.of_recordings(&self.recordings)?;
                self.judge(variant, level, recording, chosen);
                None
            }
        }
    }

    fn judge(&mut self, variant: Variant, level: Level, recording: Arc<Recording>, left: Vec<Cut>) {
        let builder = Builder::new(recording, self.units);
        let (left, seen) = (left.into(), HashSet::new());
        self.now = Now::States(Box::new(States { variant, level, builder, left, seen }));
    }
}

impl States {
    fn next(&mut self) -> io::Result<Option<(Cut, Image)>> {
        while let Some(cut) = self.left.pop_front() {
            self.builder.advance(cut.position);
            let image = self.builder.image(cut).map_err(io::Error::other)?;
            if self.seen.insert(image.hash()) {
                return Ok(Some((cut, image)));
            }
        }
        Ok(None)
    }
}

impl Conductor for Session {
    fn next(&mut self, disk: &mut Recording) -> io::Result<String> {
        self.settle(disk)?;
        loop {
            if let Some(command) = self.step(disk)? {
                return Ok(command);
            }
            self.now = Now::Nothing;
            let Some(job) = self.jobs.pop_front() else { return Ok("end".to_owned()) };
            if let Some(command) = self.begin(job, disk) {
                return Ok(command);
            }
        }
    }

    fn refuse(&mut self) {
        self.now = Now::Nothing;
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::Event;
    use super::*;

    const UNITS: Units = Units { unit: 1 << 20, page: 16 << 10, open: 5 };

    fn write(byte: u8) -> Event {
        Event::Write { offset: 0, data: vec![byte; 1024].into(), through: false }
    }

    #[test]
    fn a_boot_records_and_judges_each_image_once() {
        let ext4 = Variant::find("ext4").unwrap();
        let jobs = vec![
            Job::Record(ext4),
            Job::Sample(ext4, Level::V1, 100),
            Job::Pile(ext4, Level::V1, 2),
        ];
        let mut session = Session::new(1 << 20, UNITS, Vec::new(), jobs);
        let mut disk = Recording::new(Image::new(1 << 20));
        assert_eq!(session.next(&mut disk).unwrap(), "record ext4 vda ");
        disk.events = vec![Event::Mark(0), write(1), Event::Flush, Event::Mark(1), write(1)];
        // Nothing, the first sector, and everything.
        for number in 1..=3 {
            assert_eq!(session.next(&mut disk).unwrap(), format!("judge ext4 vda {number}"));
        }
        assert_eq!(session.given.len(), 3);
        assert_eq!(session.next(&mut disk).unwrap(), "pile ext4 vda");
        for cuts in 0..=2 {
            disk.events.push(write(cuts));
            let command = session.next(&mut disk).unwrap();
            assert_eq!(command, format!("round ext4 vda pile-ext4-V1 {cuts}"));
        }
        assert_eq!(session.next(&mut disk).unwrap(), "end");
    }

    #[test]
    fn what_was_interrupted_is_given_up_and_states_go_on() {
        let ext4 = Variant::find("ext4").unwrap();
        let jobs = vec![Job::Record(ext4), Job::Sample(ext4, Level::V1, 9)];
        let mut session = Session::new(1 << 20, UNITS, Vec::new(), jobs);
        let mut disk = Recording::new(Image::new(1 << 20));
        session.next(&mut disk).unwrap();
        session.interrupt();
        // Without a recording its states cannot be judged.
        assert_eq!(session.next(&mut disk).unwrap(), "end");
        assert!(session.given.is_empty());
    }
}
