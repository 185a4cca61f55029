//! Error correction in software, byte for byte as Linux stores it: Hamming (spec: mtd-nand 7), BCH
//! (spec: mtd-nand 8), and [`EccMtd`], which applies a code to a raw chip.
//!
//! # Invariants
//! 1. The ECC of an erased step is all 0xFF, so that a sub-page write leaves other steps alone.
//! 2. At most the stated number of wrong bits in data and ECC together are corrected; data that
//!    cannot be corrected is returned as read.

mod bch;
mod device;
mod galois;
mod hamming;

pub use bch::{Bch, BchError};
pub use device::{EccError, EccMtd, EccScheme};
pub use hamming::Hamming;

#[cfg(test)]
mod tests;
