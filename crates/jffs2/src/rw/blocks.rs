//! What is kept of every erase block: its nodes, its accounts and its list (spec: jffs2 12.1).
//!
//! Layer: data, above `nodelist`.
//!
//! # Invariants
//! 1. The five sizes of a block add up to the size of a block, except for bad blocks, whose sizes
//!    are all 0; `used` and `unchecked` are the lengths of its live nodes.
//! 2. The nodes of a block are in ascending order and do not overlap.
//! 3. A block is on exactly one list, the one it names.
//! 4. `totals` are the sums over all blocks.

use super::nodelist::{NodeRef, RefKind, RefState, Span};
use eraseblock_jffs2_format::constants::DIRTY_LIMIT;
use std::collections::VecDeque;

/// The list of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum List {
    /// Erased, with its cleanmarker.
    Free,
    /// The open block.
    Next,
    /// At most 196 dead bytes.
    Clean,
    /// More.
    Dirty,
    /// Half of it dead or more.
    VeryDirty,
    /// All dead, parked.
    Erasable,
    /// All dead, waiting to be erased.
    ErasePending,
    /// A program failed; must be emptied first.
    BadUsed,
    /// Out of use.
    Bad,
    /// All dead, but what replaces its nodes is still in the write buffer.
    PendingWbuf,
    /// Being collected.
    Victim,
}

impl List {
    const COUNT: usize = 11;
}

/// Bytes of a block, or of all blocks, by what they hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sizes<T> {
    /// Live and checked.
    pub(crate) used: T,
    /// Live, checksums not all verified.
    pub(crate) unchecked: T,
    /// Dead, worth collecting.
    pub(crate) dirty: T,
    /// Dead, not worth collecting now.
    pub(crate) wasted: T,
    /// Erased.
    pub(crate) free: T,
}

/// An erase block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) sizes: Sizes<u32>,
    pub(crate) list: List,
    /// Failed programs since mounting.
    pub(crate) failures: u8,
    /// Number of consecutive reads that failed right after the block had been erased.
    pub(crate) unread: u8,
    /// The nodes, dead ones included.
    pub(crate) refs: Vec<NodeRef>,
}

impl Block {
    /// Returns the number of bytes of live nodes.
    pub(crate) fn live(&self) -> u32 {
        self.sizes.used + self.sizes.unchecked
    }

    /// Returns whether nothing in it is live except a cleanmarker or a summary, its first and its
    /// last node.
    pub(crate) fn is_dead(&self) -> bool {
        let is_filler = |node: &&NodeRef| node.is_live() && node.kind() == RefKind::Filler;
        let ends = match &self.refs[..] {
            [] => [None, None],
            [only] => [None, Some(only)],
            [first, .., last] => [Some(first), Some(last)],
        };
        let fillers = ends.into_iter().flatten().filter(is_filler);
        self.live() == fillers.map(|node| node.len()).sum()
    }

    /// Returns the number of bytes of nodes that must be moved before it can be erased.
    pub(crate) fn moved(&self) -> u32 {
        let moved =
            self.refs.iter().filter(|node| node.is_live() && node.kind() != RefKind::Filler);
        moved.map(|node| node.len()).sum()
    }
}

/// All blocks and their lists.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    size: u32,
    entries: Vec<Block>,
    lists: [VecDeque<u32>; List::COUNT],
    totals: Sizes<u64>,
}

impl Blocks {
    /// Creates `count` blocks of `size` bytes, all bad until they are added to a list.
    pub(crate) fn new(size: u32, count: u32) -> Self {
        let block = Block {
            sizes: Sizes::default(),
            list: List::Bad,
            failures: 0,
            unread: 0,
            refs: Vec::new(),
        };
        let mut lists: [VecDeque<u32>; List::COUNT] = Default::default();
        lists[List::Bad as usize].extend(0..count);
        let entries = vec![block; count as usize];
        Self { size, entries, lists, totals: Sizes::default() }
    }

    pub(crate) fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Bytes of a block.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn totals(&self) -> &Sizes<u64> {
        &self.totals
    }

    pub(crate) fn list(&self, list: List) -> &VecDeque<u32> {
        &self.lists[list as usize]
    }

    pub(crate) fn len(&self, list: List) -> u32 {
        self.list(list).len() as u32
    }

    pub(crate) fn first(&self, list: List) -> Option<u32> {
        self.list(list).front().copied()
    }

