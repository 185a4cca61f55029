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
    /// Writing behind the end of a file leaves out the hole.
    NoHole,
    /// Garbage collection forgets to copy what is alive.
    CollectWithoutCopy,
    /// Garbage collection drops deletions of names whose older nodes are still on flash.
    DeletionDropped,
}
