//! Known bugs on demand: what the power-cut laboratory must find, planted to see that it does.

/// A mistake the run-time half of UBI makes on purpose. Only tests of the tests want one.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Sabotage {
    /// None: everything as it should be.
    #[default]
    None,
    /// A change erases the old eraseblock before the new one is written.
    EraseBeforeData,
    /// New headers take the sequence number of the one before.
    SameSequence,
    /// A change is not marked as a copy: nobody looks at its checksum.
    ChangeWithoutCopyFlag,
    /// A move is not marked as a copy.
    MoveWithoutCopyFlag,
    /// A move erases its source before the data has been written.
    MoveErasesFirst,
    /// No erase-counter header is written after an erase.
    NoEcHeader,
    /// The erase counter stays as it is.
    EcNotCounted,
    /// Eraseblocks given back are handed out again without an erase.
    ReuseUnerased,
    /// Only the first copy of the volume table is written.
    OneTableCopy,
    /// Removing a volume erases its LEBs before its record is gone.
    RemoveLebsFirst,
    /// Shrinking a volume writes the table before the LEBs have been erased.
    ShrinkTableFirst,
    /// Creating a volume does not wait for the LEBs of its predecessor to be erased.
    CreateWithoutFlush,
    /// An update does not set its marker.
    UpdateWithoutMarker,
    /// An update clears its marker before the last LEB has been written.
    MarkerClearedEarly,
    /// Renaming to a name that is taken removes the old volume with a table of its own.
    RenameRemovesFirst,
    /// Unmapping forgets to give the eraseblock back.
    UnmapLeaks,
    /// Erasing a LEB does not wait for the erasure.
    LazyErase,
    /// Attaching does not rewrite a lost or outdated copy of the volume table.
    NoTableRecovery,
    /// The data of a change is programmed before its header.
    DataBeforeHeader,
    /// With fastmaps, new data goes to blocks that are in no pool.
    PoolBypassed,
    /// What a fastmap says about a LEB is believed without looking.
    FastmapTrusted,
    /// Super blocks of fastmaps that are not in use are left where they are.
    StaleAnchors,
    /// A scrub request that meets a LEB in use is forgotten.
    ScrubForgotten,
}

impl Sabotage {
    /// The mistakes power cuts bring to light. Stale anchors take a driver that attaches without
    /// fastmaps in between, forgotten scrub requests several threads: both have tests of their own.
    pub const ALL: [Self; 21] = [
        Self::EraseBeforeData,
        Self::SameSequence,
        Self::ChangeWithoutCopyFlag,
        Self::MoveWithoutCopyFlag,
        Self::MoveErasesFirst,
        Self::NoEcHeader,
        Self::EcNotCounted,
        Self::ReuseUnerased,
        Self::OneTableCopy,
        Self::RemoveLebsFirst,
        Self::ShrinkTableFirst,
        Self::CreateWithoutFlush,
        Self::UpdateWithoutMarker,
        Self::MarkerClearedEarly,
        Self::RenameRemovesFirst,
        Self::UnmapLeaks,
        Self::LazyErase,
        Self::NoTableRecovery,
        Self::DataBeforeHeader,
        Self::PoolBypassed,
        Self::FastmapTrusted,
    ];
}
