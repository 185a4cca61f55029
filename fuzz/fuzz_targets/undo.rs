//! Undo files: any bytes either restore the target as it was, or are refused, which leaves it alone.
#![no_main]

use eraseblock_fuzz::scratch;
use eraseblock_repair::undo::{Run, is_finished, is_of_flash, is_whole, undo};
use libfuzzer_sys::fuzz_target;
use std::io::Read;

/// What the target holds.
const TARGET: &[u8] = &[0x5A; 8192];

fuzz_target!(|data: &[u8]| {
    let (file, target) = (scratch("undo", data), scratch("target", TARGET));
    for run in [Run::Dry, Run::Real] {
        let outcome = undo(&file, &target, run);
        if outcome.is_err() || run == Run::Dry {
            let mut held = Vec::new();
            let path = eraseblock_fuzz::scratch_path("target");
            std::fs::File::open(path).unwrap().read_to_end(&mut held).unwrap();
            assert!(held == TARGET);
        }
    }
    for question in [is_of_flash, is_whole, is_finished] {
        let _ = question(&scratch("undo", data));
    }
});
