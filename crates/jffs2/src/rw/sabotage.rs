//! Known bugs on demand: what the power-cut laboratory must find, planted to see that it does.

/// A mistake the run time of JFFS2 makes on purpose. Only tests of the tests want one.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Sabotage {
    /// None: everything as it should be.
    #[default]
    None,
    /// Every node of an inode gets the same version.
    SameVersion,
    /// What was in a page that could not be programmed is forgotten.
    NoBufferRecovery,
    /// The last node of a block is missing from its summary.
    SummaryForgetsNode,
    /// Erased blocks get no cleanmarker.
    NoCleanmarker,
    /// Nothing is kept back for garbage collection.
    NoReserve,
    /// Blocks are erased while what replaces their nodes is still in the write buffer.
    EraseBeforeFlush,
    /// Deleting a name writes nothing.
    DeletionUnwritten,
    /// The space of a torn node is used again.
    ReuseTornSpace,
    /// Deleting an extended attribute writes nothing.
    XattrNotDeleted,
    /// A rename takes the old name away before the new one is there.
    RenameRemovesFirst,
    /// Making a file durable does not flush the write buffer.
    SyncWithoutFlush,
    /// The checksum of data is not looked at when a node is met first.
    AcceptTornData,
    /// A block is continued in the page where its last node ends.
    ContinueInPage,
    /// Erased blocks without a cleanmarker are used as they are.
    UseUnmarked,
    /// Cutting a file off writes nothing.
    TruncateUnwritten,
    /// Garbage collection gives a hole that is overwritten in parts a new version.
    HoleHidesData,
    /// Garbage collection drops nodes of attributes.
    AttributesDropped,
    /// Garbage collection drops deleted references whose older copies are still on flash.
    ReferenceDeletionDropped,
    /// After mounting, numbers of inodes are given out again.
    InodeNumbersReused,
    /// After mounting, versions start anew.
    VersionsRestart,
    /// Nodes of data carry the size from before.
    OldSize,
    /// Of two nodes for one name the older one wins.
    OldestNameWins,
    /// Content behind the end of a file is not cut off when it is loaded.
    SizeNotCut,
    /// A write over existing content is given to the map before what it hides is dead.
    OverwrittenStaysAlive,
    /// Writing behind the end of a file leaves out the hole.
    NoHole,
    /// Garbage collection forgets to copy what is alive.
    CollectWithoutCopy,
    /// Garbage collection drops deletions of names whose older nodes are still on flash.
    DeletionDropped,
    /// What is in the page that was programmed last is relied on after a mount.
    TrustLastPage,
}

impl Sabotage {
    /// All mistakes.
    pub const ALL: [Self; 28] = [
        Self::SameVersion,
        Self::NoBufferRecovery,
        Self::SummaryForgetsNode,
        Self::NoCleanmarker,
        Self::NoReserve,
        Self::EraseBeforeFlush,
        Self::DeletionUnwritten,
        Self::ReuseTornSpace,
        Self::XattrNotDeleted,
        Self::RenameRemovesFirst,
        Self::SyncWithoutFlush,
        Self::AcceptTornData,
        Self::ContinueInPage,
        Self::UseUnmarked,
        Self::TruncateUnwritten,
        Self::HoleHidesData,
        Self::AttributesDropped,
        Self::ReferenceDeletionDropped,
        Self::InodeNumbersReused,
        Self::VersionsRestart,
        Self::OldSize,
        Self::OldestNameWins,
        Self::SizeNotCut,
        Self::OverwrittenStaysAlive,
        Self::NoHole,
        Self::CollectWithoutCopy,
        Self::DeletionDropped,
        Self::TrustLastPage,
    ];
}
