//! Streams of YAFFS2 checkpoints and chunks of block summaries: parsing ends with a result, for all bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    eraseblock_fuzz::read_yaffs_state(data);
});
