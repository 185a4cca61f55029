//! Numbered flash events: every page program, block erase and bad-block mark, in the order in which
//! the chip executes them. Reads have their own numbering.

use crate::chip::Chip;
use crate::plan::{Fault, FaultPlan};
use crate::snapshot::Snapshot;
use crate::variant::Variant;
use eraseblock_base::Peb;
use eraseblock_mtd::MtdError;
use std::sync::Arc;

/// A change of the flash, with everything needed to repeat it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// Programming bytes of one page and of its out-of-band bytes; either may be empty.
    Program {
        /// The block.
        peb: Peb,
        /// The offset of the data in the block in bytes; the start of the page if there are only
        /// out-of-band bytes.
        offset: u32,
        /// The data.
        data: Arc<[u8]>,
        /// The offset of the out-of-band bytes.
        oob_offset: u32,
        /// The out-of-band bytes.
        oob: Arc<[u8]>,
    },
    /// Erasing a block.
    Erase {
        /// The block.
        peb: Peb,
    },
    /// Marking a block bad.
    MarkBad {
        /// The block.
        peb: Peb,
    },
}

impl EventKind {
    /// Returns the affected block.
    pub fn peb(&self) -> Peb {
        match self {
            Self::Program { peb, .. } | Self::Erase { peb } | Self::MarkBad { peb } => *peb,
        }
    }
}

/// An event with its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Counted from 0 over the life of the chip.
    pub number: u64,
    /// What happened.
    pub kind: EventKind,
}

/// An event together with the state of the chip just before it; power-cut tests branch from it.
/// Recorded with [`Chip::set_recording`].
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The event.
    pub event: Event,
    /// The chip before it.
    pub before: Snapshot,
}

impl Recorded {
    /// Returns every power-cut variant that applies to the event.
    pub fn variants(&self) -> Vec<Variant> {
        Variant::for_event(&self.event.kind, self.before.config())
    }

    /// Returns the chip after a power cut during this event: powered off, without a fault plan,
    /// ready for [`Chip::power_on`]. The same `variant` and `seed` always give the same bytes.
    ///
    /// # Errors
    ///
    /// Fails with [`MtdError::Unsupported`] if the variant does not apply to the event.
    pub fn cut(&self, variant: Variant, seed: u64) -> Result<Chip, MtdError> {
        let chip = self.before.to_chip();
        chip.set_plan(FaultPlan::new(seed).with(self.event.number, Fault::Cut(variant)));
        match chip.repeat(&self.event.kind) {
            Err(MtdError::PowerOff) => {
                chip.set_plan(FaultPlan::new(seed));
                Ok(chip)
            }
            Err(error) => Err(error),
            Ok(()) => Err(MtdError::Unsupported { operation: "this power-cut variant" }),
        }
    }
}
