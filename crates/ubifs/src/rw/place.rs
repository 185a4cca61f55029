//! Positions on flash (layer 1).

use super::error::at;
use eraseblock_base::Location;
use eraseblock_ubifs_format::Branch;

/// A position: a byte of a LEB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub(super) leb: u32,
    pub(super) offset: u32,
}

impl Place {
    /// Returns the first byte of a LEB.
    pub(super) const fn start_of(leb: u32) -> Self {
        Self { leb, offset: 0 }
    }

    /// Returns the place of the node of a branch.
    pub(super) fn of(branch: &Branch) -> Self {
        Self { leb: branch.leb.get(), offset: branch.offset }
    }

    /// Returns a place as trees on flash store it: LEB 0 is nowhere.
    pub(super) fn on_flash(leb: u32, offset: u32) -> Option<Self> {
        (leb != 0).then_some(Self { leb, offset })
    }

    /// Returns LEB and offset as trees on flash store them.
    pub(super) fn stored(place: Option<Self>) -> (u32, u32) {
        place.map_or((0, 0), |Self { leb, offset }| (leb, offset))
    }

    /// Returns the place `offset` bytes further on.
    pub(super) const fn after(self, offset: u32) -> Self {
        Self { leb: self.leb, offset: self.offset + offset }
    }

    pub(super) fn location(self) -> Location {
        at(self.leb, self.offset)
    }
}

/// A node on flash or in a write buffer: its first byte and its exact length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) place: Place,
    pub(super) len: u32,
}
