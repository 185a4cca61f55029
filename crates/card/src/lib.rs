//! Simulated SD cards: flash with a translation layer, a disk with virtual time.
//!
//! A card maps whole allocation units. It keeps the new pages of a few units in a log each; a write
//! to one unit more closes the unit that was not written for the longest time, and closing copies
//! the rest of that unit. This is why cards collapse when more units are written alternately than
//! the card can keep open (docs/format/card.md has the equations).
//!
//! ```
//! use eraseblock_card::{Card, presets};
//!
//! let preset = presets::find("sd-2012-c10")?.parameters.with_capacity(256 << 20);
//! let mib = vec![0x55; 1 << 20];
//! // Five units stay open; writing six in turn closes one before every write.
//! let time = |units: u64| -> Result<u64, Box<dyn std::error::Error>> {
//!     let card = Card::in_memory(preset.clone())?;
//!     for turn in 0..8 {
//!         for unit in 1..=units {
//!             card.write(unit * (8 << 20) + turn * (1 << 20), &mib)?;
//!         }
//!     }
//!     Ok(card.counters().total_ns() / units)
//! };
//! assert!(time(6)? > 5 * time(5)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! 1. The same operations take the same times and leave the same card.
//! 2. Reading returns what was written; the model only decides about times and wear.
//! 3. The bytes of a card file are input: nothing in them causes a panic or unbounded memory.

pub mod card;
mod content;
pub mod counters;
pub mod error;
mod file;
mod model;
pub mod parameters;
pub mod presets;
pub mod probe;

pub use card::{Card, PowerCut};
pub use counters::{Counters, Wear};
pub use error::CardError;
pub use file::is_card_file;
pub use parameters::{Parameters, Trim};
pub use presets::Preset;
