//! The log of nodes: the one place that appends to the medium, and the driver of everything that
//! must happen before that (spec: jffs2 13, 15, 16).
//!
//! Layer: above `tree`, `erase` and `summary`, below the writers of nodes.
//!
//! Appending a node may need an open block, an open block may need an erase, an erase may need a
//! damage marker, and a program that fails needs its page elsewhere: each of these is a node again.
//! The steps below never call back. [`Log::reserve`] asks what is missing, does it, and asks again;
//! the recursion stays inside this file and ends because a damage marker is written once in a
//! mount, and because a block that fails while it takes the nodes of a failed page has taken fewer
//! of them than there were.
//!
//! # Invariants
//! 1. A block is erased only after everything that replaces its nodes is on flash.
//! 2. When a page cannot be programmed, everything alive in it is written elsewhere, or the file
//!    system turns read-only.
//! 3. No node lies in the last page of a block, because that page proves the one before it.

use super::blocks::List;
use super::erase::Eraser;
use super::failure::{Closed, io, no_space};
use super::nodelist::{NodeRef, RefKind, RefState};
use super::remains::DamageMarker;
use super::summary::{Collector, Listed};
use super::suspect::Page;
use super::tree::Tree;
use crate::codes;
use eraseblock_base::{Location, Peb};
use eraseblock_jffs2_format::constants::{HEADER_LEN, pad};
use eraseblock_jffs2_format::encode;
use eraseblock_mtd::MtdError;
use eraseblock_vfs::{FsError, FsErrorKind};

/// Number of blocks in a row that may fail while the write buffer is brought to flash.
const ATTEMPTS: u32 = 4;

/// A node about to be written.
#[derive(Debug)]
pub(crate) struct NewNode<'a> {
    pub(crate) kind: RefKind,
    pub(crate) owner: u32,
    pub(crate) state: RefState,
    /// Its record in the summary; without one, its block gets no summary.
    pub(crate) listed: Option<Listed>,
    /// The node with its alignment bytes.
    pub(crate) bytes: &'a [u8],
}

/// What a reservation needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Room {
    /// Nothing: nodes of up to this length fit.
    Fits(u32),
    /// To close this block, which has too little space left.
    Close(u32),
    /// An open block.
    Open,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) tree: Tree,
    /// Records of the nodes of the open block.
    pub(crate) summary: Collector,
    eraser: Eraser,
    /// Why writing has ended, if it has.
    pub(crate) closed: Option<Closed>,
}

impl Log {
    pub(crate) fn new(tree: Tree, summary: Collector, closed: Option<Closed>) -> Self {
        Self { tree, summary, eraser: Eraser::default(), closed }
    }

    /// Reserves space for a node of at least `min` bytes whose record in a summary takes `record`
    /// bytes. Returns the maximum length of the node. Collects no garbage.
    pub(crate) fn reserve(&mut self, min: u32, record: u32) -> Result<u32, FsError> {
        let min = pad(min).unwrap_or(u32::MAX);
        for _ in 0..=self.tree.store.blocks.count() {
            match self.room(min, record) {
                Room::Fits(room) => return Ok(room),
                Room::Close(block) => self.close_block(block)?,
                Room::Open => {}
            }
            if self.tree.store.blocks.next().is_none() {
                self.open_block()?;
            }
        }
        Err(no_space("a node"))
    }

    /// Returns what is missing for a node of at least `min` bytes.
    fn room(&self, min: u32, record: u32) -> Room {
        let store = &self.tree.store;
        let Some(block) = store.blocks.next() else { return Room::Open };
        let free = store.blocks.get(block).sizes.free;
        let most = store.flash.block - store.flash.cleanmarker();
        let kept = self.kept(record);
        // A node as large as a block, which another system may have written, gets an empty one.
        let kept = if min.saturating_add(kept) <= most { kept } else { 0 };
        if free >= min.saturating_add(kept) { Room::Fits(free - kept) } else { Room::Close(block) }
    }

