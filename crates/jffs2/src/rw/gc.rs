//! Garbage collection, one node in each pass (spec: jffs2 17).
//!
//! # Invariants
//! 1. A node dies only after its replacement has been written. Its block is erased only after the
//!    replacement is on flash.
//! 2. A deletion of a name is kept while an older node with this name is on flash, even in the
//!    block to be erased next: a power cut may destroy one of them and leave the other.
//! 3. The replacement of a node has a higher version. So it takes precedence even if an erase of
//!    the old node's block was cut and the old node still reads correctly for a while. For holes
//!    that are overwritten in many parts, this holds only while there is space.

use super::inode::{Fragment, Place};
use super::nodelist::{List, NodeRef, RefKind, RefState};
use super::nodemgmt::Alloc;
use super::state::State;
use super::summary::record_len;
use super::write::{Extent, NewNode, PAGE};
use eraseblock_jffs2_format::constants::{DIRTY_LIMIT, INODE_LEN, compression};
use eraseblock_jffs2_format::summary::RecordNode;
use eraseblock_jffs2_format::{Inode, decode};
use eraseblock_vfs::{FsError, FsErrorKind};

/// Maximum number of pieces of a hole that get a node each.
const MOST_PARTS: u32 = 8;

impl State {
    /// Performs one pass: checks an inode, erases a block, or moves a node. Returns `false` if
    /// there is nothing to do.
    pub(crate) fn gc_pass(&mut self) -> Result<bool, FsError> {
        if self.check_one()? {
            return Ok(true);
        }
        if self.erase_one()? {
            return Ok(true);
        }
        let Some(victim) = self.victim()? else { return Ok(false) };
        let next = loop {
            let refs = &self.blocks.get(victim).refs;
            let Some(node) = refs.get(self.gc.position) else { break None };
            if node.is_live() {
                break Some(*node);
            }
            self.gc.position += 1;
        };
        let Some(node) = next else {
            self.gc.position = 0;
            self.bury(victim);
            return Ok(true);
        };
        self.collect_node(node)?;
        if self.blocks.get(victim).live() == 0 && self.blocks.get(victim).list == List::Victim {
            self.gc.position = 0;
            self.bury(victim);
        }
        Ok(true)
    }

    /// Checks the next unchecked inode (spec: jffs2 12.9). Returns `false` if there is none.
    pub(crate) fn check_one(&mut self) -> Result<bool, FsError> {
        if self.blocks.totals().unchecked == 0 {
            return Ok(false);
        }
        let from = self.gc.checked.saturating_add(1);
        let next =
            self.inodes.range(from).find(|(_, cache)| !cache.is_checked() && cache.names() > 0);
        let Some((ino, _)) = next else {
            // No named inode is left to check: the remaining nodes cannot be attributed.
            let Some(ino) = self.first_unchecked() else { return Ok(false) };
            self.drop_unchecked(ino);
            return Ok(true);
        };
        let was_loaded = self.loaded.has(ino);
        match self.load(ino) {
            Ok(()) => {}
            Err(error) if error.kind() == FsErrorKind::Io => return Err(error),
            Err(_) => self.drop_unchecked(ino),
        }
        self.gc.checked = ino;
        self.cache_mut(ino).set_checked();
        if !was_loaded {
            self.loaded.remove(ino);
        }
        Ok(true)
    }

    /// Keeps the remains of an unreadable inode unchanged.
    fn drop_unchecked(&mut self, owner: u32) {
        let places: Vec<u32> = self
            .blocks
            .iter()
            .flat_map(|(_, block)| &block.refs)
            .filter(|node| node.state() == RefState::Unchecked && node.owner == owner)
            .map(|node| node.place())
            .collect();
        for place in places {
            self.blocks.check_off(place, RefState::Pristine);
        }
    }

