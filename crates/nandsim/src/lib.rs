//! Simulated flash chips: the rules of NAND and NOR enforced, wear, bit flips, failures and power
//! cuts on demand, virtual time, snapshots that cost microseconds, and the database of real parts.

pub mod parts;

pub use parts::Part;
