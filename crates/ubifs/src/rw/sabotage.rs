//! Known bugs on demand: what the power-cut laboratory must find, planted to see that it does.

/// A mistake the run time of UBIFS makes on purpose. Only tests of the tests want one.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Sabotage {
    /// None: everything as it should be.
    #[default]
    None,
    /// What fills up a page is not marked as padding.
    PaddingMissing,
    /// Padding is not counted as dirty.
    PaddingNotDirty,
    /// Every node of an operation is marked as its last.
    GroupsUnmarked,
    /// All nodes have the same sequence number.
    SameSqnum,
    /// What is in a write-buffer is forgotten when its head moves.
    BufferDropped,
    /// LEBs join the journal without a reference in the log.
    BudUnlogged,
    /// A commit refers to the journal's LEBs as a whole.
    BudFromStart,
    /// A commit does not refer to the heads of the journal.
    CommitForgetsHeads,
    /// A commit start carries the number of the commit before.
    CommitStartOldNumber,
    /// The old log is erased when a commit starts.
    OldLogErasedEarly,
    /// A commit does not write the LPT.
    LptUnwritten,
    /// Only one copy of the master is written.
    OneMaster,
    /// A commit leaves write-buffers as they are.
    CommitWithoutSync,
    /// Index LEBs of the last commit are erased when the next one starts.
    OldIndexErasedEarly,
    /// An index LEB that was collected is erased before the commit.
    IndexVictimErasedEarly,
    /// Nodes of the committed index are gaps.
    GapsOverOldNodes,
    /// A mount does not say that the file system is in use.
    DirtyFlagUnset,
    /// A clean master names the reserved LEB of an earlier time.
    StaleGcLnum,
    /// The master keeps an old highest inode number.
    HighestInumUnsaved,
    /// Replay does not look at inode numbers.
    HighestInumNotRaised,
    /// Unfinished operations are replayed.
    GroupNotDropped,
    /// The torn end of a journal LEB stays as it is.
    TornEndKept,
    /// Index head and LPT head are written on after a cut.
    HeadsNotRenewed,
    /// A mount writes on behind the last master.
    MastersAppended,
    /// The journal is replayed LEB by LEB.
    ReplayUnordered,
    /// Replay passes truncations over.
    TruncationNotReplayed,
    /// Replay passes deletions of inodes over.
    DeletionNotReplayed,
    /// Replay passes removals of names over.
    RemovalNotReplayed,
    /// Replay leaves the free bytes of a LEB as they were.
    ReplayKeepsFree,
    /// Sizes stay behind their content.
    SizesNotFixed,
    /// Orphans live on after a cut.
    OrphansKept,
    /// A commit does not list orphans.
    OrphansUnwritten,
    /// Orphans outlive a clean unmount.
    CleanWithOrphans,
    /// A LEB is erased before its nodes are moved.
    VictimErasedFirst,
    /// Collecting a LEB forgets one of its nodes.
    NodesForgotten,
    /// The index keeps the old places of nodes that were moved.
    MovedNotIndexed,
    /// The removal of a name looks like the name.
    DeletionNamesInode,
    /// A new name does not change its directory on flash.
    ParentUnwritten,
    /// A new link does not change its inode on flash.
    LinkedInodeUnwritten,
    /// A rename does not take the old name away on flash.
    RenameKeepsOldName,
    /// An exchange gives both names the same inode on flash.
    ExchangeHalf,
    /// The removal of an attribute looks like the attribute.
    XattrRemovalUnwritten,
    /// A new attribute is not counted by its inode.
    XattrNotCounted,
    /// A truncation does not take content away on flash.
    TruncationUnwritten,
    /// A truncation leaves the last block as it is.
    TailNotCut,
    /// Making a file durable leaves its content behind.
    FsyncSkipsData,
    /// Making a file durable leaves its inode in the write-buffer.
    FsyncSkipsBase,
    /// Making a file durable does not write its inode.
    FsyncSkipsInode,
    /// Making everything durable leaves pages behind.
    SyncSkipsPages,
    /// Making everything durable leaves inodes behind.
    SyncSkipsInodes,
    /// Making everything durable leaves the write-buffers behind.
    SyncWithoutCommit,
    /// A file without a name is no orphan.
    UnnamedNoOrphan,
    /// An empty LEB becomes an index LEB as it is.
    IndexLebNotErased,
    /// The index head is not held.
    IndexHeadNotTaken,
    /// What is replaced is not counted as dirty.
    DirtNotCounted,
    /// A read-only mount repairs the flash.
    ReadOnlyWrites,
    /// A LEB that is written anew is erased first.
    RenewInTwoSteps,
    /// A LEB whose inode gets another size is erased first.
    PatchInTwoSteps,
    /// A mount writes only one master anew.
    OneMasterRenewed,
    /// A master that is written anew does not say so.
    RecoveryFlagMissing,
}

impl Sabotage {
    /// All mistakes.
    pub const ALL: [Self; 60] = [
        Self::PaddingMissing,
        Self::PaddingNotDirty,
        Self::GroupsUnmarked,
        Self::SameSqnum,
        Self::BufferDropped,
        Self::BudUnlogged,
        Self::BudFromStart,
        Self::CommitForgetsHeads,
        Self::CommitStartOldNumber,
        Self::OldLogErasedEarly,
        Self::LptUnwritten,
        Self::OneMaster,
        Self::CommitWithoutSync,
        Self::OldIndexErasedEarly,
        Self::IndexVictimErasedEarly,
        Self::GapsOverOldNodes,
        Self::DirtyFlagUnset,
        Self::StaleGcLnum,
        Self::HighestInumUnsaved,
        Self::HighestInumNotRaised,
        Self::GroupNotDropped,
        Self::TornEndKept,
        Self::HeadsNotRenewed,
        Self::MastersAppended,
        Self::ReplayUnordered,
        Self::TruncationNotReplayed,
        Self::DeletionNotReplayed,
        Self::RemovalNotReplayed,
        Self::ReplayKeepsFree,
        Self::SizesNotFixed,
        Self::OrphansKept,
        Self::OrphansUnwritten,
        Self::CleanWithOrphans,
        Self::VictimErasedFirst,
        Self::NodesForgotten,
        Self::MovedNotIndexed,
        Self::DeletionNamesInode,
        Self::ParentUnwritten,
        Self::LinkedInodeUnwritten,
        Self::RenameKeepsOldName,
        Self::ExchangeHalf,
        Self::XattrRemovalUnwritten,
        Self::XattrNotCounted,
        Self::TruncationUnwritten,
        Self::TailNotCut,
        Self::FsyncSkipsData,
        Self::FsyncSkipsBase,
        Self::FsyncSkipsInode,
        Self::SyncSkipsPages,
        Self::SyncSkipsInodes,
        Self::SyncWithoutCommit,
        Self::UnnamedNoOrphan,
        Self::IndexLebNotErased,
        Self::IndexHeadNotTaken,
        Self::DirtNotCounted,
        Self::ReadOnlyWrites,
        Self::RenewInTwoSteps,
        Self::PatchInTwoSteps,
        Self::OneMasterRenewed,
        Self::RecoveryFlagMissing,
    ];
}