    /// Returns the block being collected, or chooses one (spec: jffs2 17, step 3).
    fn victim(&mut self) -> Result<Option<u32>, FsError> {
        if let Some(victim) = self.blocks.first(List::Victim) {
            return Ok(Some(victim));
        }
        if self.is_tight() && self.blocks.totals().unchecked == 0 {
            return Ok(self.emptiest().map(|block| self.choose(block)));
        }
        let draw = self.rng.below(128);
        let first = |list| self.blocks.first(list);
        let chosen = first(List::BadUsed)
            .filter(|_| self.blocks.len(List::Free) > 0)
            .or_else(|| first(List::Erasable).filter(|_| draw < 50))
            .or_else(|| first(List::VeryDirty).filter(|_| draw < 110))
            .or_else(|| first(List::Dirty).filter(|_| draw < 126))
            .or_else(|| first(List::Clean).filter(|_| draw >= 126))
            .or_else(|| first(List::Dirty))
            .or_else(|| first(List::VeryDirty))
            .or_else(|| first(List::Erasable))
            .or_else(|| first(List::Clean));
        if let Some(victim) = chosen {
            return Ok(Some(self.choose(victim)));
        }
        if self.blocks.first(List::PendingWbuf).is_some() {
            self.flush()?;
            return self.victim();
        }
        Ok(None)
    }

    /// Starts the collection of a block.
    fn choose(&mut self, victim: u32) -> u32 {
        self.blocks.file(victim, List::Victim);
        self.blocks.resize(victim, |sizes| sizes.dirty += std::mem::take(&mut sizes.wasted));
        self.gc.position = 0;
        victim
    }

    /// Returns the block with the fewest bytes to move, if there is space for them and at least a
    /// quarter of the block is gained. The last free blocks are not spent on a smaller gain.
    fn emptiest(&self) -> Option<u32> {
        use List::{BadUsed, Clean, Dirty, Erasable, VeryDirty};
        let lists = [BadUsed, Clean, Dirty, Erasable, VeryDirty];
        let blocks = self.blocks.iter().filter(|(_, entry)| lists.contains(&entry.list));
        let least = blocks.map(|(block, entry)| (entry.moved(), block)).min();
        let most = self.room().min(self.flash.block / 4 * 3);
        least.filter(|(moved, _)| *moved <= most).map(|(_, block)| block)
    }

    pub(crate) fn collect_node(&mut self, node: NodeRef) -> Result<(), FsError> {
        match node.kind() {
            RefKind::Filler => {
                self.obsolete(node.place());
                Ok(())
            }
            RefKind::Copy => self.carry(node, &self.read_node(node)?).map(drop),
            // Its content is lost and must stay lost, not become a hole.
            RefKind::Broken => self.move_node(node.place()).map(drop),
            RefKind::Xattr => self.collect_pair(node),
            RefKind::Xref => self.collect_reference(node),
            RefKind::Inode | RefKind::Dirent => self.collect_of_inode(node),
        }
    }

    /// Rewrites a node of an inode, depending on its role (spec: jffs2 17, step 7).
    fn collect_of_inode(&mut self, node: NodeRef) -> Result<(), FsError> {
        let (ino, place) = (node.owner, node.place());
        let was_loaded = self.loaded.has(ino);
        match self.load(ino) {
            Ok(()) => {}
            Err(error) if error.kind() == FsErrorKind::Io => return Err(error),
            Err(_) => return self.carry(node, &self.read_node(node)?).map(drop),
        }
        if !self.node(place).is_live() {
            return Ok(());
        }
        let loaded = self.inode(ino);
        let result = if loaded.metadata == Some(place) {
            self.collect_metadata(ino, place)
        } else if node.kind() == RefKind::Dirent {
            self.collect_dirent(ino, node)
        } else if loaded.fragments.count(place) > 0 {
            self.collect_data(ino, node)
        } else {
            // Nothing refers to it, so nothing is lost.
            self.obsolete(place);
            Ok(())
        };
        // Regardless of the reason, it must not remain in a block about to be erased.
        debug_assert!(result.is_err() || !self.node(place).is_live(), "node still alive");
        if !was_loaded && self.loaded.is_full() {
            self.loaded.remove(ino);
        }
        result
    }

