//! Which nodes the file system consists of: the leaves as a mount would see them, and the committed
//! index nodes.

use crate::error::UbifsError;
use crate::mount::Ubifs;
use crate::recovery;
use eraseblock_base::Leb;
use eraseblock_mtd::{LebDevice, MtdError};
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::{Branch, Compression, Key};
use std::ops::{ControlFlow, Range};

/// A node that belongs to the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Live {
    /// Its key; for an index node, that of its branch.
    pub key: Key,
    /// Its LEB.
    pub leb: Leb,
    /// Its offset there.
    pub offset: u32,
    /// Its length in bytes.
    pub len: u32,
    /// The index node that refers to it, or `None` for the root and for what is in the journal.
    pub parent: Option<(Leb, u32)>,
}

/// How a data node stores a block of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Sequence number of the node.
    pub sqnum: u64,
    /// How its bytes are compressed.
    pub compression: Compression,
    /// Where these bytes begin in the LEB.
    pub offset: u32,
    /// How many they are.
    pub len: u32,
    /// How many bytes they decompress to; the rest of the block is zeros.
    pub size: u32,
}

/// Fills a buffer with the content of a LEB.
type ReadLeb<'a> = &'a dyn Fn(Leb, &mut Vec<u8>) -> Result<(), MtdError>;

impl Live {
    fn new(branch: &Branch, parent: Option<&Branch>) -> Self {
        let Branch { key, leb, offset, len, .. } = *branch;
        let parent = parent.map(|parent| (parent.leb, parent.offset));
        Self { key, leb, offset, len, parent }
    }
}

impl Ubifs {
    /// Calls `sink` for each leaf that a mount would see, the journal's changes included.
    pub fn visit_leaves(&self, sink: &mut dyn FnMut(Live)) {
        self.tnc.scan(Key::MIN, Key::last_of(u32::MAX), &mut |branch| {
            sink(Live::new(branch, None));
            ControlFlow::Continue(())
        });
    }

    /// Calls `sink` for each committed index node that can be read, with its level, and for each leaf
    /// that one of them refers to, which the journal may have replaced.
    pub fn visit_index(&self, sink: &mut dyn FnMut(Live, Option<u32>)) {
        self.tnc.index.visit(&mut |branch, parent, level| sink(Live::new(branch, parent), level));
    }

    /// Returns the leaves of an inode: itself, its content, its names and its attributes.
    pub fn leaves_of(&self, ino: u32) -> Vec<Live> {
        let mut leaves = Vec::new();
        self.tnc.scan(Key::first_of(ino), Key::last_of(ino), &mut |branch| {
            leaves.push(Live::new(branch, None));
            ControlFlow::Continue(())
        });
        leaves
    }

    /// Returns how a data node stores its block.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read, or if no valid data node with this key is there.
    pub fn stored(&self, leaf: &Live) -> Result<Stored, UbifsError> {
        let Live { key, leb, offset, len, .. } = *leaf;
        let volume = &self.tnc.volume;
        let mut bytes = vec![0; len.min(volume.leb_size()) as usize];
        volume.read(leb, offset, &mut bytes)?;
        let node = volume.leaf(&Branch { key, leb, offset, len }, &bytes)?;
        let data = node.data()?;
        let stored = data.payload.len() as u32;
        Ok(Stored {
            sqnum: node.header.sqnum,
            compression: data.compression,
            offset: offset + node.header.len - stored,
            len: stored,
            size: data.size,
        })
    }

    /// Calls `sink` for each valid node with its LEB and offset, live or not, and `unread` for each LEB
    /// that cannot be read. The LEBs of the LPT, which has no nodes, are not read.
    pub fn visit_nodes(
        &self,
        sink: &mut dyn FnMut(Leb, u32, &Node<'_>),
        unread: &mut dyn FnMut(Leb, MtdError),
    ) {
        let volume = &self.tnc.volume;
        let lpt = volume.sb.lpt_first()..=volume.sb.lpt_last();
        let lebs = (0..volume.main_end()).filter(|number| !lpt.contains(number));
        self.visit_lebs(
            &mut lebs.map(Leb::new),
            &|leb, buf| volume.read_leb(leb, buf),
            sink,
            unread,
        );
    }

    /// Calls `sink` and `unread` in the same way for `lebs` of `device`, which hold what LEBs of the volume held
    /// before.
    pub fn visit_old_nodes(
        &self,
        device: &dyn LebDevice,
        lebs: Range<u32>,
        sink: &mut dyn FnMut(Leb, u32, &Node<'_>),
        unread: &mut dyn FnMut(Leb, MtdError),
    ) {
        let read = |leb: Leb, buf: &mut Vec<u8>| {
            buf.resize(self.tnc.volume.leb_size() as usize, 0);
            device.read(leb, 0, buf).map(drop)
        };
        self.visit_lebs(&mut lebs.map(Leb::new), &read, sink, unread);
    }

    fn visit_lebs(
        &self,
        lebs: &mut dyn Iterator<Item = Leb>,
        read: ReadLeb<'_>,
        sink: &mut dyn FnMut(Leb, u32, &Node<'_>),
        unread: &mut dyn FnMut(Leb, MtdError),
    ) {
        let mut bytes = Vec::new();
        for leb in lebs {
            if let Err(error) = read(leb, &mut bytes) {
                unread(leb, error);
                continue;
            }
            for (offset, node) in recovery::all_nodes(leb, &bytes, 0, self.tnc.volume.limits) {
                sink(leb, offset, &node);
            }
        }
    }
}
