//! The state of a mounted file system, protected by one lock.
//!
//! # Invariants
//! 1. A node is in the list of its owner until its block is erased.
//! 2. `highest` of an inode is at least the version of each of its nodes on flash.
//! 3. A loaded inode refers to live nodes only, and to every live node of a checked inode.

use super::compress::Compress;
use super::flash::Flash;
use super::inode::Loaded;
use super::inodes::{InodeCache, Inodes};
use super::loaded::LoadedInodes;
use super::nodelist::{Blocks, NodeRef};
use super::options::RwOptions;
use super::remains::Remains;
use super::summary::Collector;
use super::suspect::Suspects;
use super::wbuf::Wbuf;
use super::xattr::Xattrs;
use crate::damage::Unassigned;
use eraseblock_base::Findings;
use eraseblock_base::random::SplitMix64;
use eraseblock_mtd::MtdError;
use eraseblock_vfs::{FsError, FsErrorKind};
use std::fmt;

/// Why writing has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    /// It has been unmounted.
    Unmounted,
    /// Data was lost, or a node forbids writing: the reason and the place.
    Because(String),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmounted => f.write_str("the file system has been unmounted"),
            Self::Because(reason) => write!(f, "the file system is read-only: {reason}"),
        }
    }
}

/// Thresholds of space (spec: jffs2 13), in blocks but for `dirty`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserves {
    pub(crate) deletion: u32,
    pub(crate) write: u32,
    pub(crate) trigger: u32,
    pub(crate) merge: u32,
    pub(crate) dirty: u64,
}

impl Reserves {
    /// Reserves one block more than Linux on media where a power cut makes the rest of the open
    /// block useless: the live nodes of its last page need another block.
    pub(crate) fn new(flash: &Flash) -> Self {
        let (block, count) = (u64::from(flash.block), u64::from(flash.count));
        let size = block * count;
        let overhead = (size / 50 + 100 * count).div_ceil(block) as u32;
        let deletion = 2 + u32::from(flash.has_buffer());
        let write = deletion + overhead;
        Self { deletion, write, trigger: write + 1, merge: 3, dirty: block + size / 100 }
    }
}

/// Garbage collection in progress.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    /// Number of nodes of the victim that have been examined.
    pub(crate) position: usize,
    /// Inodes up to this number have been checked.
    pub(crate) checked: u32,
}

/// The file system.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) flash: Flash,
    pub(crate) options: RwOptions,
    pub(crate) reserves: Reserves,
    pub(crate) blocks: Blocks,
    pub(crate) wbuf: Wbuf,
    pub(crate) summary: Collector,
    pub(crate) suspects: Suspects,
    pub(crate) inodes: Inodes,
    /// The loaded ones.
    pub(crate) loaded: LoadedInodes,
    pub(crate) xattrs: Xattrs,
    /// The highest inode number found or assigned.
    pub(crate) highest_ino: u32,
    pub(crate) rng: SplitMix64,
    pub(crate) gc: Collection,
    pub(crate) compress: Compress,
    pub(crate) read_only: bool,
    /// Why writing has ended, if it has.
    pub(crate) closed: Option<Closed>,
    /// Damaged nodes that may belong to any file.
    pub(crate) unassigned: Unassigned,
    /// Whether these may be erased.
    pub(crate) remains: Remains,
    /// Findings since mounting.
    pub(crate) late: Findings,
    /// A node under construction.
    pub(crate) scratch: Vec<u8>,
}

/// Converts a device error to one of the file system.
pub(crate) fn io(error: MtdError) -> FsError {
    let kind = match error {
        MtdError::ReadOnly { .. } => FsErrorKind::ReadOnly,
        _ => FsErrorKind::Io,
    };
    FsError::from_source(kind, error)
}

pub(crate) fn no_space(what: &str) -> FsError {
    FsError::new(FsErrorKind::NoSpace, format!("no space for {what}"))
}

/// Returns the error for a damaged inode.
pub(crate) fn damaged(ino: u32, message: &str) -> FsError {
    FsError::new(FsErrorKind::Corrupted, format!("inode {ino}: {message}"))
}

impl State {
    /// Returns the node at a place to which something refers; it must exist.
    pub(crate) fn node(&self, place: u32) -> NodeRef {
        self.blocks.node(place).expect("a node that is named is known")
    }

    /// Returns the inode, if it exists.
    pub(crate) fn cache(&self, ino: u32) -> Option<&InodeCache> {
        self.inodes.get(ino)
    }

    /// Returns the inode, which must exist.
    pub(crate) fn cache_mut(&mut self, ino: u32) -> &mut InodeCache {
        self.inodes.entry(ino)
    }

    /// Returns the inode, which must be loaded.
    pub(crate) fn inode(&self, ino: u32) -> &Loaded {
        self.loaded.get(ino).expect("the inode has been loaded")
    }

    /// Returns the inode, which must be loaded.
    pub(crate) fn inode_mut(&mut self, ino: u32) -> &mut Loaded {
        self.loaded.get_mut(ino).expect("the inode has been loaded")
    }

    /// Forgets the inode and returns its entry.
    pub(crate) fn remove_inode(&mut self, ino: u32) -> InodeCache {
        self.loaded.remove(ino);
        self.inodes.remove(ino).unwrap_or_default()
    }

    /// Returns the version of the next node of an inode.
    pub(crate) fn next_version(&mut self, ino: u32) -> u32 {
        let cache = self.cache_mut(ino);
        cache.highest = cache.highest.saturating_add(1);
        cache.highest
    }

    /// Fails if writing is not possible.
    pub(crate) fn check_writable(&self) -> Result<(), FsError> {
        let why = match (&self.closed, self.read_only) {
            (Some(closed), _) => closed.to_string(),
            (None, true) => "the file system is mounted read-only".to_owned(),
            (None, false) => return Ok(()),
        };
        Err(FsError::new(FsErrorKind::ReadOnly, why))
    }
}
