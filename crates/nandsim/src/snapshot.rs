//! The state of a chip at one moment, created in microseconds regardless of the size of the chip.

use crate::chip::Chip;
use crate::config::ChipConfig;
use crate::counters::Counters;
use crate::file::{ChipFile, ChipFileError};
use crate::state::State;
use crate::store::Slot;
use eraseblock_base::Peb;
use std::path::Path;

/// The complete state of a chip. It shares its blocks with the chip until either changes.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) state: State,
    pub(crate) counters: Counters,
}

impl Snapshot {
    /// Returns an independent chip in memory that continues from this state.
    pub fn to_chip(&self) -> Chip {
        Chip::from_snapshot(self)
    }

    /// Writes the chip to a new file; replaces an existing file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written or another process has it open.
    pub fn save(&self, path: &Path) -> Result<(), ChipFileError> {
        let file = ChipFile::create(path, &self.state.config)?;
        let stride = self.state.config.stride();
        let fail = |source| ChipFileError::io(path, "write", source);
        for peb in self.state.config.geometry.pebs() {
            let slot = self.state.store.get(peb);
            // Cells are valid only if the record of their block is there.
            let cells = slot.block.as_ref().map_or(&[][..], |block| &block.cells);
            for (page, cells) in (0..).zip(cells.chunks(stride)) {
                file.write_cells(peb, page, cells).map_err(fail)?;
            }
            if *slot != Slot::default() {
                file.write_slot(peb, slot).map_err(fail)?;
            }
        }
        file.write_state(&self.state, &self.counters).map_err(fail)
    }

    /// Returns the configuration of the chip.
    pub fn config(&self) -> &ChipConfig {
        &self.state.config
    }

    /// Returns the number of the next event.
    pub fn next_event(&self) -> u64 {
        self.state.events
    }

    /// Returns whether cells, out-of-band bytes, bad-block marks, wear and fault states are equal.
    pub fn same_flash(&self, other: &Self) -> bool {
        self.differing_pebs(other).is_empty()
    }

    /// Returns the blocks in which two states of one chip differ, ascending. The cost grows with
    /// the changes between them, not with the chip.
    pub fn differing_pebs(&self, other: &Self) -> Vec<Peb> {
        let (left, right) = (&self.state.store, &other.state.store);
        let geometry = &self.state.config.geometry;
        if *geometry != other.state.config.geometry {
            return geometry.pebs().collect();
        }
        let differs =
            |peb: &Peb| !left.same_chunk(right, *peb) && left.get(*peb) != right.get(*peb);
        geometry.pebs().filter(differs).collect()
    }
}
