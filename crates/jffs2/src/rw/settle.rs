//! Writes the nodes of suspect pages again, and confirms the last page before an unmount.
//!
//! Layer: above `collect`. Makes no space: recovery uses what is kept for it.
//!
//! # Invariants
//! 1. The live nodes of a suspect page are written again in another block before anything else is
//!    written, erased or reported as durable. A block is continued only if no node touches its last
//!    page.
//! 2. They are written twice. The first copies are unchanged, so that any prefix of them is a state
//!    the file system was in. The second copies have new versions, so that they take precedence
//!    over the page if the erase of its block is cut and the page reads correctly once more.

use super::log::Log;
use super::nodelist::Span;
use super::write::Writer;
use eraseblock_jffs2_format::summary::RecordNode;
use eraseblock_vfs::{FsError, FsErrorKind};

/// Maximum length of the record of a node in a summary.
const LONGEST_RECORD: u32 = RecordNode::dirent_len(255);

impl Writer {
    /// Writes the live nodes of pages that may be unstable again. Leaves a full medium unchanged.
    pub(crate) fn settle_suspects(&mut self) -> Result<(), FsError> {
        while let Some(page) = self.log.tree.store.suspects.first() {
            match self.settle(page) {
                Ok(()) => {}
                Err(error) if error.kind() == FsErrorKind::NoSpace => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn settle(&mut self, page: Span) -> Result<(), FsError> {
        let copies = self.move_nodes(page)?;
        // Only now, with a copy of each node on flash, may the page be read from flash again.
        self.log.tree.store.suspects.forget(page);
        self.renew(&copies)
    }

    /// Copies the live nodes of a page unchanged: first a node that began in an earlier page, then
    /// the others with one program. Returns the places of the copies.
    fn move_nodes(&mut self, page: Span) -> Result<Vec<u32>, FsError> {
        let mut copies = Vec::new();
        let store = &self.log.tree.store;
        let from = store.first_of(page);
        if let Some(place) = store.blocks.live_in(page, from).filter(|place| *place < page.start) {
            copies.push(self.move_node(place)?);
            // On flash before the later ones: a cut must not leave those without this one.
            self.log.flush()?;
        }
        let mine = self.log.tree.store.blocks.touching(page);
        let mine = mine.filter(|node| node.is_live() && node.place() >= page.start);
        let (len, count) = mine.fold((0, 0), |(len, count), node| (len + node.len(), count + 1));
        // No record is longer than its node.
        self.log.reserve(len, len.min(count * LONGEST_RECORD))?;
        let mut from = page.start;
        while let Some(place) = self.log.tree.store.blocks.live_in(page, from) {
            copies.push(self.move_node(place)?);
            from = place + 4;
        }
        self.log.flush()?;
        Ok(copies)
    }

    /// Writes the nodes at `places` again with new versions. A node that a failed program has moved
    /// on is dead at its place.
    fn renew(&mut self, places: &[u32]) -> Result<(), FsError> {
        for place in places {
            if let Some(node) = self.log.tree.store.blocks.node(*place)
                && node.is_live()
            {
                self.collect_node(node)?;
            }
        }
        self.log.flush()
    }
}

impl Log {
    /// Before an unmount, confirms the last page by a page of padding, so that the next mount need
    /// not suspect it.
    pub(crate) fn seal(&mut self) -> Result<(), FsError> {
        let store = &self.tree.store;
        let page = store.flash.page;
        let (Some(block), true) = (store.blocks.next(), store.flash.has_buffer()) else {
            return Ok(());
        };
        let end = store.end_of(block);
        let first = store.flash.start(block);
        let last = Span { start: end.saturating_sub(page).max(first), end };
        if last.start == end || !store.blocks.is_touched(last) {
            return Ok(());
        }
        if store.blocks.get(block).sizes.free < page + self.kept(0) {
            return self.close_block(block);
        }
        self.pad_page(block)
    }
}
