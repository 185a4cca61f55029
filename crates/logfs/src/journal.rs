//! The journal: which state of the file system is the newest (spec: readonly-formats A.5).
//!
//! # Invariants
//! 1. A commit counts as a whole or not at all: if one of its entries is damaged, an older commit is
//!    used, and a finding says so.

use crate::codes;
use crate::error::LogfsError;
use crate::medium::Medium;
use crate::object::{Position, inflate};
use crate::raw::{RawAlias, RawAnchor, RawArea, RawDynamic, RawEntryHeader, RawSegmentHeader};
use crate::superblock::{Superblock, journal_gec, numbers};
use eraseblock_base::crc::crc32;
use eraseblock_base::raw::Raw;
use eraseblock_base::{Findings, Location};
use eraseblock_mtd::ReadAt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries begin at multiples of this.
const STEP: usize = 16;
/// Longest payload of a commit.
const COMMIT_MOST: usize = 4096;

mod kind {
    pub(super) const COMMIT: u16 = 2;
    pub(super) const DYNAMIC: u16 = 3;
    pub(super) const ANCHOR: u16 = 4;
    pub(super) const OBJECT_ALIAS: u16 = 0x0D;
    pub(super) const AREA: u16 = 0x0E;
}

/// Pointers that are newer than the blocks they are in: the number of a pointer, and its value.
#[derive(Debug, Default)]
pub(crate) struct Aliases(BTreeMap<(u64, u8, u64), Vec<(u16, u64)>>);

impl Aliases {
    fn key(ino: u64, level: u8, bix: u64) -> (u64, u8, u64) {
        (ino, level, bix.checked_shr(9 * u32::from(level)).unwrap_or(0))
    }

    /// Puts the newer pointers into an object.
    pub(crate) fn apply(&self, at: Position, payload: &mut [u8]) {
        for (child, value) in self.0.get(&Self::key(at.ino, at.level, at.bix)).into_iter().flatten()
        {
            let word = payload.chunks_exact_mut(8).nth((*child).into());
            if let Some(word) = word {
                word.copy_from_slice(&value.to_be_bytes());
            }
        }
    }
}

/// A commit with everything it lists.
#[derive(Debug)]
pub(crate) struct Commit {
    /// Its place.
    pub(crate) offset: u64,
    pub(crate) anchor: RawAnchor,
    pub(crate) dynamic: Option<RawDynamic>,
    pub(crate) aliases: Aliases,
    pub(crate) medium: Medium,
}

/// Returns the newest commit that can be read.
pub(crate) fn newest(
    image: &Arc<dyn ReadAt>,
    superblock: &Superblock,
    findings: &mut Findings,
) -> Result<Commit, LogfsError> {
    let mut segments = Vec::new();
    for number in &superblock.journal {
        let mut header = [0; RawSegmentHeader::SIZE];
        let read = image.read_exact_at(&mut header, superblock.segment(*number));
        // An unreadable segment is one without a valid header.
        if let (Ok(()), Some(gec)) = (read, journal_gec(&header)) {
            segments.push((gec, *number));
        }
    }
    segments.sort_unstable();
    let mut first = None;
    for (_, number) in segments.iter().rev() {
        for (place, places) in commits(image.as_ref(), superblock, *number)?.into_iter().rev() {
            match read(image, superblock, place, &places) {
                Ok(commit) => {
                    if let Some((place, error)) = first {
                        let message = format!("the newest commit cannot be read: {error}");
                        findings.error(Location::Byte(place), codes::COMMIT, message);
                    }
                    return Ok(commit);
                }
                Err(error) => {
                    first.get_or_insert((place, error));
                }
            }
        }
    }
    let reason = first.map(|(_, error)| Box::new(error));
    Err(LogfsError::NoCommit { segments: superblock.journal.clone(), reason })
}

/// Returns the commits of a segment, oldest first: their places, and those of what they list.
fn commits(
    image: &dyn ReadAt,
    superblock: &Superblock,
    number: u32,
) -> Result<Vec<(u64, Vec<u64>)>, LogfsError> {
    let start = superblock.segment(number);
    let mut bytes = vec![0; superblock.segment_size as usize];
    let read = image.read_exact_at(&mut bytes, start);
    read.map_err(|error| LogfsError::Read { what: "journal segment", offset: start, error })?;
    let (mut found, mut at) = (Vec::new(), RawSegmentHeader::SIZE.next_multiple_of(STEP));
    while let Some((header, rest)) = bytes.get(at..).and_then(RawEntryHeader::split) {
        let len = usize::from(header.len.get());
        let is_commit = header.kind.get() == kind::COMMIT && len <= COMMIT_MOST;
        let payload = rest.get(..len).filter(|payload| {
            is_commit && crc_error(&header, &bytes[at..], payload.len(), 0).is_none()
        });
        let Some(payload) = payload else {
            at += STEP;
            continue;
        };
        found.push((start + at as u64, numbers(payload).collect()));
        at += RawEntryHeader::SIZE + len.next_multiple_of(STEP);
    }
    Ok(found)
}

