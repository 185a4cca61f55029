//! The committed index, read on demand through a bounded cache (spec: ubifs-format 9).
//!
//! # Invariants
//! 1. A child is one level below its parent and its keys lie between its branch's key and the next
//!    one's; a violation is damage. So every descent ends.
//! 2. One walk loads no more index nodes than fit in the main area. An index that needs more is
//!    abandoned permanently, and a scan is used instead.
//! 3. Leaves that a damaged index node hides are searched for among all nodes of the main area. Those
//!    of a past commit are not, because newer nodes would be among them: they are in [`Index::lost`].

mod cache;

use crate::overlay::Overlay;
use crate::rescue;
use crate::volume::Volume;
use cache::Cache;
use eraseblock_base::{Location, Severity};
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::{Branch, FormatError, IndexNode, Key, decode};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Smallest index node, rounded up to the grid.
const MIN_INDEX_NODE: u64 = 48;

/// The committed index.
#[derive(Debug)]
pub(crate) struct Index {
    volume: Arc<Volume>,
    root: Option<Branch>,
    cache: Cache,
    /// Invariant 2 was broken.
    is_given_up: AtomicBool,
    rescued: OnceLock<Overlay>,
    /// Of a past commit: the ranges of keys below index nodes that are gone, in ascending order.
    lost: Vec<(Key, Key)>,
    budget: u64,
}

/// The range of all keys.
const WHOLE: (Key, Key) = (Key::MIN, Key::last_of(u32::MAX));

/// Receives branches in key order.
pub(crate) type Sink<'a> = dyn FnMut(&Branch) -> ControlFlow<()> + 'a;

/// Receives nodes of the index and leaves: the branch, the branch of the node that refers to it, and
/// the level of an index node.
pub(crate) type Visit<'a> = dyn FnMut(&Branch, Option<&Branch>, Option<u32>) + 'a;

struct Walk<'a, 'b> {
    from: Key,
    to: Key,
    sink: &'a mut Sink<'b>,
    left: u64,
}

impl Index {
    /// Returns the index below `root`, or an empty one.
    pub(crate) fn new(volume: Arc<Volume>, root: Option<Branch>) -> Self {
        let bytes = u64::from(volume.main_end().saturating_sub(volume.sb.main_first()))
            * u64::from(volume.leb_size());
        let cache = Cache::new(volume.limits.fanout, bytes / 64);
        Self {
            root,
            cache,
            is_given_up: AtomicBool::new(false),
            rescued: OnceLock::new(),
            lost: Vec::new(),
            budget: bytes / MIN_INDEX_NODE + 2,
            volume,
        }
    }

    /// Loads the root, to determine early whether there is an index at all.
    pub(crate) fn check_root(&self) -> Result<u64, FormatError> {
        self.root.map_or(Ok(0), |root| self.load(&root).map(|node| node.sqnum))
    }

    /// Calls `sink` for the branches of all leaves with keys from `from` to `to`, both included,
    /// in the order of the index, until it breaks.
    pub(crate) fn scan(&self, from: Key, to: Key, sink: &mut Sink<'_>) -> ControlFlow<()> {
        let Some(root) = &self.root else { return ControlFlow::Continue(()) };
        if self.is_given_up.load(Ordering::Relaxed) {
            return self.scan_rescued(from, to, sink);
        }
        let mut walk = Walk { from, to, sink, left: self.budget };
        let flow = self.descend(root, None, WHOLE, &mut walk);
        if walk.left == 0 {
            self.is_given_up.store(true, Ordering::Relaxed);
            let message = "the index refers to the same nodes again and again".to_owned();
            let at = Location::Leb(root.leb, root.offset);
            self.volume.late.push(Severity::Error, at, "index-cyclic", message);
        }
        flow
    }

    /// Looks at all index nodes of a past commit and notes what is lost.
    pub(crate) fn survey(&mut self) {
        let Some(root) = self.root else { return };
        let mut lost = Vec::new();
        let mut left = self.budget;
        let mut waiting = vec![(root, None, WHOLE)];
        while let Some((branch, level, bounds)) = waiting.pop() {
            left = left.saturating_sub(1);
            let node = match self.load_child(&branch, level, bounds) {
                Ok(node) if left > 0 => node,
                _ => {
                    // Names with the hash of the next branch's may be on both sides of it.
                    let last = if bounds.1.is_hashed() { bounds.1 } else { last_of(bounds) };
                    lost.push((bounds.0, last));
                    continue;
                }
            };
            if let Some(below) = node.level.checked_sub(1) {
                let children = node.branches.iter().enumerate();
                waiting.extend(children.map(|(index, child)| {
                    (*child, Some(below), (child.key, next_key(&node, index, bounds)))
                }));
            }
        }
        lost.sort_unstable();
        self.lost = lost;
    }

    /// Returns how many index nodes of a past commit are gone.
    pub(crate) fn gone(&self) -> u64 {
        self.lost.len() as u64
    }

    /// Returns whether a leaf with a key from `from` to `to`, both included, may be lost with its index
    /// node.
    pub(crate) fn is_lost(&self, from: Key, to: Key) -> bool {
        // Ranges of neighbours may share a key.
        let behind = self.lost.partition_point(|(first, _)| *first <= to);
        self.lost[..behind].iter().any(|(_, last)| *last >= from)
    }

