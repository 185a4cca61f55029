//! The states that a power cut can leave: a ladder of how bad a disk is, the choices of each level,
//! and the image of a choice.
//!
//! # Invariants
//! 1. The same recording and the same cut give the same image.
//! 2. At V0 a completed write is never lost, and at V1 none that a flush followed.

use super::image::{Image, SECTOR};
use super::recording::{Event, Recording};
use anyhow::{Context, Result, bail, ensure};
use eraseblock_base::random::SplitMix64;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

/// How bad the disk is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) enum Level {
    V0,
    V1,
    V2,
    V3,
    V4,
    V5,
}

impl Level {
    pub(super) const ALL: [Self; 6] = [Self::V0, Self::V1, Self::V2, Self::V3, Self::V4, Self::V5];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V0 => "V0",
            Self::V1 => "V1",
            Self::V2 => "V2",
            Self::V3 => "V3",
            Self::V4 => "V4",
            Self::V5 => "V5",
        }
    }

    /// Returns what the disk loses.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::V0 => "the command in flight, at a sector boundary",
            Self::V1 => "any part of what was not flushed",
            Self::V2 => "some sectors of one command",
            Self::V3 => "earlier writes, but not later ones, flushed or not",
            Self::V4 => "all since open units were last closed",
            Self::V5 => "a unit being merged, or a paired page, is unreadable",
        }
    }

    /// Returns whether the recording must be that of a disk without a cache.
    pub(super) const fn is_write_through(self) -> bool {
        matches!(self, Self::V0)
    }
}

impl FromStr for Level {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|level| level.name() == text);
        found.with_context(|| format!("no level {text}; levels are V0 to V5"))
    }
}

/// What happens to the writes that are not safe at a cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Choice {
    /// All completed writes arrive.
    Prefix,
    /// All but the write of that event.
    Without(usize),
    /// Of the unflushed writes, only the last one.
    OnlyLast,
    /// All, and so many sectors of the write in flight.
    Torn(u32),
    /// Each unflushed write or not, by this seed.
    Subset(u64),
    /// All, but only some units of the write of that event: unit in bytes, seed.
    Shorn(usize, u32, u64),
    /// The last writes arrive or not, flushed or not, by this seed.
    Unordered(u64),
    /// Open units are as at their last close: all for seed 0, otherwise some.
    RolledBack(u64),
    /// The unit being merged is unreadable.
    Merged,
    /// The page in flight and the page paired with it are unreadable.
    Paired,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix => f.write_str("prefix"),
            Self::Without(event) => write!(f, "without.{event}"),
            Self::OnlyLast => f.write_str("last"),
            Self::Torn(sectors) => write!(f, "torn.{sectors}"),
            Self::Subset(seed) => write!(f, "subset.{seed}"),
            Self::Shorn(event, unit, seed) => write!(f, "shorn.{event}.{unit}.{seed}"),
            Self::Unordered(seed) => write!(f, "unordered.{seed}"),
            Self::RolledBack(seed) => write!(f, "back.{seed}"),
            Self::Merged => f.write_str("merged"),
            Self::Paired => f.write_str("paired"),
        }
    }
}

impl FromStr for Choice {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split('.').collect();
        Ok(match words[..] {
            ["prefix"] => Self::Prefix,
            ["without", event] => Self::Without(event.parse()?),
            ["last"] => Self::OnlyLast,
            ["torn", sectors] => Self::Torn(sectors.parse()?),
            ["subset", seed] => Self::Subset(seed.parse()?),
            ["shorn", event, unit, seed] => {
                Self::Shorn(event.parse()?, unit.parse()?, seed.parse()?)
            }
            ["unordered", seed] => Self::Unordered(seed.parse()?),
            ["back", seed] => Self::RolledBack(seed.parse()?),
            ["merged"] => Self::Merged,
            ["paired"] => Self::Paired,
            _ => bail!("no choice of a cut: {text}"),
        })
    }
}

/// A power cut: the events before the position are complete.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Cut {
    pub(super) position: usize,
    pub(super) choice: Choice,
}

/// The units of the card's translation layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    pub(super) unit: u64,
    pub(super) page: u64,
    pub(super) open: usize,
}

