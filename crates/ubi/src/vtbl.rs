//! The volume table at run time: the table in memory is written as two copies, each atomically
//! (spec: ubi 6.3, 10).
//!
//! # Invariants
//! 1. Copy 0 is written before copy 1: whenever copy 0 is good, it is the newer one.
//! 2. A table that breaks a rule is never written: Linux would refuse the device permanently.

use crate::core::Core;
use crate::error::UbiError;
use eraseblock_base::{Leb, Location, VolumeId};
use eraseblock_ubi_format::VolumeRecord;
use eraseblock_ubi_format::constants::{FIRST_INTERNAL_VOLUME, LAYOUT_LEBS, LAYOUT_VOLUME};
use eraseblock_ubi_format::decode::RecordRules;
use eraseblock_ubi_format::table::{encode_table, read_table};

impl Core {
    /// Returns the records of all user volumes in memory.
    pub(crate) fn records(&self) -> Vec<(VolumeId, VolumeRecord)> {
        let user = |(id, _): &(&VolumeId, _)| id.get() < FIRST_INTERNAL_VOLUME;
        let volumes = self.volumes.iter().filter(user);
        volumes.map(|(id, volume)| (*id, volume.record.clone())).collect()
    }

    /// Returns the limits that records are checked against.
    pub(crate) fn record_rules(&self) -> RecordRules {
        RecordRules {
            leb_size: self.io.layout.leb_size(),
            min_io: self.io.layout.min_io(),
            good_pebs: self.books.good,
        }
    }

    /// Writes a table with these records; the caller updates the state in memory.
    pub(crate) fn write_table(
        &mut self,
        records: &[(VolumeId, VolumeRecord)],
    ) -> Result<(), UbiError> {
        self.check_writable()?;
        let layout = self.io.layout;
        let mut bytes = encode_table(&layout, records);
        let at = |offset| Location::VolumeLeb(LAYOUT_VOLUME, Leb::new(0), offset);
        let reading = read_table(&bytes, layout.volume_slots(), &self.record_rules(), at);
        if let Some(problem) = reading.problems.into_iter().next() {
            return Err(problem.into());
        }
        bytes.resize(layout.table_size() as usize, 0);
        for copy in 0..LAYOUT_LEBS {
            self.change_leb(LAYOUT_VOLUME, Leb::new(copy), &bytes)?;
        }
        Ok(())
    }

    /// Writes the table with one record changed, added or (`None`) removed.
    pub(crate) fn write_record(
        &mut self,
        id: VolumeId,
        record: Option<VolumeRecord>,
    ) -> Result<(), UbiError> {
        let mut records = self.records();
        records.retain(|(other, _)| *other != id);
        records.extend(record.map(|record| (id, record)));
        records.sort_by_key(|(id, _)| *id);
        self.write_table(&records)
    }
}
