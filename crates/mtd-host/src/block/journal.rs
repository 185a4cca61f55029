//! Groups of map entries on the disk: checkpoints, which hold the whole map, and the journal, which
//! holds the changes since the checkpoint (spec: block-device 3).
//!
//! # Invariants
//! 1. A group is complete or it does not exist: its last unit is marked as the last, and each unit
//!    contains the checksum of its predecessor.
//! 2. No unit number is used twice: the first write after reading is a checkpoint that skips all
//!    numbers that may be on the disk.

use super::backing::Backing;
use super::layout::{Layout, META, is_sealed, le32, seal};
use super::map::{Entry, Map};
use crate::block::BlockError;
use eraseblock_base::Peb;
use std::io;

const HEADER: usize = 24;
/// Space for entries in a unit.
pub(super) const ROOM: usize = META - HEADER - 4;
const CHECKPOINT: u32 = u32::from_le_bytes(*b"EBCP");
const JOURNAL: u32 = u32::from_le_bytes(*b"EBJL");
const LAST: u16 = 1;

/// The position of the next journal group, and its predecessor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    /// Number of the next unit.
    pub(super) sequence: u64,
    /// Checksum of the previous unit.
    pub(super) previous: u32,
    /// The area of the newest checkpoint.
    pub(super) area: u8,
    /// Number of the first journal unit after it.
    pub(super) base: u64,
    /// Whether the position was read, not written: units of an unfinished group may follow.
    pub(super) is_stale: bool,
}

/// A unit read from the disk.
struct Unit {
    crc: u32,
    is_last: bool,
    entries: Vec<(Peb, Entry)>,
}

/// Writes entries to the journal, or all of `map` to a checkpoint if the journal is full. The
/// caller must have made the data durable; afterwards the entries are durable, too.
pub(super) fn write(
    disk: &dyn Backing,
    layout: &Layout,
    map: &Map,
    dirty: &[Peb],
    at: Position,
) -> io::Result<Position> {
    let needed = dirty.len().div_ceil(layout.entries_per_unit()) as u64;
    if at.is_stale || at.sequence - at.base + needed > u64::from(layout.journal_units) {
        return write_checkpoint(disk, layout, map, at);
    }
    let entries = dirty.iter().filter_map(|peb| Some((*peb, map.get(*peb)?)));
    let units = encode(layout, JOURNAL, at.sequence, at.previous, entries);
    let mut next = at;
    for unit in units {
        disk.write(layout.journal_unit(next.sequence), &unit)?;
        next.sequence += 1;
        next.previous = le32(&unit[META - 4..]);
    }
    disk.flush()?;
    Ok(next)
}

/// Writes the whole map to the area of the older checkpoint.
pub(super) fn write_checkpoint(
    disk: &dyn Backing,
    layout: &Layout,
    map: &Map,
    at: Position,
) -> io::Result<Position> {
    let area = 1 - at.area;
    let base = at.sequence + 1 + if at.is_stale { u64::from(layout.journal_units) } else { 0 };
    let bytes = encode(layout, CHECKPOINT, base, at.previous, map.used()).concat();
    disk.write(layout.checkpoint_start(area), &bytes)?;
    disk.flush()?;
    let previous = le32(&bytes[bytes.len() - 4..]);
    Ok(Position { sequence: base, previous, area, base, is_stale: false })
}

fn encode<'a>(
    layout: &Layout,
    magic: u32,
    sequence: u64,
    previous: u32,
    entries: impl Iterator<Item = (Peb, &'a Entry)>,
) -> Vec<Vec<u8>> {
    let entries: Vec<(Peb, &Entry)> = entries.collect();
    let mut groups: Vec<&[(Peb, &Entry)]> = entries.chunks(layout.entries_per_unit()).collect();
    if groups.is_empty() {
        groups.push(&[]);
    }
    let (count, mut previous) = (groups.len(), previous);
    let mut units = Vec::with_capacity(count);
    for ((number, group), index) in (sequence..).zip(groups).zip(1..) {
        let mut unit = vec![0; META];
        unit[..4].copy_from_slice(&magic.to_le_bytes());
        unit[4..12].copy_from_slice(&number.to_le_bytes());
        unit[12..16].copy_from_slice(&previous.to_le_bytes());
        let len = u16::try_from(group.len()).expect("a unit has room for some hundreds at most");
        unit[16..18].copy_from_slice(&len.to_le_bytes());
        let flags = if index == count { LAST } else { 0 };
        unit[18..20].copy_from_slice(&flags.to_le_bytes());
        for (place, (peb, entry)) in unit[HEADER..].chunks_exact_mut(layout.entry_len()).zip(group)
        {
            entry.encode(*peb, place);
        }
        previous = seal(&mut unit);
        units.push(unit);
    }
    units
}