/// Writes that an unserialised disk may lose.
const WINDOW: usize = 32;
/// Random subsets of each position.
const SUBSETS: u64 = 3;
/// Units of shorn commands.
const SHORN: [u32; 2] = [512, 4096];

/// Returns all cuts of a level from a position on.
pub(super) fn cuts(recording: &Recording, level: Level, from: usize, units: Units) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let merges = merges(recording, units);
    for position in from..=recording.events.len() {
        let mut add = |choice| cuts.push(Cut { position, choice });
        let open = unsafe_writes(recording, position);
        let after_write = matches!(recording.events.get(position - 1), Some(Event::Write { .. }));
        match level {
            Level::V0 | Level::V1 => {
                add(Choice::Prefix);
                torn(recording, position, units).for_each(&mut add);
            }
            _ => {}
        }
        match level {
            Level::V1 if after_write => {
                for event in &open {
                    add(Choice::Without(*event));
                }
                if open.len() > 2 {
                    add(Choice::OnlyLast);
                    (0..SUBSETS).for_each(|seed| add(Choice::Subset(seed)));
                }
            }
            Level::V2 if after_write => {
                for event in &open {
                    let unit = SHORN[(position + event) % SHORN.len()];
                    add(Choice::Shorn(*event, unit, position as u64));
                }
            }
            Level::V3 if after_write => (0..2).for_each(|seed| add(Choice::Unordered(seed))),
            Level::V4 if after_write => (0..2).for_each(|seed| add(Choice::RolledBack(seed))),
            Level::V5 => {
                if merges.iter().any(|merge| merge.0 == position) {
                    add(Choice::Merged);
                }
                if write_at(recording, position).is_some() {
                    add(Choice::Paired);
                }
            }
            _ => {}
        }
    }
    cuts
}

/// Chooses so many cuts: the same share of every kind of choice, spread over the recording.
pub(super) fn sample(cuts: &[Cut], count: usize) -> Vec<Cut> {
    let kind = |cut: &Cut| std::mem::discriminant(&cut.choice);
    let mut kinds: Vec<Vec<Cut>> = Vec::new();
    for cut in cuts {
        match kinds.iter_mut().find(|known| kind(&known[0]) == kind(cut)) {
            Some(known) => known.push(*cut),
            None => kinds.push(vec![*cut]),
        }
    }
    // Kinds with few cuts leave their share to the others.
    kinds.sort_by_key(Vec::len);
    let (mut chosen, mut left) = (Vec::new(), count);
    for (number, known) in kinds.iter().enumerate() {
        let share = (left / (kinds.len() - number)).min(known.len());
        chosen.extend((0..share).map(|at| known[at * known.len() / share]));
        left -= share;
    }
    chosen.sort_unstable();
    chosen
}

/// The tears of the write in flight: the first and last boundaries of 512 bytes, and those of 4 KiB and
/// of pages.
fn torn(
    recording: &Recording,
    position: usize,
    units: Units,
) -> impl Iterator<Item = Choice> + use<> {
    let sectors = write_at(recording, position).map_or(0, |(_, data)| data.len() as u64 / SECTOR);
    let page = units.page / SECTOR;
    let is_boundary = move |at: &u64| {
        *at <= 2
            || at + 2 >= sectors
            || at.is_multiple_of(page)
            || (at.is_multiple_of(8) && *at < 64)
    };
    (1..sectors).filter(is_boundary).filter_map(|at| Some(Choice::Torn(u32::try_from(at).ok()?)))
}

fn write_at(recording: &Recording, position: usize) -> Option<(u64, &[u8])> {
    match recording.events.get(position)? {
        Event::Write { offset, data, .. } => Some((*offset, data)),
        _ => None,
    }
}

/// Returns the position after the last flush before a position.
fn epoch(recording: &Recording, position: usize) -> usize {
    let flush = recording.events[..position].iter().rposition(|event| *event == Event::Flush);
    flush.map_or(0, |flush| flush + 1)
}

/// Returns the events before a position that are writes which nothing has made durable.
fn unsafe_writes(recording: &Recording, position: usize) -> Vec<usize> {
    let is_open =
        |event: &usize| matches!(recording.events[*event], Event::Write { through: false, .. });
    (epoch(recording, position)..position).filter(is_open).collect()
}

/// An open unit: its number and the event that opened it.
type Open = (u64, usize);

