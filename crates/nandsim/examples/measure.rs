//! Measures the speed of the simulated chip: `cargo run --release -p eraseblock-nandsim --example
//! measure`.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss)]

use eraseblock_base::{Geometry, MediumKind, Peb};
use eraseblock_mtd::Mtd;
use eraseblock_mtd::ecc::Bch;
use eraseblock_nandsim::{Chip, ChipConfig, Rng, Snapshot, Variant};
use std::hint::black_box;
use std::time::Instant;

fn chip(peb_size: u32, count: u32, page: u32, oob: u32) -> Chip {
    let geometry = Geometry::new(MediumKind::Nand, peb_size, count, page, page, oob).unwrap();
    Chip::new(ChipConfig::of_geometry(geometry).unwrap())
}

/// Runs `work` `count` times; returns the nanoseconds of each run.
fn time(count: u32, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..count).for_each(|_| work());
    start.elapsed().as_nanos() as f64 / f64::from(count)
}

fn events(name: &str, chip: &Chip) {
    let geometry = *chip.geometry();
    let page = vec![0x5A; geometry.min_io() as usize];
    let per_round = geometry.peb_count() * (geometry.pages_per_peb() + 1);
    let rounds = 1 + 200_000 / per_round;
    let ns = time(rounds, || {
        for peb in geometry.pebs() {
            let start = geometry.address_of(peb);
            for number in 0..geometry.pages_per_peb() {
                let addr = start + u64::from(number * geometry.min_io());
                chip.program(addr, &page).unwrap();
            }
            chip.erase(peb).unwrap();
        }
    });
    println!("{name}: {:.2} million events/s", f64::from(per_round) * 1000.0 / ns);
}

fn snapshots(name: &str, chip: &Chip) {
    let geometry = *chip.geometry();
    let mut page = vec![0; geometry.min_io() as usize];
    for peb in geometry.pebs() {
        for number in 0..geometry.pages_per_peb() / 2 {
            let addr = geometry.address_of(peb) + u64::from(number * geometry.min_io());
            chip.program(addr, &page).unwrap();
        }
    }
    let mut kept: Option<Snapshot> = None;
    let ns = time(200_000, || kept = Some(black_box(chip.snapshot())));
    println!("{name}: snapshot {ns:.0} ns");
    let half = u64::from(geometry.peb_size() / 2);
    let base = chip.snapshot();
    let ns = time(20_000, || {
        chip.restore(&base).unwrap();
        chip.program(geometry.address_of(Peb::new(1)) + half, &page).unwrap();
    });
    println!("{name}: restore and first program {ns:.0} ns");
    let ns = time(50_000, || assert!(chip.read(0, &mut page).is_ok()));
    println!("{name}: page read {ns:.0} ns");
}

fn cuts() {
    let chip = chip(16_384, 64, 512, 16);
    chip.set_recording(true);
    chip.program(0, &vec![0x5A; 16_384]).unwrap();
    let recorded = chip.take_recording();
    let mut count = 0_u32;
    let ns = time(200, || {
        for event in &recorded {
            for variant in event.variants() {
                black_box(event.cut(variant, 1).unwrap());
                count += 1;
            }
        }
    });
    println!("mini: power-cut state {:.0} ns", ns * 200.0 / f64::from(count));
    let p1 = time(20_000, || drop(black_box(recorded[9].cut(Variant::P1, 1))));
    println!("mini: power-cut state P1 {p1:.0} ns");
}

fn bch() {
    let mut data = vec![0; 1 << 20];
    Rng::new(1, 1).fill(&mut data);
    for strength in [4, 8, 16] {
        let code = Bch::new(512, strength).unwrap();
        let mut ecc = vec![0; code.ecc_bytes()];
        let ns = time(50, || {
            for step in data.chunks_exact(512) {
                code.encode(step, &mut ecc);
                black_box(&ecc);
            }
        });
        println!("BCH-{strength}: encode {:.0} MB/s", data.len() as f64 * 1000.0 / ns);
        code.encode(&data[..512], &mut ecc);
        let mut broken = data[..512].to_vec();
        (0..strength).for_each(|bit| broken[17 * bit as usize] ^= 8);
        let ns = time(2000, || {
            let mut step = broken.clone();
            assert_eq!(code.correct(&mut step, &ecc), Some(strength));
        });
        println!("BCH-{strength}: correct {strength} bits in {:.1} us", ns / 1000.0);
    }
}

fn main() {
    events("mini 64 x 16 KiB / 512", &chip(16_384, 64, 512, 16));
    events("std 128 x 128 KiB / 2048", &chip(131_072, 128, 2048, 64));
    snapshots("mini", &chip(16_384, 64, 512, 16));
    snapshots("128 MiB", &chip(131_072, 1024, 2048, 64));
    cuts();
    bch();
}
