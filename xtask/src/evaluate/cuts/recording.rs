//! What a disk was asked to do, in order and with all data.

use super::image::{Image, take, take_u64};
use crate::evaluate::sha256;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The version of the file.
const MAGIC: &[u8] = b"disk recording 1\n";

/// Something that the disk was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Write {
        offset: u64,
        data: Arc<[u8]>,
        /// Durable on completion.
        through: bool,
    },
    Flush,
    /// The workload reports that this much is done.
    Mark(u32),
}

/// A disk, and what was done to it.
#[derive(Clone, Debug)]
pub(super) struct Recording {
    pub(super) base: Image,
    pub(super) events: Vec<Event>,
}

impl Recording {
    /// Returns a recording of nothing yet.
    pub(super) const fn new(base: Image) -> Self {
        Self { base, events: Vec::new() }
    }

    /// Returns the first digits of the hash of everything.
    pub(super) fn id(&self) -> String {
        sha256(&self.to_bytes()).chars().take(8).collect()
    }

    /// Returns the number of the last mark before a position; `None` before the first one.
    pub(super) fn mark_before(&self, position: usize) -> Option<u32> {
        let marks = self.events[..position].iter().rev();
        marks.into_iter().find_map(|event| match event {
            Event::Mark(number) => Some(*number),
            _ => None,
        })
    }

    /// Returns the position after the first mark of that number.
    pub(super) fn position_of(&self, mark: u32) -> Result<usize> {
        let found = self.events.iter().position(|event| *event == Event::Mark(mark));
        Ok(found.with_context(|| format!("the recording has no mark {mark}"))? + 1)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.base.to_bytes());
        for event in &self.events {
            match event {
                Event::Write { offset, data, through } => {
                    bytes.push(if *through { b'F' } else { b'W' });
                    bytes.extend(offset.to_le_bytes());
                    bytes.extend((data.len() as u64).to_le_bytes());
                    bytes.extend(data.iter());
                }
                Event::Flush => bytes.push(b'S'),
                Event::Mark(number) => {
                    bytes.push(b'M');
                    bytes.extend(u64::from(*number).to_le_bytes());
                }
            }
        }
        bytes
    }

    fn from_bytes(mut bytes: &[u8]) -> Result<Self> {
        ensure!(take(&mut bytes, MAGIC.len())? == MAGIC, "no recording of a disk");
        let mut recording = Self::new(Image::from_bytes(&mut bytes)?);
        while let [kind, rest @ ..] = bytes {
            bytes = rest;
            recording.events.push(match kind {
                b'S' => Event::Flush,
                b'M' => Event::Mark(u32::try_from(take_u64(&mut bytes)?)?),
                b'W' | b'F' => {
                    let (offset, len) = (take_u64(&mut bytes)?, take_u64(&mut bytes)?);
                    let data = take(&mut bytes, usize::try_from(len)?)?;
                    let end = offset.checked_add(len);
                    let fits = end.is_some_and(|end| end <= recording.base.size());
                    ensure!(fits, "a write of {len} bytes at {offset} is outside the disk");
                    Event::Write { offset, data: data.into(), through: *kind == b'F' }
                }
                other => bail!("event {other} in a recording"),
            });
        }
        Ok(recording)
    }

    /// Writes it to a file.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        let packed = zstd::encode_all(self.to_bytes().as_slice(), 3)?;
        fs::write(path, packed).with_context(|| path.display().to_string())
    }

    /// Reads what [`Self::save`] wrote.
    pub(super) fn load(path: &Path) -> Result<Self> {
        let packed = fs::read(path).with_context(|| path.display().to_string())?;
        Self::from_bytes(&zstd::decode_all(packed.as_slice())?)
            .with_context(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_survives_its_file() {
        let mut recording = Recording::new(Image::new(1 << 20));
        recording.base.write(512, &[7; 512]);
        let write = |offset, through| Event::Write { offset, data: vec![1; 1024].into(), through };
        recording.events =
            vec![Event::Mark(0), write(0, false), Event::Flush, write(4096, true), Event::Mark(1)];
        let bytes = recording.to_bytes();
        let again = Recording::from_bytes(&bytes).unwrap();
        assert_eq!((&again.events, again.id()), (&recording.events, recording.id()));
        assert_eq!(again.base.hash(), recording.base.hash());
        for len in [0, 10, 30, bytes.len() - 1] {
            assert!(Recording::from_bytes(&bytes[..len]).is_err(), "{len}");
        }
        recording.events.push(write((1 << 20) - 512, false));
        assert!(Recording::from_bytes(&recording.to_bytes()).is_err());
        assert_eq!(recording.mark_before(2), Some(0));
        assert_eq!(recording.mark_before(0), None);
        assert_eq!(recording.position_of(1).unwrap(), 5);
        assert!(recording.position_of(2).is_err());
    }
}
