//! Moves single nodes out of the way of an erase (spec: jffs2 17, steps 7 to 9).
//!
//! Layer: above the writers of nodes, below `gc`, which chooses the nodes, and `settle`.
//!
//! # Invariants
//! 1. A node dies only after its replacement has been written.
//! 2. A deletion of a name is kept while an older node with this name is on flash, even in the
//!    block to be erased next: a power cut may destroy one of them and leave the other.
//! 3. The replacement of a node has a higher version. So it takes precedence even if an erase of
//!    the old node's block was cut and the old node still reads correctly for a while. For holes
//!    that are overwritten in many parts, this holds only while there is space.

use super::blocks::List;
use super::failure::corrupted;
use super::inode::{Fragment, PAGE, Source};
use super::log::NewNode;
use super::nodelist::{NodeRef, RefKind, RefState};
use super::summary::Listed;
use super::write::{Extent, MIN_DATA, NewName, Target, Writer};
use crate::damage::Range;
use eraseblock_jffs2_format::constants::{DIRENT_LEN, DIRTY_LIMIT, INODE_LEN, compression};
use eraseblock_jffs2_format::summary::{Record, RecordNode};
use eraseblock_jffs2_format::{Inode, decode};
use eraseblock_vfs::{FsError, FsErrorKind};
use std::num::NonZeroU32;

/// Maximum number of pieces of a hole that get a node each.
const MOST_PARTS: u32 = 8;

impl Writer {
    pub(crate) fn collect_node(&mut self, node: NodeRef) -> Result<(), FsError> {
        match node.kind() {
            RefKind::Filler => {
                self.log.tree.store.obsolete(node.place());
                Ok(())
            }
            RefKind::Copy => self.carry_node(node),
            // Its content is lost and must stay lost, not become a hole.
            RefKind::Broken => self.move_node(node.place()).map(drop),
            RefKind::Xattr => self.collect_pair(node),
            RefKind::Xref => self.collect_reference(node),
            RefKind::Inode | RefKind::Dirent | RefKind::Deletion => self.collect_of_inode(node),
        }
    }

    /// Copies a node unchanged, which no summary lists.
    fn carry_node(&mut self, node: NodeRef) -> Result<(), FsError> {
        let bytes = self.log.tree.store.read_node(node)?;
        self.log.carry(node, &bytes).map(drop)
    }

    /// Rewrites a node of an inode, depending on its role (spec: jffs2 17, step 7).
    fn collect_of_inode(&mut self, node: NodeRef) -> Result<(), FsError> {
        let (ino, place) = (node.owner, node.place());
        let was_loaded = self.log.tree.owners.loaded.has(ino);
        match self.log.tree.load(ino) {
            Ok(()) => {}
            Err(error) if error.kind() == FsErrorKind::Io => return Err(error),
            Err(_) => return self.carry_node(node),
        }
        if !self.log.tree.store.node(place).is_live() {
            return Ok(());
        }
        let loaded = self.log.tree.inode(ino);
        let result = if loaded.metadata == Some(place) {
            self.collect_metadata(ino)
        } else if node.kind().is_of_name() {
            self.collect_dirent(ino, node)
        } else if loaded.fragments.count(place) > 0 {
            self.collect_data(ino, node)
        } else {
            // Nothing refers to it, so nothing is lost.
            self.log.tree.store.obsolete(place);
            Ok(())
        };
        // Regardless of the reason, it must not remain in a block about to be erased.
        debug_assert!(
            result.is_err() || !self.log.tree.store.node(place).is_live(),
            "node still alive"
        );
        if !was_loaded && self.log.tree.owners.loaded.is_full() {
            self.log.tree.owners.loaded.remove(ino);
        }
        result
    }

    fn collect_metadata(&mut self, ino: u32) -> Result<(), FsError> {
        let payload = self.log.tree.own_payload(ino)?;
        let attributes = self.log.tree.inode(ino).attributes;
        self.put_attributes(ino, attributes, &payload)
    }

    fn collect_dirent(&mut self, dir: u32, node: NodeRef) -> Result<(), FsError> {
        let store = &self.log.tree.store;
        let bytes = store.read_node(node)?;
        let at = store.flash.location(node.place());
        let Ok(dirent) = decode::dirent(store.flash.order, &bytes, at) else {
            return self.rescue_name(dir, node.place());
        };
        let attributes = self.log.tree.inode(dir).attributes;
        let known = self.log.tree.inode(dir).dents.get(dirent.name);
        if known.is_none_or(|known| known.place != node.place()) {
            // Nothing refers to it, so nothing is lost.
            self.log.tree.store.obsolete(node.place());
            return Ok(());
        }
        if dirent.ino == 0 && !self.is_name_on_flash(dir, dirent.name, node)? {
            let highest = self.log.tree.cache(dir).map(|cache| cache.highest);
            if highest == Some(dirent.version) && dirent.mctime != 0 {
                // The only node that knows the directory's times: they must be on flash before it
                // dies.
                self.put_attributes(dir, attributes, &[])?;
            }
            self.log.tree.owners.inode_mut(dir).dents.remove(dirent.name);
            self.log.tree.store.obsolete(node.place());
            return Ok(());
        }
        let target = Target { ino: dirent.ino, file_type: dirent.file_type };
        self.put_name_again(dir, dirent.name, target)
    }

