//! The simulated chip against its specification.
#![allow(clippy::unwrap_used, clippy::default_trait_access, clippy::needless_for_each)]

mod bbt;
mod ecc;
mod file;
mod partition;
mod retention;
mod rules;
mod variants;

use eraseblock_base::{Geometry, MediumKind, Peb};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, ChipConfig};

/// 64 blocks of 16 KiB, pages of 512 bytes without sub-pages.
fn mini() -> ChipConfig {
    let geometry = Geometry::new(MediumKind::Nand, 16_384, 64, 512, 512, 16).unwrap();
    ChipConfig::of_geometry(geometry).unwrap()
}

/// 16 blocks of 32 KiB, pages of 2048 bytes with four sub-pages, in ascending order.
fn large() -> ChipConfig {
    let geometry = Geometry::new(MediumKind::Nand, 32_768, 16, 2048, 512, 64).unwrap();
    ChipConfig::of_geometry(geometry).unwrap()
}

fn nor() -> ChipConfig {
    let geometry = Geometry::new(MediumKind::Nor, 16_384, 16, 1, 1, 0).unwrap();
    ChipConfig::of_geometry(geometry).unwrap()
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    eraseblock_nandsim::Rng::new(seed, 1).fill(&mut bytes);
    bytes
}

fn read(chip: &Chip, addr: u64, len: usize) -> (Vec<u8>, eraseblock_mtd::ReadOutcome) {
    let mut bytes = vec![0; len];
    let outcome = chip.read(addr, &mut bytes).unwrap();
    (bytes, outcome)
}

const P0: Peb = Peb::new(0);
const P1: Peb = Peb::new(1);
