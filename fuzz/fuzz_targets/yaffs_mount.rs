//! Whole YAFFS images: finding the layout, opening, walking and reading end with a result, for all
//! bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    eraseblock_fuzz::read_yaffs(data.to_vec());
});