    /// Writes a name again whose node cannot be read any more: it could when its directory was
    /// loaded.
    fn rescue_name(&mut self, dir: u32, place: u32) -> Result<(), FsError> {
        let found = self.log.tree.inode(dir).dents.behind(0).find(|it| it.dent.place == place);
        let Some((name, dent)) = found.map(|it| (it.name.to_vec(), it.dent)) else {
            // Nothing refers to it, so nothing is lost.
            self.log.tree.store.obsolete(place);
            return Ok(());
        };
        self.put_name_again(dir, &name, Target { ino: dent.ino, file_type: dent.file_type })
    }

    /// Writes a name, or the deletion of one, as it is.
    fn put_name_again(&mut self, dir: u32, name: &[u8], target: Target) -> Result<(), FsError> {
        let attributes = self.log.tree.inode(dir).attributes;
        let same = attributes.mtime == attributes.ctime;
        let mctime = if same { NonZeroU32::new(attributes.mtime) } else { None };
        let target = (target.ino != 0).then_some(target);
        let new = NewName { dir, name, target, mctime };
        if let Some(attributes) = self.attributes_before(&new) {
            self.put_attributes(dir, attributes, &[])?;
        }
        self.put_name(&new).map(drop)
    }

    /// Returns whether a scan would find an older node that gives the name to an inode: in another
    /// block, or in that of `node` while it is being erased. An unreadable one may still be listed
    /// in the summary of a block whose erase was interrupted.
    fn is_name_on_flash(&self, dir: u32, name: &[u8], node: NodeRef) -> Result<bool, FsError> {
        let store = &self.log.tree.store;
        for place in self.log.tree.owners.places(dir) {
            let Some(other) = store.blocks.node(*place) else { continue };
            if other.is_live() || other.kind() != RefKind::Dirent || other.len() != node.len() {
                continue;
            }
            let bytes = store.read_node(other)?;
            let found = decode::dirent(store.flash.order, &bytes, store.flash.location(*place));
            if found.is_ok_and(|dirent| dirent.name != name) {
                continue;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Rewrites a node with data or a hole (spec: jffs2 17, steps 8 and 9).
    fn collect_data(&mut self, ino: u32, node: NodeRef) -> Result<(), FsError> {
        let place = node.place();
        let store = &self.log.tree.store;
        let bytes = store.read_node(node)?;
        let at = store.flash.location(place);
        let inode = decode::inode(store.flash.order, &bytes, at).map_err(corrupted)?;
        let Some(used) = self.log.tree.inode(ino).fragments.span(inode.offset, place) else {
            self.log.tree.store.obsolete(place);
            return Ok(());
        };
        if inode.compression == compression::ZERO {
            return self.collect_hole(ino, node, inode.version, used);
        }
        let is_whole = used == Range { start: inode.offset, end: inode.offset + inode.dsize };
        if node.state() == RefState::Pristine
            && is_whole
            && self.refresh(ino, node, &inode, &bytes)?
        {
            return Ok(());
        }
        while self.log.tree.inode(ino).fragments.count(place) > 0 {
            // The fragments of the node in order, at most one page at a time.
            let Some((at, fragment)) = self.fragment_of(ino, place, used.start) else { break };
            let page_end = (at / PAGE * PAGE).saturating_add(PAGE);
            let first = Range { start: at, end: fragment.end.min(page_end) };
            self.rewrite(ino, self.widen(ino, first, place))?;
        }
        Ok(())
    }

    /// Writes a node whose data is completely in use again, with a new version and its stored
    /// bytes. Returns `false` if it does not fit in one piece, or if it is damaged.
    fn refresh(
        &mut self,
        ino: u32,
        node: NodeRef,
        inode: &Inode,
        bytes: &[u8],
    ) -> Result<bool, FsError> {
        let at = self.log.tree.store.flash.location(node.place());
        let stored = bytes.get(INODE_LEN as usize..(INODE_LEN + inode.csize) as usize);
        let Some(stored) = stored else { return Ok(false) };
        if decode::inode_data(inode, bytes, at).is_err() {
            return Ok(false);
        }
        let min = node.len().min(MIN_DATA);
        let room = self.log.reserve(min, RecordNode::INODE_LEN)?;
        if !self.log.tree.store.node(node.place()).is_live() {
            return Ok(true);
        }
        if room < node.len() {
            return Ok(false);
        }
        let Inode { offset, dsize, compression, .. } = *inode;
        self.put_extent(ino, &Extent { offset, dsize, compression, stored }, None)?;
        Ok(true)
    }

    fn fragment_of(&self, ino: u32, place: u32, from: u32) -> Option<(u32, Fragment)> {
        let mut parts = self.log.tree.inode(ino).fragments.from(from);
        parts.find(|(_, fragment)| fragment.place() == Some(place))
    }

    /// Absorbs neighbours in the page that are better written together (spec: jffs2 17, step 8).
    fn widen(&self, ino: u32, range: Range, place: u32) -> Range {
        let store = &self.log.tree.store;
        let free = store.blocks.len(List::Free) + store.blocks.len(List::ErasePending);
        if free <= store.reserves.merge {
            return range;
        }
        let first = range.start / PAGE * PAGE;
        let last = first.saturating_add(PAGE);
        let victim = place / store.flash.block;
        let absorbs = |touches_edge: bool, source: Option<Source>| match source {
            None | Some(Source::Lost(_) | Source::Unknown) => false,
            Some(Source::Data(place) | Source::Hole(place)) => {
                let block = place / store.flash.block;
                !touches_edge
                    || block == victim
                    || store.blocks.get(block).sizes.dirty > DIRTY_LIMIT
            }
        };
        let fragments = &self.log.tree.inode(ino).fragments;
        let Range { mut start, mut end } = range;
        while start > first
            && let Some((at, fragment)) = fragments.before(start)
            && at >= first
            && absorbs(at == first, fragment.source)
        {
            start = at;
        }
        while end < last
            && let Some((at, fragment)) = fragments.from(end).next()
            && at == end
            && fragment.end <= last
            && absorbs(fragment.end == last, fragment.source)
        {
            end = fragment.end;
        }
        Range { start, end }
    }

    /// Rewrites a range within a page.
    fn rewrite(&mut self, ino: u32, range: Range) -> Result<(), FsError> {
        let mut content = vec![0; (range.end - range.start) as usize];
        self.log.tree.read_content(ino, range.start, &mut content)?;
        let mut done = 0;
        while done < content.len() {
            let at = range.start + done as u32;
            done += self.put_data(ino, at, &content[done..], None)? as usize;
        }
        Ok(())
    }

    /// Rewrites a hole in one piece or in few. For a hole that is overwritten in many parts, copies
    /// the node unchanged, so that newer data still takes precedence.
    fn collect_hole(
        &mut self,
        ino: u32,
        node: NodeRef,
        version: u32,
        used: Range,
    ) -> Result<(), FsError> {
        let store = &self.log.tree.store;
        let parts = self.log.tree.inode(ino).fragments.count(node.place());
        if (2..=MOST_PARTS).contains(&parts) && store.blocks.len(List::Free) > 1 {
            while let Some((at, part)) = self.fragment_of(ino, node.place(), used.start) {
                self.log.reserve(INODE_LEN, RecordNode::INODE_LEN)?;
                self.put_extent(ino, &Extent::hole(at, part.end), None)?;
            }
            return Ok(());
        }
        self.log.reserve(INODE_LEN, RecordNode::INODE_LEN)?;
        let alone = parts == 1;
        if alone {
            return self.put_extent(ino, &Extent::hole(used.start, used.end), None);
        }
        let bytes = self.log.tree.store.read_node(node)?;
        let record = RecordNode::Inode { ino, version };
        let place = self.log.put(&NewNode {
            kind: RefKind::Inode,
            owner: ino,
            state: RefState::Normal,
            listed: Some(Listed { node: record, totlen: INODE_LEN }),
            bytes: &bytes,
        })?;
        self.log.tree.relocate(node, place, None);
        Ok(())
    }

    /// Writes an unchanged copy of a node, listed in a summary if possible. Returns its place.
    pub(crate) fn move_node(&mut self, place: u32) -> Result<u32, FsError> {
        let store = &self.log.tree.store;
        let node = store.node(place);
        let (bytes, order) = (store.read_node(node)?, store.flash.order);
        let header = decode::header(order, &bytes, store.flash.location(place));
        let listed = header.ok().and_then(|header| {
            let exact = bytes.get(..header.totlen as usize)?;
            let record = Record::of(order, header.kind(), exact, 0).ok()??;
            Some(Listed { node: record.node, totlen: header.totlen })
        });
        let Some(listed) = listed else { return self.log.carry(node, &bytes) };
        let name = bytes.get(DIRENT_LEN as usize..listed.totlen as usize);
        self.log.reserve(node.len(), listed.node.len())?;
        let new = self.log.put(&NewNode {
            kind: node.kind(),
            owner: node.owner,
            state: node.state(),
            listed: Some(listed),
            bytes: &bytes,
        })?;
        let is_name = node.kind().is_of_name();
        self.log.tree.relocate(node, new, if is_name { name } else { None });
        Ok(new)
    }
}
