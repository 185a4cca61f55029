//! The nodes on the medium: reads them through the pages in memory, and declares them dead.
//!
//! Layer: above the data, below everything that knows what nodes mean. Programs bytes only where
//! it is asked to, and never chooses a place.
//!
//! # Invariants
//! 1. Every read passes the buffer and the suspect pages: callers see the medium as if nothing
//!    were buffered and as the scan saw it.
//! 2. A block without live nodes is not erased while the buffer holds replacements of its nodes.

use super::blocks::{Blocks, List};
use super::failure::{corrupted, io};
use super::flash::Flash;
use super::nodelist::{NodeRef, RefKind, Span};
use super::space::Reserves;
use super::suspect::{Page, Suspects};
use super::wbuf::Wbuf;
use crate::inode::decompress;
use eraseblock_base::Findings;
use eraseblock_base::random::SplitMix64;
use eraseblock_jffs2_format::constants::{DIRTY_LIMIT, INODE_LEN, compression};
use eraseblock_jffs2_format::{Inode, decode};
use eraseblock_mtd::MtdError;
use eraseblock_vfs::{FsError, FsErrorKind};

/// One in this many blocks without live nodes is parked, not erased.
const PARKED: u64 = 128;

/// The medium and what is known of each of its nodes.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) flash: Flash,
    pub(crate) reserves: Reserves,
    pub(crate) blocks: Blocks,
    pub(crate) wbuf: Wbuf,
    pub(crate) suspects: Suspects,
    /// Draws the choices of parking and of garbage collection.
    pub(crate) rng: SplitMix64,
    /// Findings since mounting.
    pub(crate) late: Findings,
}

/// Data of a file from one node.
#[derive(Debug)]
pub(crate) struct Data {
    /// Where it starts in the file.
    pub(crate) offset: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A live node of a page that could not be programmed.
#[derive(Debug)]
pub(crate) struct Rescued {
    pub(crate) node: NodeRef,
    /// With its alignment bytes.
    pub(crate) bytes: Vec<u8>,
}

impl Store {
    /// Returns the node at a place to which something refers; it must exist.
    pub(crate) fn node(&self, place: u32) -> NodeRef {
        self.blocks.node(place).expect("a node that is named is known")
    }

    /// Reads bytes as they would be on flash if nothing were buffered.
    pub(crate) fn read_flash(&self, place: u32, buf: &mut [u8]) -> Result<(), MtdError> {
        self.flash.read(place, buf)?;
        self.suspects.overlay(place, buf);
        self.wbuf.overlay(place, buf);
        Ok(())
    }

    /// Returns the bytes of a node, with alignment.
    pub(crate) fn read_node(&self, node: NodeRef) -> Result<Vec<u8>, FsError> {
        let mut bytes = vec![0; node.len() as usize];
        self.read_flash(node.place(), &mut bytes).map_err(io)?;
        Ok(bytes)
    }

    /// Returns the node at `place` and its stored bytes, all checksums verified.
    pub(crate) fn payload(&self, place: u32) -> Result<(Inode, Vec<u8>), FsError> {
        let (node, at) = (self.node(place), self.flash.location(place));
        let mut bytes = self.read_node(node)?;
        let inode = decode::inode(self.flash.order, &bytes, at).map_err(corrupted)?;
        decode::inode_lengths(&inode, at).map_err(corrupted)?;
        decode::inode_data(&inode, &bytes, at).map_err(corrupted)?;
        bytes.truncate((INODE_LEN + inode.csize) as usize);
        bytes.drain(..INODE_LEN as usize);
        Ok((inode, bytes))
    }

    /// Returns the data of the node at `place`, decompressed.
    pub(crate) fn data(&self, place: u32) -> Result<Data, FsError> {
        let (inode, stored) = self.payload(place)?;
        let offset = inode.offset;
        if inode.compression == compression::NONE {
            return Ok(Data { offset, bytes: stored });
        }
        let mut bytes = vec![0; inode.dsize as usize];
        decompress(inode.compression, &stored, &mut bytes).map_err(|error| {
            let text = format!("{}: {error}", self.flash.location(place));
            FsError::new(FsErrorKind::Corrupted, text)
        })?;
        Ok(Data { offset, bytes })
    }

    /// Writes to the start of the free space of the open block.
    pub(crate) fn program(&mut self, place: u32, data: &[u8]) -> Result<(), MtdError> {
        if self.flash.has_buffer() {
            self.wbuf.append(&self.flash, place, data)
        } else {
            self.flash.mtd.program(place.into(), data)
        }
    }

    /// Returns the place of the first free byte of a block.
    pub(crate) fn end_of(&self, block: u32) -> u32 {
        self.flash.start(block) + self.flash.block - self.blocks.get(block).sizes.free
    }

    /// Fills the page in the buffer with padding and programs it (spec: jffs2 16).
    pub(crate) fn pad(&mut self, block: u32) -> Result<(), MtdError> {
        let rest = self.wbuf.pad(&self.flash)?;
        self.blocks.waste(block, rest);
        Ok(())
    }

    /// Releases blocks whose nodes have replacements that are now on flash. Erasing them earlier
    /// would lose both copies in a power cut.
    pub(crate) fn release_pending(&mut self) {
        debug_assert!(self.wbuf.is_empty(), "replacements are still in the buffer");
        while let Some(block) = self.blocks.first(List::PendingWbuf) {
            self.blocks.file_dead(block, List::ErasePending);
        }
    }