    /// Returns the number of bytes at the end of the open block that no node may use, if one more
    /// record of `record` bytes is in its summary.
    pub(crate) fn kept(&self, record: u32) -> u32 {
        let flash = &self.tree.store.flash;
        let last = if flash.has_buffer() { flash.page } else { 0 };
        self.summary.needed(record).max(last)
    }

    /// Returns the approximate bytes of nodes that still fit; nodes leave gaps at the ends of
    /// blocks.
    pub(crate) fn room_left(&self) -> u32 {
        let (flash, blocks) = (&self.tree.store.flash, &self.tree.store.blocks);
        let open = blocks.next().map_or(0, |block| blocks.get(block).sizes.free);
        let padding = if flash.has_buffer() { flash.page } else { 0 };
        let fresh = blocks.len(List::Free) * (flash.block / 8 * 7);
        open.saturating_sub(self.kept(0) + padding) + fresh
    }

    /// Ends the open block: summary, write buffer, list (spec: jffs2 13, step 3).
    pub(crate) fn close_block(&mut self, block: u32) -> Result<(), FsError> {
        // The summary must follow the nodes it lists: a mount believes it without looking at them.
        self.write_summary(block)?;
        // Then the page of the last node, and a page after it: until another page follows, a mount
        // would not know whether the last one is complete.
        self.flush()?;
        let store = &mut self.tree.store;
        store.blocks.shrink_block(block);
        let free = store.blocks.get(block).sizes.free;
        let is_open = store.blocks.next() == Some(block);
        if store.flash.has_buffer() && is_open && free >= store.flash.page {
            self.pad_page(block)?;
        }
        // A failed program has closed it already.
        if self.tree.store.blocks.next() == Some(block) {
            self.tree.store.retire_open(block);
        }
        Ok(())
    }

    /// Fills the rest of the open block with its summary, if it gets one.
    fn write_summary(&mut self, block: u32) -> Result<(), FsError> {
        let store = &mut self.tree.store;
        let free = store.blocks.get(block).sizes.free;
        let (place, marker) = (store.end_of(block), store.marker_of(block));
        let Some(bytes) = self.summary.finish(&store.flash, free, marker) else { return Ok(()) };
        match store.program(place, &bytes) {
            Ok(()) => {
                let node = NodeRef::new(place, free, RefKind::Filler, 0, RefState::Normal);
                store.blocks.append(block, node);
                Ok(())
            }
            // The block stays without a summary: its nodes are found by a scan.
            Err(error) => self.write_failed(block, error),
        }
    }

    /// Takes a free block; erases one if necessary.
    fn open_block(&mut self) -> Result<(), FsError> {
        loop {
            let blocks = &mut self.tree.store.blocks;
            if let Some(block) = blocks.first(List::Free) {
                blocks.file(block, List::Next);
                self.summary.start();
                return Ok(());
            }
            if self.erase_one()? {
                continue;
            }
            let blocks = &mut self.tree.store.blocks;
            let Some(block) = blocks.first(List::Erasable) else {
                return Err(no_space("a node: no block is free"));
            };
            blocks.file(block, List::ErasePending);
        }
    }

    /// Erases the first waiting block; returns `false` if none is waiting.
    pub(crate) fn erase_one(&mut self) -> Result<bool, FsError> {
        if self.tree.store.blocks.first(List::ErasePending).is_some() {
            // Before the erase: it may destroy the remains that make a gap an error, and a cut
            // right after it would leave a file that reads zeros.
            self.mark_damage()?;
        }
        let Tree { store, owners, .. } = &mut self.tree;
        let Some(block) = store.blocks.first(List::ErasePending) else { return Ok(false) };
        let refs = std::mem::take(&mut store.blocks.get_mut(block).refs);
        // Before the erase, too: if it fails halfway, the nodes may be gone.
        owners.forget(block, store.flash.block, &refs);
        self.eraser.erase(store, block)?;
        Ok(true)
    }