    fn collect_metadata(&mut self, ino: u32, place: u32) -> Result<(), FsError> {
        let attributes = self.inode(ino).attributes;
        let payload = if attributes.has_payload() { self.payload(place)?.1 } else { Vec::new() };
        self.put_attributes(ino, attributes, &payload, Alloc::Collection)
    }

    fn collect_dirent(&mut self, dir: u32, node: NodeRef) -> Result<(), FsError> {
        let bytes = self.read_node(node)?;
        let at = self.flash.location(node.place());
        let dirent = decode::dirent(self.flash.order, &bytes, at)
            .map_err(|error| FsError::from_source(FsErrorKind::Corrupted, error))?;
        let attributes = self.inode(dir).attributes;
        let known = self.inode(dir).dents.get(dirent.name);
        if known.is_none_or(|known| known.place != node.place()) {
            // Nothing refers to it, so nothing is lost.
            self.obsolete(node.place());
            return Ok(());
        }
        if dirent.ino == 0 && !self.is_name_on_flash(dir, dirent.name, node)? {
            let is_newest = self.cache(dir).is_some_and(|cache| cache.highest == dirent.version);
            if is_newest && dirent.mctime != 0 {
                // The only node that knows the directory's times.
                self.put_attributes(dir, attributes, &[], Alloc::Collection)?;
            }
            self.inode_mut(dir).dents.remove(dirent.name);
            self.obsolete(node.place());
            return Ok(());
        }
        let same = attributes.mtime == attributes.ctime;
        let mctime = if same { attributes.mtime } else { 0 };
        let (ino, kind, alloc) = (dirent.ino, dirent.file_type, Alloc::Collection);
        self.set_name(dir, dirent.name, ino, kind, mctime, alloc).map(drop)
    }

