//! Whole volumes: opening, walking and reading end with a result, for all bytes.
#![no_main]

use eraseblock_fuzz::{LEB_SIZE, MIN_IO};
use eraseblock_mtd::LebFile;
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    if let Ok(device) = LebFile::new(data.to_vec(), LEB_SIZE, MIN_IO, None) {
        eraseblock_fuzz::read_ubifs(Arc::new(device));
    }
});
