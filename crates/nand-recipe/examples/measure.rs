//! Measures decoding and detection: `cargo run --release -p eraseblock-nand-recipe --example
//! measure`.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss)]

use eraseblock_base::Findings;
use eraseblock_mtd::ReadAt;
use eraseblock_nand_recipe::recipe::Code;
use eraseblock_nand_recipe::table::find;
use eraseblock_nand_recipe::{
    Damaged, DecodeOptions, Hints, Outcome, Recipe, decode, detect, encode,
};
use std::time::Instant;

/// Bytes of an image.
const SIZE: usize = 64 << 20;

fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    seed.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Flips as many bits in each codeword as its code corrects.
fn damage(dump: &mut [u8], recipe: &Recipe, seed: &mut u64) {
    let (Code::Bch { t, .. } | Code::Rs { t, .. }) = recipe.regions[0].code else { return };
    for raw in dump.chunks_exact_mut(recipe.raw_page()) {
        for word in &recipe.regions[0].codewords {
            let range = word.data[0];
            let step = u64::from(range.count()) / u64::from(t);
            for flip in 0..u64::from(t) {
                let bit = u64::from(range.start) + flip * step + next(seed) % step;
                raw[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
            }
        }
    }
}

fn run(dump: &dyn ReadAt, recipe: &Recipe) -> u64 {
    let mut findings = Findings::new();
    let mut each = |_, _: Outcome| Ok(());
    let options = DecodeOptions { damaged: Damaged::Zeros };
    let mut out = std::io::sink();
    let decoded = decode(dump, recipe, options, &mut out, &mut findings, &mut each).unwrap();
    assert_eq!(decoded.uncorrectable, 0);
    decoded.corrected_bits
}

fn main() {
    let mut seed = 1;
    let image: Vec<u8> = (0..SIZE / 8).flat_map(|_| next(&mut seed).to_le_bytes()).collect();
    for name in [
        "linux-hamming",
        "linux-bch4",
        "linux-bch8",
        "qcom-bch4",
        "gpmi",
        "brcm-bch8",
        "sunxi",
        "qcom-rs",
    ] {
        let recipe = find(name).unwrap();
        let mut dump = Vec::new();
        encode(&image, &recipe, &mut dump).unwrap();
        let clean = seconds(|| assert_eq!(run(&dump, &recipe), 0));
        let detecting = seconds(|| drop(detect(&dump, &Hints::default()).unwrap()));
        let few = SIZE / 16 / recipe.chip.page as usize * recipe.raw_page();
        dump.truncate(few);
        damage(&mut dump, &recipe, &mut seed);
        let mut bits = 0;
        let wrong = seconds(|| bits = run(&dump, &recipe));
        let mib = |seconds: f64, bytes: usize| bytes as f64 / f64::from(1 << 20) / seconds;
        println!(
            "{}: {:.0} MiB/s clean, {:.1} MiB/s with all codes at their limit ({bits} bits); detected in {detecting:.2} s",
            recipe.name(),
            mib(clean, SIZE),
            mib(wrong, SIZE / 16)
        );
    }
    let random: Vec<u8> =
        (0..(2112 << 16) / 8).flat_map(|_| next(&mut seed).to_le_bytes()).collect();
    let deep = Hints { deep: true, ..Hints::default() };
    let taken = seconds(|| assert!(detect(&random, &deep).unwrap().candidates.is_empty()));
    println!("132 MiB of random bytes, deep: {taken:.1} s");
}