/// Loads the map from the disk: the newest checkpoint and every complete journal group after it.
pub(super) fn load(disk: &dyn Backing, layout: &Layout) -> Result<(Map, Position), BlockError> {
    let first = load_checkpoint(disk, layout, 0)?;
    let second = load_checkpoint(disk, layout, 1)?;
    let newest = match (first, second) {
        (Some(a), Some(b)) => Some(if b.1.sequence > a.1.sequence { b } else { a }),
        (a, b) => a.or(b),
    };
    let (mut map, mut at) = newest.ok_or(BlockError::Damaged { what: "both maps" })?;
    let mut group = Vec::new();
    let (mut sequence, mut previous) = (at.sequence, at.previous);
    let mut unit = vec![0; META];
    while sequence - at.base < u64::from(layout.journal_units) {
        disk.read(layout.journal_unit(sequence), &mut unit)?;
        let Some(found) = decode(layout, JOURNAL, &unit, Some(sequence), previous) else { break };
        group.extend(found.entries);
        (sequence, previous) = (sequence + 1, found.crc);
        if found.is_last {
            map.apply(group.drain(..))?;
            (at.sequence, at.previous) = (sequence, previous);
        }
    }
    map.settle()?;
    Ok((map, at))
}

fn load_checkpoint(
    disk: &dyn Backing,
    layout: &Layout,
    area: u8,
) -> Result<Option<(Map, Position)>, BlockError> {
    let mut map = Map::new(layout);
    let mut unit = vec![0; META];
    let start = layout.checkpoint_start(area);
    let (mut base, mut previous) = (None, None);
    for index in 0..u64::from(layout.checkpoint_units) {
        disk.read(start + index * META as u64, &mut unit)?;
        let before = previous.unwrap_or_else(|| le32(&unit[12..16]));
        let expected = base.map(|base: u64| base + index);
        let Some(found) = decode(layout, CHECKPOINT, &unit, expected, before) else {
            return Ok(None);
        };
        let number = u64::from_le_bytes(unit[4..12].try_into().unwrap_or_default());
        let base = *base.get_or_insert(number);
        previous = Some(found.crc);
        map.apply(found.entries.into_iter())?;
        if found.is_last {
            let previous = found.crc;
            return Ok(Some((
                map,
                Position { sequence: base, previous, area, base, is_stale: true },
            )));
        }
    }
    Ok(None)
}

/// Decodes a unit of this kind, number and predecessor; returns `None` for anything else.
fn decode(
    layout: &Layout,
    magic: u32,
    unit: &[u8],
    sequence: Option<u64>,
    previous: u32,
) -> Option<Unit> {
    let number = u64::from_le_bytes(unit.get(4..12)?.try_into().ok()?);
    let fits = le32(&unit[..4]) == magic
        && is_sealed(unit)
        && sequence.is_none_or(|sequence| sequence == number)
        && le32(&unit[12..16]) == previous;
    if !fits {
        return None;
    }
    let count = usize::from(u16::from_le_bytes([unit[16], unit[17]]));
    let is_last = u16::from_le_bytes([unit[18], unit[19]]) & LAST != 0;
    let places = unit[HEADER..META - 4].chunks_exact(layout.entry_len());
    let entries = places.take(count).map(Entry::decode).collect();
    Some(Unit { crc: le32(&unit[META - 4..]), is_last, entries })
}
