//! Recordings of operations: of eraseblock, fio and strace. Reading and exporting end with a result,
//! for all bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    eraseblock_fuzz::read_recording(data);
});
