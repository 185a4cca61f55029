//! Handles the page that was programmed last. After a power cut it may read correctly for a while
//! and then not at all. Nothing on flash shows whether that is so, but a page that is followed by
//! another one was complete.
//!
//! # Invariants
//! 1. The last programmed page of a block that is not full is read from memory, as the scan saw it.
//! 2. The live nodes of such a page are written again in another block before anything else is
//!    written, erased or reported as durable. A block is continued only if no node touches its last
//!    page.
//! 3. They are written twice. The first copies are unchanged, so that any prefix of them is a state
//!    the file system was in. The second copies have new versions, so that they take precedence
//!    over the page if the erase of its block is cut and the page reads correctly once more.
//! 4. A page that could not be programmed when writing ended is read from memory, too, and nothing
//!    is reported as durable any more.
//! 5. No node lies in the last page of a block, because that page proves the one before it.

use super::nodelist::{NodeRef, RefKind};
use super::nodemgmt::Alloc;
use super::state::State;
use super::write::NewNode;
use eraseblock_jffs2_format::constants::DIRENT_LEN;
use eraseblock_jffs2_format::summary::Record;
use eraseblock_jffs2_format::{decode, encode};
use eraseblock_vfs::{FsError, FsErrorKind};

/// Maximum length of the record of a node in a summary.
const LONGEST_RECORD: u32 = 24 + 255;

/// A page as the scan saw it.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) place: u32,
    pub(crate) bytes: Box<[u8]>,
}

/// Pages that may be unstable.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    pages: Vec<Page>,
    /// Their live nodes are being written again.
    is_settling: bool,
    /// Some could not be programmed, and their live nodes could not be written elsewhere.
    pub(crate) has_lost: bool,
}

impl Suspects {
    pub(crate) fn new(pages: Vec<Page>) -> Self {
        Self { pages, ..Self::default() }
    }

    /// Keeps a page that could not be programmed, if writing has ended permanently.
    pub(crate) fn keep(&mut self, place: u32, bytes: Vec<u8>) {
        self.pages.push(Page { place, bytes: bytes.into() });
        self.has_lost = true;
    }

    /// Replaces bytes read from `place` by those that the scan saw.
    pub(crate) fn overlay(&self, place: u32, buf: &mut [u8]) {
        for page in &self.pages {
            let first = page.place.max(place);
            let last = (page.place + page.bytes.len() as u32).min(place + buf.len() as u32);
            if first < last {
                buf[(first - place) as usize..(last - place) as usize].copy_from_slice(
                    &page.bytes[(first - page.place) as usize..(last - page.place) as usize],
                );
            }
        }
    }

    /// Forgets the bytes in [start, end), which are about to be erased.
    pub(crate) fn forget(&mut self, start: u32, end: u32) {
        self.pages.retain(|page| !(start..end).contains(&page.place));
    }
}