    /// Writes a damage marker if the next erase could turn lost content into zeros.
    fn mark_damage(&mut self) -> Result<(), FsError> {
        if self.tree.remains.are_settled() {
            return Ok(());
        }
        while self.tree.check_one()? {}
        // Settled first, because writing the marker may itself need an erase.
        if self.tree.remains.settle() == DamageMarker::Unneeded {
            return Ok(());
        }
        match self.write_damage_marker() {
            Err(error) if error.kind() == FsErrorKind::NoSpace => {
                let message = "no space to note that content was lost; gaps of damaged files will \
                               read as zeros once their blocks are erased";
                self.tree.store.late.warn(Location::Whole, "damage-unmarked", message);
                Ok(())
            }
            done => done,
        }
    }

    /// Writes the marker; it is on flash when this returns.
    fn write_damage_marker(&mut self) -> Result<(), FsError> {
        let mut bytes = Vec::with_capacity(HEADER_LEN as usize);
        encode::damage_marker(self.tree.store.flash.order, &mut bytes);
        self.reserve(HEADER_LEN, 0)?;
        let (kind, state) = (RefKind::Copy, RefState::Pristine);
        self.put(&NewNode { kind, owner: 0, state, listed: None, bytes: &bytes })?;
        self.flush()
    }

    /// Writes a node to the reserved space; if that fails, once more elsewhere. Returns its place.
    pub(crate) fn put(&mut self, node: &NewNode<'_>) -> Result<u32, FsError> {
        let error = match self.try_put(node) {
            Ok(place) => return Ok(place),
            Err(error) => error,
        };
        self.give_up(node, error)?;
        let record = node.listed.as_ref().map_or(0, |listed| listed.node.len());
        self.reserve(node.bytes.len() as u32, record)?;
        match self.try_put(node) {
            Ok(place) => Ok(place),
            Err(error) => {
                let text = error.to_string();
                self.give_up(node, error)?;
                Err(FsError::new(FsErrorKind::Io, text))
            }
        }
    }

    fn try_put(&mut self, node: &NewNode<'_>) -> Result<u32, MtdError> {
        let Tree { store, owners, .. } = &mut self.tree;
        let Some(block) = store.blocks.next() else {
            return Err(MtdError::Unsupported { operation: "writing without an open block" });
        };
        let len = node.bytes.len() as u32;
        debug_assert!(len <= store.blocks.get(block).sizes.free, "the space was reserved");
        let place = store.end_of(block);
        store.program(place, node.bytes)?;
        store.retire_marker(block);
        let known = NodeRef::new(place, len, node.kind, node.owner, node.state);
        store.blocks.append(block, known);
        match &node.listed {
            Some(listed) => self.summary.add(place % store.flash.block, listed),
            // A summary without it would hide it from every mount.
            None => self.summary.stop(),
        }
        owners.add_node(known);
        Ok(place)
    }

    /// Gives up the space of a node that could not be written (spec: jffs2 16).
    fn give_up(&mut self, node: &NewNode<'_>, error: MtdError) -> Result<(), FsError> {
        let store = &mut self.tree.store;
        let Some(block) = store.blocks.next() else { return Err(io(error)) };
        if !store.flash.has_buffer() {
            // Bits of the node may be programmed: nothing else may be written over them.
            store.retire_marker(block);
            store.blocks.waste(block, node.bytes.len() as u32);
        }
        self.write_failed(block, error)
    }