    /// Returns the open block.
    pub(crate) fn next(&self) -> Option<u32> {
        self.first(List::Next)
    }

    pub(crate) fn get(&self, block: u32) -> &Block {
        &self.entries[block as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Block)> {
        (0..).zip(&self.entries)
    }

    /// Returns a block, to change anything but its sizes and its list.
    pub(crate) fn get_mut(&mut self, block: u32) -> &mut Block {
        &mut self.entries[block as usize]
    }

    /// Changes the sizes of a block.
    pub(crate) fn resize(&mut self, block: u32, change: impl FnOnce(&mut Sizes<u32>)) {
        let sizes = &mut self.entries[block as usize].sizes;
        self.totals.take(sizes);
        change(sizes);
        self.totals.add(sizes);
    }

    /// Counts the first `len` free bytes of a block as dead, not worth collecting now.
    pub(crate) fn waste(&mut self, block: u32, len: u32) {
        self.resize(block, |sizes| {
            sizes.free -= len;
            sizes.wasted += len;
        });
    }

    /// Adds a block to the end of a list.
    pub(crate) fn file(&mut self, block: u32, list: List) {
        let old = std::mem::replace(&mut self.entries[block as usize].list, list);
        let queue = &mut self.lists[old as usize];
        if let Some(index) = queue.iter().position(|entry| *entry == block) {
            queue.remove(index);
        }
        self.lists[list as usize].push_back(block);
    }

    /// Moves the first `by` blocks of every list to its end (spec: jffs2 12.5).
    pub(crate) fn rotate(&mut self, by: u64) {
        for list in &mut self.lists {
            let len = list.len() as u64;
            if len > 0 {
                list.rotate_left((by % len) as usize);
            }
        }
    }

    /// Adds a block to the list for its number of dead bytes.
    pub(crate) fn file_by_dirt(&mut self, block: u32) {
        let dirty = self.get(block).sizes.dirty;
        let list = match dirty {
            dirty if dirty >= self.size / 2 => List::VeryDirty,
            dirty if dirty > DIRTY_LIMIT => List::Dirty,
            _ => List::Clean,
        };
        if self.get(block).list != list {
            self.file(block, list);
        }
    }

    /// Makes the whole block dead and adds it to a list; its nodes are forgotten when it is erased.
    /// Nothing in it may be live, but for a cleanmarker and a summary.
    pub(crate) fn file_dead(&mut self, block: u32, list: List) {
        debug_assert!(self.get(block).is_dead(), "nodes are still alive: {:?}", self.get(block));
        let size = self.size;
        for node in &mut self.entries[block as usize].refs {
            node.set_state(RefState::Obsolete);
        }
        self.resize(block, |sizes| *sizes = Sizes { dirty: size, ..Sizes::default() });
        self.file(block, list);
    }

    /// Frees memory of a block to which nothing is appended any more. The list is copied, because
    /// an allocator may keep the capacity of one that is shortened in place.
    pub(crate) fn shrink_block(&mut self, block: u32) {
        let refs = &mut self.entries[block as usize].refs;
        if refs.len() < refs.capacity() {
            *refs = refs.as_slice().into();
        }
    }

    /// Returns the block and index of the node at `place`.
    fn index(&self, place: u32) -> Option<(u32, usize)> {
        let block = place / self.size;
        let refs = &self.entries.get(block as usize)?.refs;
        let index = refs.binary_search_by_key(&place, |node| node.place()).ok()?;
        Some((block, index))
    }

    /// Returns the node at `place`.
    pub(crate) fn node(&self, place: u32) -> Option<NodeRef> {
        self.index(place).map(|(block, index)| self.entries[block as usize].refs[index])
    }

    /// Returns the owner of a node that has not been checked yet.
    pub(crate) fn first_unchecked(&self) -> Option<u32> {
        self.entries.iter().find_map(|block| {
            let mut refs = block.refs.iter();
            refs.find(|node| node.state() == RefState::Unchecked).map(|node| node.owner)
        })
    }

    /// Returns the nodes, live or dead, that touch a span.
    pub(crate) fn touching(&self, span: Span) -> impl Iterator<Item = NodeRef> {
        let nodes = self.get(span.start / self.size).refs.iter().copied();
        nodes.filter(move |node| {
            let (place, len) = (node.place(), node.len());
            node.kind() != RefKind::Filler && place < span.end && place + len > span.start
        })
    }

    /// Returns the first live node that touches a span and begins at or after `from`.
    pub(crate) fn live_in(&self, span: Span, from: u32) -> Option<u32> {
        let nodes = self.touching(span).filter(|node| node.is_live());
        nodes.map(NodeRef::place).find(|place| *place >= from)
    }

    /// Returns whether a node, live or dead, touches a span.
    pub(crate) fn is_touched(&self, span: Span) -> bool {
        self.touching(span).next().is_some()
    }

    /// Changes the state of a live node to `state`, another live one.
    pub(crate) fn check_off(&mut self, place: u32, state: RefState) {
        let Some((block, index)) = self.index(place) else { return };
        let node = &mut self.entries[block as usize].refs[index];
        let (old, len) = (node.state(), node.len());
        node.set_state(state);
        if old == RefState::Unchecked && state != RefState::Unchecked {
            self.resize(block, |sizes| {
                sizes.unchecked -= len;
                sizes.used += len;
            });
        }
    }

    /// Marks a node that cannot be used but is kept.
    pub(crate) fn set_broken(&mut self, place: u32) {
        self.check_off(place, RefState::Normal);
        if let Some((block, index)) = self.index(place) {
            let node = &mut self.entries[block as usize].refs[index];
            *node = NodeRef::new(place, node.len(), RefKind::Broken, node.owner, RefState::Normal);
        }
    }

    /// Changes the owner of a node.
    pub(crate) fn set_owner(&mut self, place: u32, owner: u32) {
        if let Some((block, index)) = self.index(place) {
            self.entries[block as usize].refs[index].owner = owner;
        }
    }

    /// Marks a node as dead. Returns what it was, or `None` if it was already dead.
    pub(crate) fn obsolete(&mut self, place: u32) -> Option<NodeRef> {
        let (block, index) = self.index(place)?;
        let node = &mut self.entries[block as usize].refs[index];
        let old = *node;
        if !old.is_live() {
            return None;
        }
        node.set_state(RefState::Obsolete);
        let is_open = self.get(block).list == List::Next;
        let len = old.len();
        self.resize(block, |sizes| {
            match old.state() {
                RefState::Unchecked => sizes.unchecked -= len,
                _ => sizes.used -= len,
            }
            if is_open {
                sizes.wasted += len;
            } else {
                sizes.add_dead(len);
            }
        });
        Some(old)
    }

    /// Records that the start of the free space of a block now holds `node`.
    pub(crate) fn append(&mut self, block: u32, node: NodeRef) {
        let len = node.len();
        debug_assert!(
            node.place() % self.size == self.size - self.get(block).sizes.free,
            "a node that does not start where the free space does: {node:?}"
        );
        self.resize(block, |sizes| {
            sizes.free -= len;
            match node.state() {
                RefState::Unchecked => sizes.unchecked += len,
                RefState::Obsolete => sizes.wasted += len,
                _ => sizes.used += len,
            }
        });
        self.entries[block as usize].refs.push(node);
    }

    /// Forgets the content of an erased block.
    pub(crate) fn wipe(&mut self, block: u32) {
        let size = self.size;
        self.resize(block, |sizes| *sizes = Sizes { free: size, ..Sizes::default() });
        self.entries[block as usize].refs = Vec::new();
    }
}

impl Sizes<u32> {
    /// Sum of all.
    pub(crate) fn sum(&self) -> u32 {
        self.used + self.unchecked + self.dirty + self.wasted + self.free
    }

    /// Counts `len` more dead bytes: as wasted while the block is not worth collecting for them
    /// (spec: jffs2 15).
    fn add_dead(&mut self, len: u32) {
        if self.dirty == 0 && self.wasted + len <= DIRTY_LIMIT {
            self.wasted += len;
        } else {
            self.dirty += len + std::mem::take(&mut self.wasted);
        }
    }
}

impl Sizes<u64> {
    fn add(&mut self, sizes: &Sizes<u32>) {
        self.used += u64::from(sizes.used);
        self.unchecked += u64::from(sizes.unchecked);
        self.dirty += u64::from(sizes.dirty);
        self.wasted += u64::from(sizes.wasted);
        self.free += u64::from(sizes.free);
    }

    fn take(&mut self, sizes: &Sizes<u32>) {
        self.used -= u64::from(sizes.used);
        self.unchecked -= u64::from(sizes.unchecked);
        self.dirty -= u64::from(sizes.dirty);
        self.wasted -= u64::from(sizes.wasted);
        self.free -= u64::from(sizes.free);
    }
}