    /// Calls `sink` for every node that can be read, with the node that refers to it, and for the
    /// leaves, which are not read. Ends early if the index is abandoned (invariant 2).
    pub(crate) fn visit(&self, sink: &mut Visit<'_>) {
        let Some(root) = &self.root else { return };
        let mut left = self.budget;
        self.visit_below(root, None, None, WHOLE, &mut left, sink);
    }

    fn visit_below(
        &self,
        branch: &Branch,
        parent: Option<&Branch>,
        level: Option<u32>,
        bounds: (Key, Key),
        left: &mut u64,
        sink: &mut Visit<'_>,
    ) {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return;
        }
        let Ok(node) = self.load_child(branch, level, bounds) else { return };
        sink(branch, parent, Some(node.level));
        for (index, child) in node.branches.iter().enumerate() {
            if node.level == 0 {
                sink(child, Some(branch), None);
                continue;
            }
            let bounds = (child.key, next_key(&node, index, bounds));
            self.visit_below(child, Some(branch), Some(node.level - 1), bounds, left, sink);
        }
    }

    fn descend(
        &self,
        branch: &Branch,
        level: Option<u32>,
        bounds: (Key, Key),
        walk: &mut Walk<'_, '_>,
    ) -> ControlFlow<()> {
        walk.left = walk.left.saturating_sub(1);
        if walk.left == 0 {
            return ControlFlow::Break(());
        }
        let node = match self.load_child(branch, level, bounds) {
            Ok(node) => node,
            Err(error) => return self.missing(&error, bounds, walk),
        };
        let start = node.branches.partition_point(|child| child.key < walk.from).saturating_sub(1);
        for (index, child) in node.branches.iter().enumerate().skip(start) {
            if child.key > walk.to {
                break;
            }
            if node.level == 0 {
                if child.key >= walk.from {
                    (walk.sink)(child)?;
                }
                continue;
            }
            let next = next_key(&node, index, bounds);
            if next >= walk.from {
                self.descend(child, Some(node.level - 1), (child.key, next), walk)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Loads a child and checks it against its parent (9.3).
    fn load_child(
        &self,
        branch: &Branch,
        level: Option<u32>,
        bounds: (Key, Key),
    ) -> Result<Arc<IndexNode>, FormatError> {
        let node = self.load(branch)?;
        let at = Location::Leb(branch.leb, branch.offset);
        let bad = |field, found: u64, expected| {
            Err(FormatError::Field { at, what: NodeType::Index, field, found, expected })
        };
        if level.is_some_and(|level| level != node.level) {
            let expected = eraseblock_ubifs_format::Expected::Value(level.unwrap_or(0).into());
            return bad("level", node.level.into(), expected);
        }
        let (first, last) = match (node.branches.first(), node.branches.last()) {
            (Some(first), Some(last)) => (first.key, last.key),
            _ => return Ok(node),
        };
        let behind = last > bounds.1 || (last == bounds.1 && !last.is_hashed());
        if first < bounds.0 || (behind && bounds.1 != WHOLE.1) {
            let words = "keys between those of its branch and the next";
            let expected = eraseblock_ubifs_format::Expected::Words(words);
            return bad("first key", first.value().into(), expected);
        }
        Ok(node)
    }

    fn load(&self, branch: &Branch) -> Result<Arc<IndexNode>, FormatError> {
        if let Some(node) = self.cache.get(branch) {
            return Ok(node);
        }
        let at = Location::Leb(branch.leb, branch.offset);
        let volume = &self.volume;
        let (_, most) = volume.limits.lengths(NodeType::Index);
        let mut bytes = vec![0; branch.len.min(most) as usize];
        if volume.read(branch.leb, branch.offset, &mut bytes).is_err() {
            bytes.clear();
        }
        let node = decode::expect(&bytes, NodeType::Index, &volume.limits, at)?;
        let node = volume.check_age(node)?;
        let node = node.index(&volume.limits, volume.sb.main_first(), volume.sb.leb_cnt)?;
        let node = Arc::new(node);
        self.cache.put(branch, &node);
        Ok(node)
    }

    /// Handles an index node that cannot be used.
    fn missing(
        &self,
        error: &FormatError,
        bounds: (Key, Key),
        walk: &mut Walk<'_, '_>,
    ) -> ControlFlow<()> {
        self.volume.late.node("index-node-lost", error);
        let from = walk.from.max(bounds.0);
        let to = walk.to.min(last_of(bounds));
        self.scan_rescued(from, to, walk.sink)
    }

    fn scan_rescued(&self, from: Key, to: Key, sink: &mut Sink<'_>) -> ControlFlow<()> {
        if self.volume.later.is_some() {
            return ControlFlow::Continue(());
        }
        let rescued = self.rescued.get_or_init(|| rescue::collect(&self.volume).overlay);
        for (_, slot) in rescued.range(from..=to) {
            for branch in slot.branches() {
                sink(branch)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the key at which the range of a child ends: that of the next child.
fn next_key(node: &IndexNode, index: usize, bounds: (Key, Key)) -> Key {
    node.branches.get(index + 1).map_or(bounds.1, |next| next.key)
}

/// Returns the last key below a branch: the key of the next branch belongs to the next child.
fn last_of(bounds: (Key, Key)) -> Key {
    if bounds.1 == WHOLE.1 { bounds.1 } else { bounds.1.predecessor().unwrap_or(Key::MIN) }
}
