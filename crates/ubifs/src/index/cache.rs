//! Decoded index nodes, at most [`BUDGET`] bytes of them, by position.

use eraseblock_ubifs_format::{Branch, IndexNode};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes the cache may take.
pub(crate) const BUDGET: u64 = 16 << 20;

#[derive(Debug)]
struct Entry {
    leb: u32,
    offset: u32,
    node: Arc<IndexNode>,
}

/// A direct-mapped cache: every position has one slot, which keeps the latest node.
#[derive(Debug)]
pub(super) struct Cache {
    slots: Vec<Mutex<Option<Entry>>>,
}

impl Cache {
    /// Creates a cache for nodes of up to `fanout` branches, with no more slots than `nodes`.
    pub(super) fn new(fanout: u32, nodes: u64) -> Self {
        let node_size = u64::from(fanout) * size_of::<Branch>() as u64 + 128;
        let slots = (BUDGET / node_size).min(nodes).clamp(16, 1 << 16);
        let slots = usize::try_from(slots.next_power_of_two()).unwrap_or(16);
        Self { slots: std::iter::repeat_with(Mutex::default).take(slots).collect() }
    }

    fn slot(&self, branch: &Branch) -> &Mutex<Option<Entry>> {
        let place = u64::from(branch.leb.get()) << 32 | u64::from(branch.offset / 8);
        // The high bits of a product with 2^64 / golden ratio depend on all bits of the place.
        let hash = place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let index = usize::try_from(hash).unwrap_or(0) & (self.slots.len() - 1);
        &self.slots[index]
    }

    pub(super) fn get(&self, branch: &Branch) -> Option<Arc<IndexNode>> {
        let slot = self.slot(branch).lock().unwrap_or_else(PoisonError::into_inner);
        let entry = slot.as_ref()?;
        let same = entry.leb == branch.leb.get() && entry.offset == branch.offset;
        same.then(|| Arc::clone(&entry.node))
    }

    pub(super) fn put(&self, branch: &Branch, node: &Arc<IndexNode>) {
        let entry = Entry { leb: branch.leb.get(), offset: branch.offset, node: Arc::clone(node) };
        let mut slot = self.slot(branch).lock().unwrap_or_else(PoisonError::into_inner);
        *slot = Some(entry);
    }
}
