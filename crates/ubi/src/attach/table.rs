//! Reads the volume table and chooses between its copies (spec: ubi 10).

use super::MAX_IMAGE_LEBS;
use super::volumes::Stage;
use crate::codes;
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_ubi_format::constants::{LAYOUT_LEBS, LAYOUT_VOLUME, RECORD_SIZE};
use eraseblock_ubi_format::decode::RecordRules;
use eraseblock_ubi_format::table::{TableReading, TableVerdict, read_table};
use eraseblock_ubi_format::{FormatError, ReadQuality, VolumeRecord};
use std::collections::BTreeMap;

/// The records of the volumes, and whether they are complete.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) records: BTreeMap<VolumeId, VolumeRecord>,
    /// Whether Linux accepts the table: then a LEB without a record belongs to a removed volume.
    pub(super) is_complete: bool,
    /// Whether both copies are good and identical.
    pub(super) copies_agree: bool,
}

struct Copy {
    bytes: Vec<u8>,
    reading: TableReading,
}

impl Copy {
    /// Parses `bytes` if they are those of this copy and it is good.
    fn reading_of(&self, bytes: &[u8]) -> Option<TableReading> {
        let same = self.reading.verdict == TableVerdict::Good && self.bytes == bytes;
        same.then(|| self.reading.clone())
    }
}

/// Reads both copies and chooses.
pub(super) fn read(stage: &mut Stage<'_>, is_empty: bool) -> Table {
    let leb_size = stage.scanner.layout.leb_size();
    if leb_size < RECORD_SIZE {
        let message = format!("a LEB has {leb_size} bytes, expected at least {RECORD_SIZE}");
        stage.report.refuse_whole("leb-too-small", message);
    }
    match read_copies(stage) {
        [None, None] if is_empty => Table { is_complete: true, ..Table::default() },
        [None, None] => {
            let message = "no copy of the volume table: volumes are guessed from their LEBs";
            stage.report.refuse_whole("no-layout-volume", message.to_owned());
            Table::default()
        }
        [first, second] => choose(stage, first, second),
    }
}

fn read_copies(stage: &mut Stage<'_>) -> [Option<Copy>; LAYOUT_LEBS as usize] {
    let Some(volume) = stage.maps.get_mut(&LAYOUT_VOLUME) else { return [None, None] };
    let surplus = volume.map.split_off(Leb::new(LAYOUT_LEBS));
    for (leb, peb) in surplus {
        let message = format!("LEB {leb} of the layout volume, which has only {LAYOUT_LEBS}");
        stage.report.refuse(Location::peb(peb), "layout-volume-too-large", message);
        stage.collected.ignore(peb);
    }
    let first = read_copy(stage, Leb::new(0), None);
    let second = read_copy(stage, Leb::new(1), first.as_ref());
    [first, second]
}

/// Reads a copy; one with the bytes of a good `other` is equally good.
fn read_copy(stage: &mut Stage<'_>, leb: Leb, other: Option<&Copy>) -> Option<Copy> {
    let peb = stage.maps.get(&LAYOUT_VOLUME)?.map.get(leb)?;
    let layout = stage.scanner.layout;
    let size = layout.table_size() as usize;
    let tables = &mut stage.collected.tables;
    let proved = tables.iter().position(|(of, bytes)| *of == peb && bytes.len() == size);
    let bytes = match proved {
        Some(index) => tables.swap_remove(index).1,
        None => read_bytes(stage, peb, size)?,
    };
    if let Some(reading) = other.and_then(|other| other.reading_of(&bytes)) {
        return Some(Copy { bytes, reading });
    }
    let rules = record_rules(stage);
    let at = |offset| Location::Peb(peb, layout.data_offset().saturating_add(offset));
    let reading = read_table(&bytes, layout.volume_slots(), &rules, at);
    Some(Copy { bytes, reading })
}

fn read_bytes(stage: &mut Stage<'_>, peb: Peb, size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size];
    match stage.scanner.read(peb, stage.scanner.layout.data_offset(), &mut bytes) {
        Ok(ReadQuality::Clean) => {}
        Ok(_) => stage.collected.pebs[peb.index()].scrub = true,
        Err(error) => {
            stage.report.refuse(Location::peb(peb), "peb-unreadable", error.to_string());
            return None;
        }
    }
    Some(bytes)
}

