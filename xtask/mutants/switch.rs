//! The switch of the mutants: which one this process runs, and which ones it meets.
//!
//! Exists in the scratch copy of the mutation tests only. One mutant is active in a process, or none
//! while the tests record which mutants each of them reaches.

extern crate std;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::io::Write;

/// Nothing has been asked yet.
const UNREAD: u32 = u32::MAX;
/// Every mutant that is met is recorded, none is active.
const RECORDING: u32 = u32::MAX - 1;
/// No mutant is active.
const NONE: u32 = u32::MAX - 2;

static ACTIVE: AtomicU32 = AtomicU32::new(UNREAD);
static MET: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// Returns whether the mutant of this number is active.
#[inline]
pub fn active(number: u32) -> bool {
    let active = ACTIVE.load(Ordering::Relaxed);
    if active <= NONE { active == number } else { decide(active, number) }
}

#[cold]
fn decide(state: u32, number: u32) -> bool {
    let state = if state == UNREAD { chosen() } else { state };
    ACTIVE.store(state, Ordering::Relaxed);
    if state == RECORDING {
        record(number);
    }
    state == number
}

/// What the environment asks for.
fn chosen() -> u32 {
    if std::env::var_os("ERASEBLOCK_MUTANT_RECORD").is_some() {
        return RECORDING;
    }
    let number = std::env::var("ERASEBLOCK_MUTANT").ok();
    number.and_then(|text| text.parse().ok()).unwrap_or(NONE)
}

/// Appends the number to the record when it is met for the first time.
fn record(number: u32) {
    let bit = 1 << (number % 64);
    if MET[number as usize / 64].fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return;
    }
    if let Some(path) = std::env::var_os("ERASEBLOCK_MUTANT_RECORD") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let line = std::format!("{number}\n");
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the record is written");
    }
}