/// Follows the units that writes open, until a position: the open ones, the last used one last. `merged`
/// gets the event and the unit of each merge.
fn follow(
    recording: &Recording,
    position: usize,
    units: Units,
    merged: &mut dyn FnMut(usize, u64),
) -> Vec<Open> {
    let mut open: Vec<Open> = Vec::new();
    for event in 0..position {
        let Some((offset, data)) = write_at(recording, event) else { continue };
        for unit in offset / units.unit..(offset + data.len() as u64).div_ceil(units.unit) {
            let known = open.iter().position(|one| one.0 == unit);
            let opened = known.map_or(event, |known| open.remove(known).1);
            open.push((unit, opened));
            if open.len() > units.open {
                merged(event, open.remove(0).0);
            }
        }
    }
    open
}

/// Returns position and unit of each merge.
fn merges(recording: &Recording, units: Units) -> Vec<(usize, u64)> {
    let mut merges = Vec::new();
    let end = recording.events.len();
    follow(recording, end, units, &mut |event, unit| merges.push((event, unit)));
    merges
}

/// Builds images; fastest for cuts in the order of their positions.
#[derive(Debug)]
pub(super) struct Builder {
    recording: Arc<Recording>,
    units: Units,
    /// All events before a position, applied.
    done: (usize, Image),
}

impl Builder {
    pub(super) fn new(recording: Arc<Recording>, units: Units) -> Self {
        let done = (0, recording.base.clone());
        Self { recording, units, done }
    }

    /// Returns the image of a cut.
    pub(super) fn image(&self, cut: Cut) -> Result<Image> {
        let Cut { position, choice } = cut;
        ensure!(position <= self.recording.events.len(), "the recording has no event {position}");
        let start = epoch(&self.recording, position);
        let open = unsafe_writes(&self.recording, position);
        let last = open.last().copied();
        let all = |event: usize| self.all_of(event);
        let image =
            match choice {
                Choice::Prefix | Choice::Torn(_) | Choice::Merged | Choice::Paired => {
                    self.with(start, position, all)
                }
                Choice::Without(event) => {
                    self.with(start, position, |at| if at == event { Vec::new() } else { all(at) })
                }
                Choice::OnlyLast => self.with(start, position, |at| {
                    if open.contains(&at) && Some(at) != last { Vec::new() } else { all(at) }
                }),
                Choice::Subset(seed) => {
                    let lost = losses(&open, seed, position);
                    self.with(start, position, |at| {
                        if lost.contains(&at) { Vec::new() } else { all(at) }
                    })
                }
                Choice::Shorn(event, unit, seed) => self.with(start, position, |at| {
                    if at == event { shorn(&all(at), unit, seed) } else { all(at) }
                }),
                Choice::Unordered(seed) => self.unordered(position, seed),
                Choice::RolledBack(seed) => self.rolled_back(position, seed),
            };
        self.in_flight(cut, image)
    }

    /// Returns the image with everything that was recorded.
    pub(super) fn whole(&self) -> Image {
        self.at(self.recording.events.len())
    }

    /// Adds what the command in flight leaves.
    fn in_flight(&self, cut: Cut, mut image: Image) -> Result<Image> {
        let flight = write_at(&self.recording, cut.position);
        match cut.choice {
            Choice::Torn(sectors) => {
                let (offset, data) = flight.context("no write is in flight at the cut")?;
                let len = usize::try_from(u64::from(sectors) * SECTOR)?.min(data.len());
                image.write(offset, &data[..len]);
            }
            Choice::Paired => {
                let (offset, _) = flight.context("no write is in flight at the cut")?;
                let page = self.units.page;
                // The page before it shares its cells.
                let number = offset / page;
                image.damage(number.saturating_sub(1) * page, page);
                image.damage(number * page, page);
            }
            Choice::Merged => {
                let merges = merges(&self.recording, self.units);
                let merge = merges.iter().find(|merge| merge.0 == cut.position);
                let unit = merge.context("no unit is merged at the cut")?.1;
                let len = self.units.unit.min(image.size() - unit * self.units.unit);
                image.damage(unit * self.units.unit, len);
            }
            _ => {}
        }
        Ok(image)
    }

    fn all_of(&self, event: usize) -> Vec<Range<usize>> {
        let len = write_at(&self.recording, event).map_or(0, |(_, data)| data.len());
        std::iter::once(0..len).collect()
    }