fn record_rules(stage: &Stage<'_>) -> RecordRules {
    let layout = &stage.scanner.layout;
    let good = stage.collected.pebs.len() - stage.collected.counts().bad as usize;
    let good_pebs = u32::try_from(good).expect("PEB numbers are 32 bits");
    RecordRules {
        leb_size: layout.leb_size(),
        min_io: layout.min_io(),
        good_pebs: if stage.options.whole_device { good_pebs } else { MAX_IMAGE_LEBS },
    }
}

/// Spec: ubi 10, steps 4 and 5.
fn choose(stage: &mut Stage<'_>, first: Option<Copy>, second: Option<Copy>) -> Table {
    let verdict = |copy: &Option<Copy>| copy.as_ref().map(|copy| copy.reading.verdict);
    let verdicts = (verdict(&first), verdict(&second));
    if let (Some(TableVerdict::Good), _) = verdicts {
        let copies_agree = compare(stage, first.as_ref(), second.as_ref());
        return Table { copies_agree, ..complete(first) };
    }
    report_copy(stage, 0, first.as_ref());
    if verdicts.0 != Some(TableVerdict::Illegal) && verdicts.1 == Some(TableVerdict::Good) {
        let message = "copy 0 of the volume table is missing or damaged: copy 1 is used";
        stage.report.findings.warn(
            Location::Volume(LAYOUT_VOLUME),
            codes::TABLE_COPY_LOST,
            message,
        );
        return complete(second);
    }
    report_copy(stage, 1, second.as_ref());
    refuse_table(stage, [first.as_ref(), second.as_ref()]);
    if verdicts.1 == Some(TableVerdict::Good) {
        return complete(second);
    }
    salvage([first, second])
}

fn complete(copy: Option<Copy>) -> Table {
    let records = copy.map(|copy| copy.reading.records).unwrap_or_default();
    Table { records: records.into_iter().collect(), is_complete: true, copies_agree: false }
}

/// Returns all records in either copy; records in both are taken from the first.
fn salvage(copies: [Option<Copy>; 2]) -> Table {
    let [first, second] = copies.map(|copy| copy.map(|copy| copy.reading.records));
    // The later of two equal keys is kept.
    let records = second.into_iter().chain(first).flatten().collect();
    Table { records, is_complete: false, copies_agree: false }
}

/// Returns whether both copies exist and are identical.
fn compare(stage: &mut Stage<'_>, first: Option<&Copy>, second: Option<&Copy>) -> bool {
    let same = match (first, second) {
        (Some(first), Some(second)) => first.bytes == second.bytes,
        _ => false,
    };
    if !same {
        let message = "copy 1 of the volume table is missing or differs from copy 0, which is used";
        stage.report.findings.warn(
            Location::Volume(LAYOUT_VOLUME),
            codes::TABLE_COPY_DIFFERS,
            message,
        );
    }
    same
}

fn report_copy(stage: &mut Stage<'_>, number: u32, copy: Option<&Copy>) {
    for problem in copy.iter().flat_map(|copy| &copy.reading.problems) {
        let message = format!("copy {number} of the volume table: {problem}");
        stage.report.findings.warn(problem.location(), codes::TABLE_RECORD_DAMAGED, message);
    }
}

fn refuse_table(stage: &mut Stage<'_>, copies: [Option<&Copy>; 2]) {
    let first_problem = |copy: Option<&Copy>| {
        copy.and_then(|copy| copy.reading.problems.first()).map(FormatError::to_string)
    };
    let problem = copies.into_iter().find_map(first_problem);
    let message = problem.unwrap_or_else(|| "the other copy is missing".to_owned());
    let at = Location::Peb(Peb::new(0), 0);
    let place = copies
        .into_iter()
        .flatten()
        .find_map(|copy| copy.reading.problems.first())
        .map_or(at, FormatError::location);
    stage.report.refuse(place, "volume-table-unusable", message);
}