    /// Marks the node at `place` as dead and updates the list of its block (spec: jffs2 15).
    pub(crate) fn obsolete(&mut self, place: u32) {
        if self.blocks.obsolete(place).is_none() {
            return;
        }
        let block = place / self.flash.block;
        let is_dead = self.blocks.get(block).live() == 0;
        match self.blocks.get(block).list {
            List::Clean | List::Dirty | List::VeryDirty | List::BadUsed if is_dead => {
                self.bury(block);
            }
            List::Clean | List::Dirty | List::VeryDirty => self.blocks.file_by_dirt(block),
            _ => {}
        }
    }

    /// Handles a block whose last live node died. Its nodes may have replacements in the buffer:
    /// then it must not be erased before the buffer is on flash.
    pub(crate) fn bury(&mut self, block: u32) {
        let list = if !self.wbuf.is_empty() {
            List::PendingWbuf
        } else if self.rng.below(PARKED) == 0 {
            List::Erasable
        } else {
            List::ErasePending
        };
        self.blocks.file_dead(block, list);
    }

    /// Moves a block that is full, or that ends early, from the open one to the list for its dead
    /// bytes.
    pub(crate) fn retire_open(&mut self, block: u32) {
        self.blocks.resize(block, |sizes| {
            let dead = std::mem::take(&mut sizes.free) + std::mem::take(&mut sizes.wasted);
            if sizes.dirty + dead > DIRTY_LIMIT {
                sizes.dirty += dead;
            } else {
                sizes.wasted = dead;
            }
        });
        if self.blocks.get(block).live() == 0 {
            self.bury(block);
        } else {
            self.blocks.file_by_dirt(block);
        }
    }

    /// Takes a block in which a program failed out of use until it has been emptied.
    pub(crate) fn abandon(&mut self, block: u32) {
        self.blocks.resize(block, |sizes| {
            sizes.dirty += std::mem::take(&mut sizes.free) + std::mem::take(&mut sizes.wasted);
        });
        let entry = self.blocks.get_mut(block);
        entry.failures = entry.failures.saturating_add(1);
        self.blocks.file(block, List::BadUsed);
    }

    /// Returns the live nodes of a page that could not be programmed, with their bytes: those
    /// before the page are on flash, those in it were in the buffer.
    pub(crate) fn rescue(&self, block: u32, lost: &Page) -> Result<Vec<Rescued>, FsError> {
        let mut rescued = Vec::new();
        for node in &self.blocks.get(block).refs {
            let (start, len) = (node.place(), node.len());
            if !node.is_live() || start + len <= lost.place || node.kind() == RefKind::Filler {
                continue;
            }
            let mut bytes = vec![0; len as usize];
            let before = lost.place.saturating_sub(start).min(len) as usize;
            self.read_flash(start, &mut bytes[..before]).map_err(io)?;
            let from = (start + before as u32 - lost.place) as usize;
            bytes[before..].copy_from_slice(&lost.bytes[from..from + len as usize - before]);
            rescued.push(Rescued { node: *node, bytes });
        }
        Ok(rescued)
    }

    /// Counts the cleanmarker as dead once the first other node is written (spec: jffs2 11.3).
    pub(crate) fn retire_marker(&mut self, block: u32) {
        if let [marker] = self.blocks.get(block).refs[..]
            && marker.kind() == RefKind::Filler
        {
            self.blocks.obsolete(marker.place());
        }
    }

    /// Returns the length of the cleanmarker at the start of a block; 0 if it has none. A block
    /// written by another system may lack one even on a medium with cleanmarkers.
    pub(crate) fn marker_of(&self, block: u32) -> u32 {
        let (start, marker) = (self.flash.start(block), self.flash.cleanmarker());
        let refs = &self.blocks.get(block).refs;
        let has = refs.iter().any(|node| {
            node.kind() == RefKind::Filler && node.place() == start && node.len() == marker
        });
        if has { marker } else { 0 }
    }

    /// Returns whether live nodes of suspect pages must be written again.
    pub(crate) fn has_suspects(&self) -> bool {
        self.suspects.spans().any(|page| self.blocks.live_in(page, self.first_of(page)).is_some())
    }

    /// Returns the start of the block that holds a page.
    pub(crate) fn first_of(&self, page: Span) -> u32 {
        page.start / self.flash.block * self.flash.block
    }

    /// Returns whether a copy of a node is safer than the one at `other`, whose block has lost its
    /// start: its erase was cut.
    pub(crate) fn is_safer(&self, copy: u32, other: u32) -> Result<bool, MtdError> {
        let size = self.flash.block;
        let is_whole = |place| self.flash.starts_with_node(place / size);
        Ok(is_whole(copy)? && !is_whole(other)?)
    }

    /// Returns whether a block may be continued: no node may touch its last page, if that is not
    /// full.
    pub(crate) fn is_proven(&self, block: u32) -> bool {
        let size = self.flash.block;
        let mut pages = self.suspects.spans().filter(|page| page.start / size == block);
        !pages.any(|page| self.blocks.is_touched(page))
    }
}