    /// Writes the buffer to flash and fills the page with padding. Some blocks in a row may fail.
    pub(crate) fn flush(&mut self) -> Result<(), FsError> {
        let mut failures = 0;
        loop {
            let store = &mut self.tree.store;
            let (Some(block), false) = (store.blocks.next(), store.wbuf.is_empty()) else {
                // Only now, with every replacement on flash, may the originals be erased.
                store.release_pending();
                return Ok(());
            };
            let Err(error) = store.pad(block) else { continue };
            failures += 1;
            if failures > ATTEMPTS {
                let cause = placed(block, &error);
                return Err(
                    self.lose("nodes of the write buffer cannot be brought to flash", &cause)
                );
            }
            self.write_failed(block, error)?;
        }
    }

    /// Programs one page of padding after the last node.
    pub(crate) fn pad_page(&mut self, block: u32) -> Result<(), FsError> {
        let store = &mut self.tree.store;
        let (page, place) = (store.flash.page, store.end_of(block));
        let mut bytes = Vec::with_capacity(page as usize);
        encode::padding(store.flash.order, page, &mut bytes);
        bytes.resize(page as usize, 0);
        if let Err(error) = store.program(place, &bytes) {
            return self.write_failed(block, error);
        }
        store.blocks.waste(block, page);
        Ok(())
    }

    /// Handles a failed program in the open block: gives up its free space and, with a buffer,
    /// moves the live nodes of the failed page to another block.
    fn write_failed(&mut self, block: u32, error: MtdError) -> Result<(), FsError> {
        if !matches!(error, MtdError::Failed { .. } | MtdError::Io { .. }) {
            return Err(io(error));
        }
        let at = Location::peb(Peb::new(block));
        let cause = placed(block, &error);
        self.tree.store.late.warn(at, codes::PROGRAM_FAILED, error.to_string());
        if !self.tree.store.flash.has_buffer() {
            return Ok(());
        }
        let left = self.leave_block(block);
        left.map_err(|_| self.lose("nodes of the write buffer are lost", &cause))
    }

    fn leave_block(&mut self, block: u32) -> Result<(), FsError> {
        let lost = self.tree.store.wbuf.give_up();
        let result = self.carry_page(block, &lost);
        if result.is_err() {
            // Data that is not on flash, or only in blocks without references, stays readable from
            // memory.
            self.tree.store.suspects.keep(lost);
        }
        result
    }

    /// Moves the live nodes of a page that could not be programmed. They are copied to memory
    /// first: the block they are in is not the open one any more.
    fn carry_page(&mut self, block: u32, lost: &Page) -> Result<(), FsError> {
        let rescued = self.tree.store.rescue(block, lost)?;
        self.tree.store.abandon(block);
        self.summary.stop();
        for node in rescued {
            self.carry(node.node, &node.bytes)?;
        }
        let blocks = &mut self.tree.store.blocks;
        if blocks.get(block).live() == 0 {
            blocks.file_dead(block, List::ErasePending);
        }
        Ok(())
    }

    /// Writes an unchanged copy of a node, which no summary lists. Returns its place.
    pub(crate) fn carry(&mut self, node: NodeRef, bytes: &[u8]) -> Result<u32, FsError> {
        self.reserve(node.len(), 0)?;
        let place = self.put(&NewNode {
            kind: node.kind(),
            owner: node.owner,
            state: node.state(),
            listed: None,
            bytes,
        })?;
        // The original dies after its copy was written, never before.
        self.tree.relocate(node, place, None);
        Ok(place)
    }

    /// Ends writing, because accepted data cannot be written.
    fn lose(&mut self, what: &str, cause: &str) -> FsError {
        let reason = format!("{cause}: {what}");
        self.tree.store.late.error(Location::Whole, "turned-read-only", reason.as_str());
        self.closed.get_or_insert_with(|| Closed::Because(reason.clone()));
        FsError::new(FsErrorKind::Io, reason)
    }
}

/// Returns the error for a failure in a block, with its place.
fn placed(block: u32, error: &MtdError) -> String {
    let said = error.to_string();
    let is_placed = said.starts_with("peb ");
    if is_placed { said } else { format!("{}: {said}", Location::peb(Peb::new(block))) }
}