impl State {
    /// Writes the live nodes of pages that may be unstable again. Leaves a full medium unchanged.
    pub(crate) fn settle_suspects(&mut self) -> Result<(), FsError> {
        if self.suspects.is_settling {
            return Ok(());
        }
        while let Some(page) = self.suspects.pages.first() {
            let (start, end) = (page.place, page.place + page.bytes.len() as u32);
            self.suspects.is_settling = true;
            let moved = self.move_nodes(start, end).and_then(|copies| {
                self.suspects.forget(start, end);
                self.renew(&copies)
            });
            self.suspects.is_settling = false;
            match moved {
                Ok(()) => {}
                Err(error) if error.kind() == FsErrorKind::NoSpace => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns whether anything must be written again.
    pub(crate) fn has_suspects(&self) -> bool {
        self.suspects.pages.iter().any(|page| {
            let end = page.place + page.bytes.len() as u32;
            self.live_in(page.place, end, page.place / self.flash.block * self.flash.block)
                .is_some()
        })
    }

    /// Returns the nodes, live or dead, that touch [start, end), which lies in one block.
    fn touching(&self, start: u32, end: u32) -> impl Iterator<Item = NodeRef> {
        let nodes = self.blocks.get(start / self.flash.block).refs.iter().copied();
        nodes.filter(move |node| {
            let (place, len) = (node.place(), node.len());
            node.kind() != RefKind::Filler && place < end && place + len > start
        })
    }

    /// Returns the first live node that touches [start, end) and begins at or after `from`.
    fn live_in(&self, start: u32, end: u32, from: u32) -> Option<u32> {
        let nodes = self.touching(start, end).filter(|node| node.is_live());
        nodes.map(NodeRef::place).find(|place| *place >= from)
    }

    /// Returns whether a node, live or dead, touches [start, end).
    fn is_touched(&self, start: u32, end: u32) -> bool {
        self.touching(start, end).next().is_some()
    }

    /// Returns whether a block may be continued: no node may touch its last page, if that is not
    /// full.
    pub(crate) fn is_proven(&self, block: u32) -> bool {
        let size = self.flash.block;
        let mut pages = self.suspects.pages.iter().filter(|page| page.place / size == block);
        !pages.any(|page| self.is_touched(page.place, page.place + page.bytes.len() as u32))
    }

    /// Copies the live nodes of a page unchanged: first a node that began in an earlier page, then
    /// the others with one program. Returns the places of the copies.
    fn move_nodes(&mut self, start: u32, end: u32) -> Result<Vec<u32>, FsError> {
        let mut copies = Vec::new();
        let first = start / self.flash.block * self.flash.block;
        if let Some(place) = self.live_in(start, end, first).filter(|place| *place < start) {
            copies.push(self.move_node(place)?);
            self.flush()?;
        }
        let mine = self.touching(start, end).filter(|node| node.is_live() && node.place() >= start);
        let (len, count) = mine.fold((0, 0), |(len, count), node| (len + node.len(), count + 1));
        // No record is longer than its node.
        self.reserve(len, Alloc::Collection, len.min(count * LONGEST_RECORD))?;
        let mut from = start;
        while let Some(place) = self.live_in(start, end, from) {
            copies.push(self.move_node(place)?);
            from = place + 4;
        }
        self.flush()?;
        Ok(copies)
    }

    /// Writes the nodes at `places` again with new versions. A node that a failed program has moved
    /// on is dead at its place.
    fn renew(&mut self, places: &[u32]) -> Result<(), FsError> {
        for place in places {
            if let Some(node) = self.blocks.node(*place).filter(|node| node.is_live()) {
                self.collect_node(node)?;
            }
        }
        self.flush()
    }

    /// Writes an unchanged copy of a node, listed in a summary if possible. Returns its place.
    pub(crate) fn move_node(&mut self, place: u32) -> Result<u32, FsError> {
        let node = self.node(place);
        let (bytes, order) = (self.read_node(node)?, self.flash.order);
        let header = decode::header(order, &bytes, self.flash.location(place));
        let listed = header.ok().and_then(|header| {
            let exact = bytes.get(..header.totlen as usize)?;
            Some((Record::of(order, header.kind(), exact, 0).ok()??, header.totlen))
        });
        let Some((record, totlen)) = listed else { return self.carry(node, &bytes) };
        self.reserve(node.len(), Alloc::Collection, record.len())?;
        let new = self.put(&NewNode {
            kind: node.kind(),
            owner: node.owner,
            state: node.state(),
            record: Some((record.node, totlen)),
            bytes: &bytes,
        })?;
        let name = bytes.get(DIRENT_LEN as usize..totlen as usize);
        self.relocate(node, new, name.filter(|_| node.kind() == RefKind::Dirent));
        Ok(new)
    }

    /// Before an unmount, confirms the last page by a page of padding, so that the next mount need
    /// not suspect it. Has no effect if writing is not possible.
    pub(crate) fn seal(&mut self) -> Result<(), FsError> {
        if self.read_only || self.closed.is_some() {
            return Ok(());
        }
        let page = self.flash.page;
        let Some(block) = self.blocks.next().filter(|_| self.flash.has_buffer()) else {
            return Ok(());
        };
        let free = self.blocks.get(block).sizes.free;
        let end = self.flash.start(block) + self.flash.block - free;
        let start = end.saturating_sub(page).max(self.flash.start(block));
        if start == end || !self.is_touched(start, end) {
            return Ok(());
        }
        if free < page + self.kept(0) {
            return self.close_block(block);
        }
        self.pad_page(block)
    }

    /// Returns the number of bytes at the end of the open block that no node may use, if one more
    /// record of `record` bytes is in its summary.
    pub(crate) fn kept(&self, record: u32) -> u32 {
        let last = if self.flash.has_buffer() { self.flash.page } else { 0 };
        self.summary.needed(record).max(last)
    }

    /// Programs one page of padding after the last node.
    pub(crate) fn pad_page(&mut self, block: u32) -> Result<(), FsError> {
        let page = self.flash.page;
        let place = self.flash.start(block) + self.flash.block - self.blocks.get(block).sizes.free;
        let mut bytes = Vec::with_capacity(page as usize);
        encode::padding(self.flash.order, page, &mut bytes);
        bytes.resize(page as usize, 0);
        if let Err(error) = self.write_flash(place, &bytes) {
            return self.write_failed(block, error);
        }
        self.blocks.resize(block, |sizes| {
            sizes.free -= page;
            sizes.wasted += page;
        });
        Ok(())
    }
}
