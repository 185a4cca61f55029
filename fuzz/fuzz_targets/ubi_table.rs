//! The volume table: any bytes are a table with problems, and never a volume larger than the device.
#![no_main]

use eraseblock_base::Location;
use eraseblock_fuzz::{LEB_SIZE, MIN_IO};
use eraseblock_ubi_format::decode::{RecordRules, decode_record};
use eraseblock_ubi_format::table::read_table;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let rules = RecordRules { leb_size: LEB_SIZE, min_io: MIN_IO, good_pebs: 64 };
    if let Ok(Some(record)) = decode_record(data, &rules, Location::Whole) {
        assert!(record.reserved_lebs <= rules.good_pebs);
    }
    let slots = u32::try_from(data.len() / 172).unwrap_or(0).min(128) + 1;
    let _ = read_table(data, slots, &rules, |_| Location::Whole);
});
