//! Compares the past of many volumes with what a model knows: `versions FIRST_SEED LAST_SEED`.

#[path = "../tests/it/model.rs"]
mod model;

use model::{Counts, Known, compare};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut seeds = std::env::args().skip(1).filter_map(|seed| seed.parse::<u64>().ok());
    let (first, last) = (seeds.next().unwrap_or(0), seeds.next().unwrap_or(100));
    let mut all = Counts::default();
    for seed in first..last {
        let known = Known::new(seed, 24 + 4 * (seed as u32 % 12), 100 + 50 * (seed % 10));
        match compare(&known) {
            Ok(counts) => all.add(&counts),
            Err(wrong) => {
                println!("seed {seed}: {wrong}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{all:#?}");
    ExitCode::SUCCESS
}
