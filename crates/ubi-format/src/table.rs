//! The whole volume table (spec: ubi 6.3).

use crate::constants::RECORD_SIZE;
use crate::decode::{RECORD_BYTES, RecordRules, decode_record, salvage_record};
use crate::encode::encode_record;
use crate::error::{Expected, FormatError};
use crate::layout::HeaderLayout;
use crate::types::{VolumeFlags, VolumeRecord};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use eraseblock_base::{Location, VolumeId};

/// The verdict about a copy of the volume table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableVerdict {
    /// All rules hold.
    Good,
    /// A checksum is wrong: the other copy may be used.
    Corrupted,
    /// A record with a valid checksum breaks a rule: Linux refuses the device.
    Illegal,
}

/// The contents of a copy of the volume table.
#[derive(Clone, Debug)]
pub struct TableReading {
    /// The usable records, by ascending volume id. With a verdict other than
    /// [`TableVerdict::Good`], these are the salvaged ones.
    pub records: Vec<(VolumeId, VolumeRecord)>,
    /// All problems, by ascending volume id.
    pub problems: Vec<FormatError>,
    /// Linux's verdict: that of the first problem.
    pub verdict: TableVerdict,
}

/// Reads a copy of the volume table of `slots` records; `at` gives the place of an offset in it.
///
/// Never fails: records missing from a short table are reported as problems.
pub fn read_table(
    bytes: &[u8],
    slots: u32,
    rules: &RecordRules,
    at: impl Fn(u32) -> Location,
) -> TableReading {
    let mut reading = Reading::default();
    for slot in 0..slots {
        let start = slot as usize * RECORD_BYTES;
        let record = bytes.get(start..).unwrap_or_default();
        let at = at(slot * RECORD_SIZE);
        match decode_record(record, rules, at) {
            Ok(None) => {}
            Ok(Some(record)) => reading.add(VolumeId::new(slot), record, at),
            Err(error) => {
                if matches!(error, FormatError::Field { .. })
                    && let Some(record) = salvage_record(record, rules)
                {
                    reading.records.push((VolumeId::new(slot), record));
                }
                reading.problems.push(error);
            }
        }
    }
    reading.finish()
}

#[derive(Default)]
struct Reading {
    records: Vec<(VolumeId, VolumeRecord)>,
    problems: Vec<FormatError>,
    late_problems: Vec<FormatError>,
    names: BTreeSet<Vec<u8>>,
    autoresize: bool,
}

impl Reading {
    fn add(&mut self, id: VolumeId, record: VolumeRecord, at: Location) {
        let illegal = |field, expected| FormatError::Field {
            at,
            what: "volume record",
            field,
            found: u64::from(id.get()),
            expected: Expected::Words(expected),
        };
        if !self.names.insert(record.name.as_bytes().to_vec()) {
            self.late_problems.push(illegal("volume id", "a name no other volume has"));
        }
        if record.flags.contains(VolumeFlags::AUTORESIZE) {
            if self.autoresize {
                self.late_problems.push(illegal("volume id", "only one volume to resize itself"));
            }
            self.autoresize = true;
        }
        self.records.push((id, record));
    }

    fn finish(mut self) -> TableReading {
        // Check the rules about several records after all single records.
        self.problems.append(&mut self.late_problems);
        let verdict = match self.problems.first() {
            None => TableVerdict::Good,
            Some(FormatError::Field { .. }) => TableVerdict::Illegal,
            Some(_) => TableVerdict::Corrupted,
        };
        TableReading { records: self.records, problems: self.problems, verdict }
    }
}

/// Returns the bytes of a table: one record per slot, without the padding to the minimum I/O unit.
///
/// Records with ids beyond the table are left out.
pub fn encode_table(layout: &HeaderLayout, records: &[(VolumeId, VolumeRecord)]) -> Vec<u8> {
    let slots = layout.volume_slots() as usize;
    let empty = encode_record(None);
    let mut bytes = empty.repeat(slots);
    for (id, record) in records {
        if let Some(place) = bytes.chunks_exact_mut(RECORD_BYTES).nth(id.index()) {
            place.copy_from_slice(&encode_record(Some(record)));
        }
    }
    bytes
}
