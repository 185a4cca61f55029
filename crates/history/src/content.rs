//! The content of a version, and where each byte of it is.

use crate::versions::{Seen, Version};
use eraseblock_base::Leb;
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs::{Live, OpenOptions, Stored, Ubifs, UbifsError};
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::{Key, KeyKind};
use eraseblock_vfs::{FileSystem, FsError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a block.
const BLOCK: u64 = BLOCK_SIZE as u64;

/// A part of a file that one node holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes of the file.
    pub len: u64,
    /// The LEB of its node.
    pub leb: Leb,
    /// Where the node begins in the LEB.
    pub node: u32,
    /// Bytes of the node.
    pub node_len: u32,
    /// How the node stores them, or `None` if it cannot be read. If it holds fewer bytes than the part, zeros
    /// follow them.
    pub stored: Option<Stored>,
}

/// A version whose content can be read.
#[derive(Debug)]
pub struct Content {
    fs: Ubifs,
    ino: u32,
    size: u64,
    blocks: Vec<Live>,
}

/// Opens versions. Those of one state are opened fastest one after another.
#[derive(Debug)]
pub struct Contents {
    device: Arc<dyn LebDevice>,
    /// The state that was used last: a commit, or the present one.
    state: Option<(Option<u64>, Ubifs)>,
}

impl Contents {
    /// Reads from this volume.
    pub fn new(device: Arc<dyn LebDevice>) -> Self {
        Self { device, state: None }
    }

    /// Opens a version of a file.
    ///
    /// # Errors
    ///
    /// Fails if the device fails.
    pub fn open(&mut self, version: &Version) -> Result<Content, UbifsError> {
        let mut leaves: BTreeMap<Key, Live> = BTreeMap::new();
        let of_state = match version.seen {
            Seen::Now { .. } => self.state(None)?.leaves_of(version.ino),
            Seen::Commits { last, .. } => self.state(Some(last))?.leaves_of(version.ino),
            Seen::Nodes => Vec::new(),
        };
        let own = of_state.into_iter().filter(|leaf| !leaf.key.is_hashed());
        leaves.extend(own.map(|leaf| (leaf.key, leaf)));
        leaves.extend(version.nodes.iter().map(|leaf| (leaf.key, leaf.live())));
        leaves.retain(|key, _| !version.is_missing(*key));
        let leaves: Vec<Live> = leaves.into_values().collect();
        let fs = Ubifs::open_leaves(Arc::clone(&self.device), &leaves)?;
        Ok(Content::new(fs, version, leaves))
    }

    fn state(&mut self, commit: Option<u64>) -> Result<&Ubifs, UbifsError> {
        let is_known = self.state.as_ref().is_some_and(|(known, _)| *known == commit);
        if !is_known {
            let device = Arc::clone(&self.device);
            let (fs, _) = match commit {
                None => Ubifs::open(device, &OpenOptions::default())?,
                Some(number) => Ubifs::open_commit(device, number)?,
            };
            return Ok(&self.state.insert((commit, fs)).1);
        }
        Ok(&self.state.as_ref().expect("it is known").1)
    }
}

impl Content {
    fn new(fs: Ubifs, version: &Version, mut leaves: Vec<Live>) -> Self {
        leaves.retain(|leaf| leaf.key.kind() == Some(KeyKind::Data));
        let ends = leaves.iter().map(|leaf| (u64::from(leaf.key.value()) + 1) * BLOCK);
        let known = version.attributes.map(|attributes| attributes.size);
        // Without an inode, the last block may be shorter than it looks.
        let size = known.or(ends.max()).unwrap_or(0);
        Self { fs, ino: version.ino, size, blocks: leaves }
    }

    /// Returns the length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads where each part is, in the order of the file. What is in none of them is a hole or missing,
    /// and read as zeros.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.blocks.iter().filter_map(|leaf| {
            let offset = u64::from(leaf.key.value()) * BLOCK;
            let len = self.size.checked_sub(offset)?.min(BLOCK);
            let Live { leb, offset: node, len: node_len, .. } = *leaf;
            let run =
                || Run { offset, len, leb, node, node_len, stored: self.fs.stored(leaf).ok() };
            (len > 0).then(run)
        })
    }

    /// Fills `buf` from `offset` on, which must not lead past the end.
    ///
    /// # Errors
    ///
    /// Fails if a node of this range cannot be read.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), FsError> {
        self.fs.read_range(self.ino, offset, buf)
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    ///
    /// Fails if it is none, or if it cannot be read.
    pub fn link(&self) -> Result<Vec<u8>, FsError> {
        self.fs.read_link(self.ino.into())
    }
}