    /// Returns the image at `start` with parts of the events until `end`: `kept` returns the bytes of a
    /// write that arrive.
    fn with(&self, start: usize, end: usize, kept: impl Fn(usize) -> Vec<Range<usize>>) -> Image {
        let mut image = self.at(start);
        for event in start..end {
            let Some((offset, data)) = write_at(&self.recording, event) else { continue };
            for range in kept(event) {
                image.write(offset + range.start as u64, &data[range]);
            }
        }
        image
    }

    /// Returns the image with all events before a position.
    fn at(&self, position: usize) -> Image {
        let (from, image) = &self.done;
        let (from, mut image) = if *from <= position {
            (*from, image.clone())
        } else {
            (0, self.recording.base.clone())
        };
        for event in from..position {
            if let Some((offset, data)) = write_at(&self.recording, event) {
                image.write(offset, data);
            }
        }
        image
    }

    /// Remembers the image at the last flush before a position: later cuts begin there.
    pub(super) fn advance(&mut self, position: usize) {
        let start = epoch(&self.recording, position);
        if start > self.done.0 {
            self.done = (start, self.at(start));
        }
    }

    /// The last writes arrive or not, except that the very last one does.
    fn unordered(&self, position: usize, seed: u64) -> Image {
        let writes: Vec<usize> = (0..position)
            .rev()
            .filter(|event| write_at(&self.recording, *event).is_some())
            .take(WINDOW)
            .collect();
        let start = writes.last().copied().unwrap_or(position);
        let lost = losses(writes.get(1..).unwrap_or_default(), seed, position);
        self.with(start, position, |event| {
            if lost.contains(&event) { Vec::new() } else { self.all_of(event) }
        })
    }

    /// Open units are as they were when they were opened.
    fn rolled_back(&self, position: usize, seed: u64) -> Image {
        let open = follow(&self.recording, position, self.units, &mut |_, _| {});
        let mut chance = SplitMix64::new(seed ^ position as u64);
        let back: Vec<Open> =
            open.into_iter().filter(|_| seed == 0 || chance.below(2) == 0).collect();
        let start = back.iter().map(|open| open.1).min().unwrap_or(position);
        self.with(start, position, |event| {
            let Some((offset, data)) = write_at(&self.recording, event) else { return Vec::new() };
            let sector = usize::try_from(SECTOR).unwrap_or(512);
            let is_kept = |at: &usize| {
                let unit = (offset + *at as u64) / self.units.unit;
                !back.iter().any(|open| open.0 == unit && event >= open.1)
            };
            let kept = (0..data.len()).step_by(sector).filter(is_kept);
            kept.map(|at| at..at + sector).collect()
        })
    }
}

/// Chooses events that are lost.
fn losses(events: &[usize], seed: u64, position: usize) -> Vec<usize> {
    let mut chance = SplitMix64::new(seed.wrapping_mul(0x9E37_79B9) ^ position as u64);
    events.iter().copied().filter(|_| chance.below(2) == 0).collect()
}

