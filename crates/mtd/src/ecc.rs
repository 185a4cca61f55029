//! Error correction in software, byte for byte as Linux stores it: Hamming (spec: mtd-nand 7), BCH
//! (spec: mtd-nand 8), and [`EccMtd`], which applies a code to a raw chip. The codes of other
//! controllers (spec: nand-recipe 2) are the general form of [`Bch`], and [`ReedSolomon`].
//!
//! # Invariants
//! 1. The ECC of an erased step is all 0xFF, so that a sub-page write leaves other steps alone.
//! 2. At most the stated number of wrong bits in data and ECC together are corrected; data that
//!    cannot be corrected is returned as read.

mod bch;
mod device;
mod galois;
mod hamming;
mod reed_solomon;

pub use bch::{Bch, BchError, BchParameters, ParameterError};
pub use device::{EccError, EccMtd, EccScheme};
pub use hamming::Hamming;
pub use reed_solomon::{ReedSolomon, RsError, RsParameters};

#[cfg(test)]
mod tests;
