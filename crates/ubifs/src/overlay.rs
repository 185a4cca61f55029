//! Changes in memory, by key: newer than the index, and complete for the keys they mention.
//!
//! # Invariants
//! 1. A slot hides everything in the index with its key; an empty slot means "deleted".
//! 2. A hidden range was applied before every slot inside it.
//! 3. A slot of a hashed key lists all its entries, sorted by name, unreadable ones first.

use eraseblock_ubifs_format::{Branch, Key};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// One entry of a hashed key.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    /// The name; `None` for a node that cannot be read (a dangling branch).
    pub(crate) name: Option<Box<[u8]>>,
    pub(crate) branch: Branch,
}

/// The state of one key.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// A key that occurs at most once.
    One(Option<Branch>),
    /// A hashed key.
    Names(Vec<Named>),
}

impl Slot {
    pub(crate) fn branches(&self) -> impl Iterator<Item = &Branch> {
        let (one, names) = match self {
            Self::One(branch) => (branch.as_ref(), [].as_slice()),
            Self::Names(names) => (None, names.as_slice()),
        };
        one.into_iter().chain(names.iter().map(|named| &named.branch))
    }
}

/// Changes on top of an index.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    slots: BTreeMap<Key, Slot>,
    /// First to last key of ranges hidden in the index; ranges do not overlap.
    hidden: BTreeMap<Key, Key>,
}

impl Overlay {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.hidden.is_empty()
    }

    /// Returns slots of a range of keys in order.
    pub(crate) fn range(
        &self,
        keys: RangeInclusive<Key>,
    ) -> impl Iterator<Item = (&Key, &Slot)> + use<'_> {
        let inverted = keys.start() > keys.end();
        let keys = if inverted { Key::MIN..=Key::MIN } else { keys };
        self.slots.range(keys).take(if inverted { 0 } else { usize::MAX })
    }

    pub(crate) fn slot(&self, key: Key) -> Option<&Slot> {
        self.slots.get(&key)
    }

    /// Returns the entries of a hashed key that has a slot.
    pub(crate) fn names_mut(&mut self, key: Key) -> Option<&mut Vec<Named>> {
        match self.slots.get_mut(&key) {
            Some(Slot::Names(names)) => Some(names),
            _ => None,
        }
    }

    /// Returns whether the index may be used for the key.
    pub(crate) fn shows_below(&self, key: Key) -> bool {
        if self.slots.contains_key(&key) {
            return false;
        }
        let range = self.hidden.range(..=key).next_back();
        range.is_none_or(|(_, last)| *last < key)
    }

    pub(crate) fn set(&mut self, key: Key, slot: Slot) {
        self.slots.insert(key, slot);
    }

    /// Removes all keys of a range, in the overlay and in the index.
    pub(crate) fn hide(&mut self, keys: RangeInclusive<Key>) {
        let (mut first, mut last) = keys.into_inner();
        if first > last {
            return;
        }
        let inside: Vec<Key> = self.slots.range(first..=last).map(|(key, _)| *key).collect();
        for key in inside {
            self.slots.remove(&key);
        }
        while let Some((start, end)) = self.touching(first, last) {
            self.hidden.remove(&start);
            first = first.min(start);
            last = last.max(end);
        }
        self.hidden.insert(first, last);
    }

    fn touching(&self, first: Key, last: Key) -> Option<(Key, Key)> {
        let (start, end) = self.hidden.range(..=last).next_back()?;
        (*end >= first).then_some((*start, *end))
    }

    /// Adds an entry under its name, replacing one of the same name or, if there is none, one
    /// unreadable entry (spec: ubifs-runtime 10.7).
    pub(crate) fn add_name(names: &mut Vec<Named>, name: &[u8], branch: Branch) {
        let named = Named { name: Some(name.into()), branch };
        match names.binary_search_by(|known| known.name.as_deref().cmp(&Some(name))) {
            Ok(index) => names[index] = named,
            Err(index) => {
                names.insert(index, named);
                if names[0].name.is_none() {
                    names.remove(0);
                }
            }
        }
    }

    /// Removes the entry of a name or, if there is none, one unreadable entry.
    pub(crate) fn remove_name(names: &mut Vec<Named>, name: &[u8]) {
        match names.binary_search_by(|known| known.name.as_deref().cmp(&Some(name))) {
            Ok(index) => drop(names.remove(index)),
            Err(_) if names.first().is_some_and(|named| named.name.is_none()) => {
                drop(names.remove(0));
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_base::Leb;

    fn branch(offset: u32) -> Branch {
        Branch { key: Key::MIN, leb: Leb::new(1), offset, len: 64 }
    }

    #[test]
    fn hidden_ranges_merge_and_slots_shine_through() {
        let mut overlay = Overlay::default();
        overlay.set(Key::data(65, 3), Slot::One(Some(branch(0))));
        overlay.hide(Key::data(65, 2)..=Key::data(65, 5));
        assert!(overlay.slot(Key::data(65, 3)).is_none());
        overlay.set(Key::data(65, 3), Slot::One(Some(branch(8))));
        overlay.hide(Key::data(65, 9)..=Key::data(65, 12));
        overlay.hide(Key::data(65, 5)..=Key::data(65, 9));
        assert_eq!(overlay.hidden.len(), 1);
        for (block, shows) in [(1, true), (2, false), (3, false), (7, false), (12, false)] {
            assert_eq!(overlay.shows_below(Key::data(65, block)), shows, "{block}");
        }
        assert!(overlay.shows_below(Key::data(65, 13)));
        overlay.hide(Key::data(65, 9)..=Key::data(65, 8));
        assert_eq!(overlay.range(Key::data(65, 9)..=Key::data(65, 8)).count(), 0);
    }

    #[test]
    fn unreadable_entries_give_way() {
        let mut names = vec![Named { name: None, branch: branch(0) }];
        Overlay::add_name(&mut names, b"a", branch(8));
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].name.as_deref(), Some(&b"a"[..]));
        Overlay::remove_name(&mut names, b"b");
        assert_eq!(names.len(), 1);
        names.insert(0, Named { name: None, branch: branch(16) });
        Overlay::remove_name(&mut names, b"b");
        assert_eq!(names.len(), 1);
        Overlay::remove_name(&mut names, b"a");
        assert!(names.is_empty());
    }
}