/// Chooses the units of a command that arrive.
fn shorn(whole: &[Range<usize>], unit: u32, seed: u64) -> Vec<Range<usize>> {
    let unit = (unit as usize).max(1);
    let mut chance = SplitMix64::new(seed);
    let len = whole.iter().map(|range| range.end).max().unwrap_or(0);
    let units = (0..len).step_by(unit).map(|at| at..(at + unit).min(len));
    units.filter(|_| chance.below(2) == 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units { unit: 1 << 20, page: 16 << 10, open: 2 };

    fn write(offset: u64, byte: u8) -> Event {
        Event::Write { offset, data: vec![byte; 1024].into(), through: false }
    }

    /// Two epochs of two and three writes, and a mark.
    fn recording() -> Recording {
        let mut recording = Recording::new(Image::new(8 << 20));
        recording.events = vec![
            write(0, 1),
            write(4096, 2),
            Event::Flush,
            Event::Mark(1),
            write(0, 3),
            write(8192, 4),
            write(12288, 5),
        ];
        recording
    }

    fn builder(recording: &Recording) -> Builder {
        Builder::new(Arc::new(recording.clone()), UNITS)
    }

    fn bytes(image: &Image, offsets: [u64; 4]) -> [u8; 4] {
        offsets.map(|offset| {
            let mut sector = [0; 512];
            image.read(offset, &mut sector).unwrap();
            sector[0]
        })
    }

    fn cut(recording: &Recording, position: usize, choice: Choice) -> [u8; 4] {
        let image = builder(recording).image(Cut { position, choice }).unwrap();
        bytes(&image, [0, 4096, 8192, 12288])
    }

    #[test]
    fn choices_lose_what_they_say() {
        let recording = recording();
        let old = 0xA5;
        assert_eq!(cut(&recording, 7, Choice::Prefix), [3, 2, 4, 5]);
        assert_eq!(cut(&recording, 7, Choice::Without(4)), [1, 2, 4, 5]);
        assert_eq!(cut(&recording, 7, Choice::OnlyLast), [1, 2, old, 5]);
        assert_eq!(cut(&recording, 6, Choice::Torn(1)), [3, 2, 4, 5]);
        let torn = Cut { position: 6, choice: Choice::Torn(1) };
        let torn = builder(&recording).image(torn).unwrap();
        assert_eq!(bytes(&torn, [12288, 12288 + 512, 0, 0])[..2], [5, old]);
        // All in one unit, which is open since the first event.
        assert_eq!(cut(&recording, 7, Choice::RolledBack(0)), [old; 4]);
    }

    #[test]
    fn what_was_flushed_survives_every_choice_of_v1_and_v2() {
        let recording = recording();
        for level in [Level::V0, Level::V1, Level::V2] {
            let cuts = cuts(&recording, level, 4, UNITS);
            assert!(cuts.len() > 2, "{level:?}: {cuts:?}");
            for Cut { position, choice } in cuts {
                let [first, second, ..] = cut(&recording, position, choice);
                assert!(second == 2 && (first == 1 || first == 3), "{choice}: {first} {second}");
            }
        }
        let unordered: Vec<_> =
            (0..20).map(|seed| cut(&recording, 7, Choice::Unordered(seed))).collect();
        assert!(unordered.iter().any(|found| found[1] != 2), "{unordered:?}");
        assert!(unordered.iter().all(|found| found[3] == 5), "the last write arrived");
    }

    #[test]
    fn a_merge_and_paired_pages_leave_unreadable_sectors() {
        let mut recording = recording();
        recording.events.extend([write(1 << 20, 6), write(2 << 20, 7)]);
        let cuts = cuts(&recording, Level::V5, 1, UNITS);
        let merged: Vec<&Cut> = cuts.iter().filter(|cut| cut.choice == Choice::Merged).collect();
        assert_eq!(merged, [&Cut { position: 8, choice: Choice::Merged }]);
        let image = builder(&recording).image(*merged[0]).unwrap();
        assert!(
            image.read(0, &mut [0; 512]).is_err() && image.read(1 << 20, &mut [0; 512]).is_ok()
        );
        let paired = Cut { position: 4, choice: Choice::Paired };
        let image = builder(&recording).image(paired).unwrap();
        assert!(image.read(0, &mut [0; 512]).is_err());
    }

    #[test]
    fn names_of_choices_are_read_back() {
        let all = [
            Choice::Prefix,
            Choice::Without(3),
            Choice::OnlyLast,
            Choice::Torn(7),
            Choice::Subset(2),
            Choice::Shorn(1, 512, 9),
            Choice::Unordered(1),
            Choice::RolledBack(0),
            Choice::Merged,
            Choice::Paired,
        ];
        for choice in all {
            assert_eq!(choice.to_string().parse::<Choice>().unwrap(), choice);
        }
        assert!("torn".parse::<Choice>().is_err() && "torn.x".parse::<Choice>().is_err());
    }

    #[test]
    fn a_sample_has_every_kind_of_choice() {
        let recording = recording();
        let all = cuts(&recording, Level::V1, 4, UNITS);
        let chosen = sample(&all, 5);
        assert_eq!(chosen.len(), 5);
        let kinds: std::collections::HashSet<_> =
            chosen.iter().map(|cut| std::mem::discriminant(&cut.choice)).collect();
        assert!(kinds.len() >= 4, "{chosen:?}");
        assert_eq!(sample(&all, 10_000), {
            let mut all = all.clone();
            all.sort_unstable();
            all
        });
    }
}
