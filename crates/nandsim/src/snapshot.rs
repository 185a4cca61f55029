//! A chip at one moment: made in microseconds, whatever the size of the chip.

use crate::chip::Chip;
use crate::config::ChipConfig;
use crate::counters::Counters;
use crate::file::{ChipFile, ChipFileError};
use crate::state::State;
use crate::store::Slot;
use eraseblock_base::Peb;
use std::path::Path;

/// Everything about a chip at one moment. It shares its blocks with the chip until either changes.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) state: State,
    pub(crate) counters: Counters,
}

impl Snapshot {
    /// Returns a chip of its own that goes on from here, in memory.
    pub fn to_chip(&self) -> Chip {
        Chip::from_snapshot(self)
    }

    /// Writes the chip into a new file; an existing file is replaced.
    pub fn save(&self, path: &Path) -> Result<(), ChipFileError> {
        let file = ChipFile::create(path, &self.state.config)?;
        let stride = self.state.config.stride();
        let fail = |source| ChipFileError::io(path, "write", source);
        for peb in self.state.config.geometry.pebs() {
            let slot = self.state.store.get(peb);
            // Cells count only when the record of their block is there.
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

    /// What the chip is.
    pub fn config(&self) -> &ChipConfig {
        &self.state.config
    }

    /// Returns the number the next event will have.
    pub fn next_event(&self) -> u64 {
        self.state.events
    }

    /// Returns whether cells, out-of-band bytes, bad-block marks, wear and fault states are equal.
    pub fn same_flash(&self, other: &Self) -> bool {
        self.differing_pebs(other).is_empty()
    }

    /// Returns the blocks in which two states of one chip differ, ascending. Cost grows with what
    /// was changed between them, not with the chip.
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
