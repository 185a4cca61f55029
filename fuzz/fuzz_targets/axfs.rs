//! Whole AXFS images: opening, walking and reading end with a result, for all bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    eraseblock_fuzz::read_axfs(data.to_vec());
});
