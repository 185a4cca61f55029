//! Simulated flash chips: the rules of NAND and NOR enforced, wear, bit flips, failures and power
//! cuts on demand, virtual time, snapshots that cost microseconds, and the database of real parts.

pub mod chip;
pub mod config;
pub mod counters;
pub mod event;
pub mod file;
mod overlay;
pub mod parts;
pub mod plan;
pub mod rng;
pub mod snapshot;
mod state;
mod store;
pub mod variant;

pub use chip::{Chip, WearReport};
pub use config::{ChipConfig, Correction, Policy, Rules, Timing};
pub use counters::Counters;
pub use event::{Event, EventKind, Recorded};
pub use file::{ChipFileError, is_chip_file};
pub use parts::Part;
pub use plan::{ArmedCut, Chance, Fault, FaultPlan, ReadFault, ReadFlips, Trigger};
pub use rng::Rng;
pub use snapshot::Snapshot;
pub use variant::{Prefix, Variant};
