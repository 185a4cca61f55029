//! The volume table as a whole (spec: ubi 6.3).

use crate::constants::RECORD_SIZE;
use crate::decode::{RECORD_BYTES, RecordRules, decode_record, salvage_record};
use crate::encode::encode_record;
use crate::error::{Expected, FormatError};
use crate::layout::HeaderLayout;
use crate::types::{VolumeFlags, VolumeRecord};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use eraseblock_base::{Location, VolumeId};

/// How a copy of the volume table is to be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableVerdict {
    /// All rules hold.
    Good,
    /// A checksum is wrong: the other copy may be used.
    Corrupted,
    /// A rule is broken in a record with the right checksum: Linux refuses the device.
    Illegal,
}

/// What a copy of the volume table holds.
#[derive(Clone, Debug)]
pub struct TableReading {
    /// The records that can be used, by ascending volume id. With a verdict other than
    /// [`TableVerdict::Good`] these are what could be salvaged.
    pub records: Vec<(VolumeId, VolumeRecord)>,
    /// Everything that is wrong, by ascending volume id.
    pub problems: Vec<FormatError>,
    /// The judgement Linux comes to: that of the first problem.
    pub verdict: TableVerdict,
}

/// Reads a copy of the volume table of `slots` records; `at` gives the place of an offset in it.
///
/// Never fails: a table that is too short has its missing records reported as problems.
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
        // Rules about several records are looked at when all single records have been checked.
        self.problems.append(&mut self.late_problems);
        let verdict = match self.problems.first() {
            None => TableVerdict::Good,
            Some(FormatError::Field { .. }) => TableVerdict::Illegal,
            Some(_) => TableVerdict::Corrupted,
        };
        TableReading { records: self.records, problems: self.problems, verdict }
    }
}

/// The bytes of a table: one record per slot, without the tail up to the minimum I/O unit.
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
