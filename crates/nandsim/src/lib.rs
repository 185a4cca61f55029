//! Simulated flash chips: the rules of NAND and NOR enforced, wear, bit flips, failures and power
//! cuts on demand, virtual time, snapshots that cost microseconds, and the database of real parts.
//!
//! ```
//! use eraseblock_mtd::Mtd;
//! use eraseblock_nandsim::{Chip, ChipConfig, Fault, FaultPlan, parts};
//!
//! let part = parts::find("W25N01GV")?;
//! let chip = Chip::new(ChipConfig::of_part(part));
//! // The fourth operation fails, the sixth silently stores wrong bits.
//! chip.set_plan(FaultPlan::new(1).with(3, Fault::Fail).with(5, Fault::Silent { bits: 2 }));
//! let before = chip.snapshot();
//! for page in 0..3 {
//!     chip.program(page * 2048, &[0x55; 2048])?;
//! }
//! assert!(chip.program(3 * 2048, &[0x55; 2048]).is_err());
//! chip.restore(&before)?;
//! assert_eq!(chip.counters().page_programs, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use plan::{ArmedCut, Chance, Fault, FaultPlan, ReadFault, ReadFlips, Retention, Trigger};
pub use rng::Rng;
pub use snapshot::Snapshot;
pub use variant::{Prefix, Variant};