/// Returns why an entry is not valid. An old writer left the last 16 bytes out of its checksum.
fn crc_error(header: &RawEntryHeader, entry: &[u8], len: usize, offset: u64) -> Option<LogfsError> {
    let stored = header.crc.get();
    let computed = crc32(&entry[4..RawEntryHeader::SIZE + len]);
    let is_old = len > 0 && entry.get(4..len).is_some_and(|bytes| stored == crc32(bytes));
    (stored != computed && !is_old).then_some(LogfsError::Crc {
        what: "journal entry",
        offset,
        stored,
        computed,
    })
}

/// Reads everything that a commit lists.
fn read(
    image: &Arc<dyn ReadAt>,
    superblock: &Superblock,
    offset: u64,
    places: &[u64],
) -> Result<Commit, LogfsError> {
    let (mut anchor, mut dynamic) = (None, None);
    let (mut aliases, mut overlays) = (Aliases::default(), Vec::new());
    for place in places {
        let (kind, payload) = entry(image.as_ref(), *place)?;
        let short = |field, least: usize| LogfsError::Field {
            field,
            offset: *place,
            found: payload.len() as u64,
            expected: format!("at least {least}"),
        };
        match kind {
            kind::ANCHOR => {
                let found = RawAnchor::split(&payload);
                anchor =
                    Some(found.ok_or_else(|| short("length of the anchor", RawAnchor::SIZE))?.0);
            }
            kind::DYNAMIC => {
                let found = RawDynamic::split(&payload);
                let found = found.ok_or_else(|| short("length of DYNSB", RawDynamic::SIZE))?;
                dynamic = Some(found.0);
            }
            kind::OBJECT_ALIAS => add_aliases(&mut aliases, &payload),
            kind::AREA => {
                let found = RawArea::split(&payload);
                let (area, rest) =
                    found.ok_or_else(|| short("length of an area", RawArea::SIZE))?;
                overlays.extend(overlay(superblock, &area, rest));
            }
            // Erase counts and what later versions may add do not matter for reading.
            _ => {}
        }
    }
    let anchor = anchor.ok_or(LogfsError::Field {
        field: "number of anchors in the commit",
        offset,
        found: 0,
        expected: "1".to_owned(),
    })?;
    let medium = Medium { image: Arc::clone(image), overlays };
    Ok(Commit { offset, anchor, dynamic, aliases, medium })
}

/// Reads an entry: its type and its payload.
fn entry(image: &dyn ReadAt, offset: u64) -> Result<(u16, Vec<u8>), LogfsError> {
    let failed = |error| LogfsError::Read { what: "journal entry", offset, error };
    let mut bytes = vec![0; RawEntryHeader::SIZE];
    image.read_exact_at(&mut bytes, offset).map_err(failed)?;
    let header = RawEntryHeader::get(&bytes);
    let len = usize::from(header.len.get());
    bytes.resize(RawEntryHeader::SIZE + len, 0);
    image.read_exact_at(&mut bytes, offset).map_err(failed)?;
    if let Some(error) = crc_error(&header, &bytes, len, offset) {
        return Err(error);
    }
    let (stored, data_len) = (&bytes[RawEntryHeader::SIZE..], header.data_len.get().into());
    let payload = inflate("journal entry", header.compression, stored, data_len, offset)?;
    Ok((header.kind.get(), payload))
}

fn add_aliases(aliases: &mut Aliases, mut payload: &[u8]) {
    while let Some((alias, rest)) = RawAlias::split(payload) {
        let key = Aliases::key(alias.ino.get(), alias.level, alias.bix.get());
        aliases.0.entry(key).or_default().push((alias.child.get(), alias.value.get()));
        payload = rest;
    }
}

/// Returns where the buffered end of a segment belongs.
fn overlay(superblock: &Superblock, area: &RawArea, buffered: &[u8]) -> Option<(u64, Vec<u8>)> {
    let write_size = superblock.write_size;
    if write_size == 1 || buffered.is_empty() {
        return None;
    }
    let buffered = &buffered[..buffered.len().min(write_size as usize)];
    let used = area.used_bytes.get() & !(write_size - 1);
    Some((superblock.segment(area.segment.get()) + u64::from(used), buffered.to_vec()))
}