    /// Returns whether a scan would find an older node that gives the name to an inode: in another
    /// block, or in that of `node` while it is being erased. An unreadable one may still be listed
    /// in the summary of a block whose erase was interrupted.
    fn is_name_on_flash(&self, dir: u32, name: &[u8], node: NodeRef) -> Result<bool, FsError> {
        let places = self.cache(dir).map_or(&[][..], |cache| cache.nodes.as_slice());
        for place in places {
            let Some(other) = self.blocks.node(*place) else { continue };
            if other.is_live() || other.kind() != RefKind::Dirent || other.len() != node.len() {
                continue;
            }
            let bytes = self.read_node(other)?;
            let at = self.flash.location(*place);
            let found = decode::dirent(self.flash.order, &bytes, at);
            if found.is_ok_and(|dirent| dirent.ino == 0 || dirent.name != name) {
                continue;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Rewrites a node with data or a hole (spec: jffs2 17, steps 8 and 9).
    fn collect_data(&mut self, ino: u32, node: NodeRef) -> Result<(), FsError> {
        let place = node.place();
        let bytes = self.read_node(node)?;
        let at = self.flash.location(place);
        let inode = decode::inode(self.flash.order, &bytes, at)
            .map_err(|error| FsError::from_source(FsErrorKind::Corrupted, error))?;
        let span = self.inode(ino).fragments.span(inode.offset, place);
        let Some((start, end)) = span else {
            self.obsolete(place);
            return Ok(());
        };
        if inode.compression == compression::ZERO {
            return self.collect_hole(ino, node, inode.version, (start, end));
        }
        let whole = (inode.offset, inode.offset + inode.dsize);
        if node.state() == RefState::Pristine
            && (start, end) == whole
            && self.refresh(ino, node, &inode, &bytes)?
        {
            return Ok(());
        }
        while self.inode(ino).fragments.count(place) > 0 {
            // The fragments of the node in order, at most one page at a time.
            let Some((at, fragment)) = self.fragment_of(ino, place, start) else { break };
            let page_end = (at / PAGE * PAGE).saturating_add(PAGE);
            let (from, until) = self.widen(ino, at, fragment.end.min(page_end), place);
            self.rewrite(ino, from, until)?;
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
        let at = self.flash.location(node.place());
        let stored = bytes.get(INODE_LEN as usize..(INODE_LEN + inode.csize) as usize);
        let Some(stored) = stored else { return Ok(false) };
        if decode::inode_data(inode, bytes, at).is_err() {
            return Ok(false);
        }
        let min = node.len().min(super::write::MIN_DATA);
        let room = self.reserve(min, Alloc::Collection, record_len(RefKind::Inode, 0))?;
        if !self.node(node.place()).is_live() {
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
        let mut parts = self.inode(ino).fragments.from(from);
        parts.find(|(_, fragment)| fragment.node.is_some_and(|node| node.place == place))
    }

    /// Absorbs neighbours in the page that are better written together (spec: jffs2 17, step 8).
    fn widen(&self, ino: u32, start: u32, end: u32, place: u32) -> (u32, u32) {
        let free = self.blocks.len(List::Free) + self.blocks.len(List::ErasePending);
        if free <= self.reserves.merge {
            return (start, end);
        }
        let (first, last) = (start / PAGE * PAGE, (start / PAGE * PAGE).saturating_add(PAGE));
        let victim = place / self.flash.block;
        let absorbs = |touches_edge: bool, node: Option<Place>| match node {
            None => false,
            Some(node) if node.is_lost => false,
            Some(_) if !touches_edge => true,
            Some(node) => {
                let block = node.place / self.flash.block;
                block == victim || self.blocks.get(block).sizes.dirty > DIRTY_LIMIT
            }
        };
        let fragments = &self.inode(ino).fragments;
        let (mut from, mut until) = (start, end);
        while from > first
            && let Some((at, fragment)) = fragments.before(from)
            && at >= first
            && absorbs(at == first, fragment.node)
        {
            from = at;
        }
        while until < last
            && let Some((at, fragment)) = fragments.from(until).next()
            && at == until
            && fragment.end <= last
            && absorbs(fragment.end == last, fragment.node)
        {
            until = fragment.end;
        }
        (from, until)
    }

    /// Rewrites a range within a page.
    fn rewrite(&mut self, ino: u32, start: u32, end: u32) -> Result<(), FsError> {
        let mut content = vec![0; (end - start) as usize];
        self.read_content(ino, start, &mut content)?;
        let mut done = 0;
        while done < content.len() {
            let at = start + done as u32;
            let taken = self.put_data(ino, at, &content[done..], Alloc::Collection, None)?;
            done += taken as usize;
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
        (start, end): (u32, u32),
    ) -> Result<(), FsError> {
        let parts = self.inode(ino).fragments.count(node.place());
        if (2..=MOST_PARTS).contains(&parts) && self.blocks.len(List::Free) > 1 {
            while let Some((at, part)) = self.fragment_of(ino, node.place(), start) {
                self.reserve(INODE_LEN, Alloc::Collection, record_len(RefKind::Inode, 0))?;
                self.put_extent(ino, &Extent::hole(at, part.end), None)?;
            }
            return Ok(());
        }
        self.reserve(INODE_LEN, Alloc::Collection, record_len(RefKind::Inode, 0))?;
        let alone = parts == 1;
        if alone {
            return self.put_extent(ino, &Extent::hole(start, end), None);
        }
        let bytes = self.read_node(node)?;
        let place = self.put(&NewNode {
            kind: RefKind::Inode,
            owner: ino,
            state: RefState::Normal,
            record: Some((RecordNode::Inode { ino, version }, INODE_LEN)),
            bytes: &bytes,
        })?;
        self.relocate(node, place, None);
        Ok(())
    }
}
