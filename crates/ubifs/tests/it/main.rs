//! Reading UBIFS volumes: the worked image of the specification, patched in every way a power cut,
//! a worn-out chip or an attacker might.
#![allow(clippy::cast_possible_truncation)] // images of tests are small
#![allow(clippy::unwrap_used)] // also in the helpers of tests

mod beside;
mod big_lpt;
mod bulk;
mod check;
mod comes_back;
mod committed;
mod edges;
mod faults;
mod foreign;
mod full;
mod full_log;
mod gaps;
mod hostile;
mod image;
mod journal;
mod last_leb;
mod limits;
mod log;
mod master;
mod orphans;
mod pool;
mod pressure;
mod rw;
mod salvage;
mod shapes;
mod small_lpt;
mod strict_leb;
mod twins;
