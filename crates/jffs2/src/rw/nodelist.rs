//! What is kept of every node (spec: jffs2 12.1).
//!
//! Layer: data. Uses nothing else of the run time.
//!
//! # Invariants
//! 1. Places and lengths are multiples of 4: the state lies in the bits that are free.

/// The state of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefState {
    /// Alive, checksums not all verified.
    Unchecked,
    /// Dead.
    Obsolete,
    /// Alive, may be copied unchanged.
    Pristine,
    /// Alive, always rebuilt by garbage collection.
    Normal,
}

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefKind {
    /// An INODE node; its owner is the inode.
    Inode,
    /// A DIRENT node that gives a name to an inode; its owner is the directory.
    Dirent,
    /// A DIRENT node that deletes a name; its owner is the directory.
    Deletion,
    /// An XATTR node; its owner is the xid.
    Xattr,
    /// An XREF node; its owner is the inode.
    Xref,
    /// A node of unknown type that must be kept.
    Copy,
    /// A cleanmarker or a summary: dropped by garbage collection.
    Filler,
    /// An INODE node that cannot be used, kept because no other node holds a part of its file.
    Broken,
}

impl RefKind {
    /// Returns whether the node is in the list of an inode, its owner.
    pub(crate) fn is_of_inode(self) -> bool {
        matches!(self, Self::Inode | Self::Broken) || self.is_of_name()
    }

    /// Returns the kind of a DIRENT node by the inode that it states.
    pub(crate) fn of_name(ino: u32) -> Self {
        if ino == 0 { Self::Deletion } else { Self::Dirent }
    }

    /// Returns whether it is a DIRENT node.
    pub(crate) fn is_of_name(self) -> bool {
        matches!(self, Self::Dirent | Self::Deletion)
    }
}

const KINDS: [RefKind; 8] = [
    RefKind::Inode,
    RefKind::Dirent,
    RefKind::Deletion,
    RefKind::Xattr,
    RefKind::Xref,
    RefKind::Copy,
    RefKind::Filler,
    RefKind::Broken,
];
const LEN_BITS: u32 = 28;

/// A node on flash: 12 bytes. Its owner stores another 4, the node's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeRef {
    /// Byte address; the state is in the two lowest bits.
    place: u32,
    /// Length with alignment; the kind is in the four highest bits.
    len: u32,
    /// Its owner, see [`RefKind`].
    pub(crate) owner: u32,
}

const _: () = assert!(size_of::<NodeRef>() + size_of::<u32>() <= 16);

impl NodeRef {
    pub(crate) fn new(place: u32, len: u32, kind: RefKind, owner: u32, state: RefState) -> Self {
        debug_assert!(place.is_multiple_of(4) && len.is_multiple_of(4) && len >> LEN_BITS == 0);
        let mut node = Self { place, len: len | (kind as u32) << LEN_BITS, owner };
        node.set_state(state);
        node
    }

    /// Byte address on the medium.
    pub(crate) fn place(self) -> u32 {
        self.place & !3
    }

    /// Returns the length with alignment, in bytes.
    pub(crate) fn len(self) -> u32 {
        self.len & ((1 << LEN_BITS) - 1)
    }

    pub(crate) fn kind(self) -> RefKind {
        KINDS[(self.len >> LEN_BITS) as usize]
    }

    pub(crate) fn state(self) -> RefState {
        match self.place & 3 {
            0 => RefState::Unchecked,
            1 => RefState::Obsolete,
            2 => RefState::Pristine,
            _ => RefState::Normal,
        }
    }

    pub(crate) fn is_live(self) -> bool {
        self.state() != RefState::Obsolete
    }

    pub(crate) fn set_state(&mut self, state: RefState) {
        let bits = match state {
            RefState::Unchecked => 0,
            RefState::Obsolete => 1,
            RefState::Pristine => 2,
            RefState::Normal => 3,
        };
        self.place = self.place & !3 | bits;
    }
}

/// A range of the medium inside one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}
