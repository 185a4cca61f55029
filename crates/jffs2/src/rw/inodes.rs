//! The table of all inodes, always in memory (spec: jffs2 12.1).
//!
//! Layer: data. Uses nothing else of the run time.
//!
//! # Invariants
//! 1. An entry takes 32 bytes, including up to three nodes of its inode.
//! 2. Entries lie in pages of 64 consecutive numbers. No page is empty, and its capacity is at most
//!    twice the largest number of entries it ever had. So an inode number from flash that is far
//!    from all others costs one page with one entry, however high it is.
//! 3. Iteration is in ascending order of numbers.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// Number of inode numbers in a page, as a power of two.
const PAGE_BITS: u32 = 6;
/// Number of nodes that fit in the entry of an inode.
const FEW: usize = 3;
/// Set in `named` when all nodes have been checked.
const CHECKED: u32 = 1 << 31;

/// Places of an inode's nodes, dead ones included until their blocks are erased.
#[derive(Clone, Debug)]
pub(crate) enum Places {
    /// This many of them.
    Few(u8, [u32; FEW]),
    /// More, now or earlier.
    #[expect(clippy::box_collection, reason = "a list in place would make every entry larger")]
    Many(Box<Vec<u32>>),
}

impl Default for Places {
    fn default() -> Self {
        Self::Few(0, [0; FEW])
    }
}

impl Places {
    pub(crate) fn as_slice(&self) -> &[u32] {
        match self {
            Self::Few(len, places) => &places[..usize::from(*len)],
            Self::Many(places) => places,
        }
    }

    /// Adds a new node. A long list grows by a sixteenth, because most nodes are in a few long
    /// lists.
    pub(crate) fn push(&mut self, place: u32) {
        match self {
            Self::Few(len, places) if usize::from(*len) < FEW => {
                places[usize::from(*len)] = place;
                *len += 1;
            }
            Self::Few(_, places) => {
                let mut list = Vec::with_capacity(2 * FEW);
                list.extend_from_slice(places);
                list.push(place);
                *self = Self::Many(Box::new(list));
            }
            Self::Many(places) => {
                if places.len() == places.capacity() {
                    places.reserve_exact(1 + places.len() / 16);
                }
                places.push(place);
            }
        }
    }

    /// Removes the nodes for which `keep` returns false.
    pub(crate) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        match self {
            Self::Few(..) => {
                let old = std::mem::take(self);
                old.as_slice().iter().filter(|place| keep(**place)).for_each(|it| self.push(*it));
            }
            Self::Many(places) => places.retain(|place| keep(*place)),
        }
    }

    /// Returns the number of bytes outside the entry.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Few(..) => 0,
            Self::Many(places) => size_of::<Vec<u32>>() + places.capacity() * size_of::<u32>(),
        }
    }

    fn shrink(&mut self) {
        if let Self::Many(places) = self {
            places.shrink_to_fit();
        }
    }
}

/// The entry of an inode.
#[derive(Clone, Debug, Default)]
pub(crate) struct InodeCache {
    pub(crate) nodes: Places,
    /// The highest version found or assigned.
    pub(crate) highest: u32,
    /// The directory that holds its name, if it is a directory.
    pub(crate) parent: Option<NonZeroU32>,
    /// Number of times it is open.
    pub(crate) opens: u32,
    /// Number of names that refer to it, and the flag [`CHECKED`]. There are always fewer names
    /// than nodes that fit on flash.
    named: u32,
}

const _: () = assert!(size_of::<InodeCache>() == 32);

impl InodeCache {
    /// Returns the number of names that refer to it; 1 for the root.
    pub(crate) fn names(&self) -> u32 {
        self.named & !CHECKED
    }

    pub(crate) fn set_names(&mut self, names: u32) {
        self.named = names | self.named & CHECKED;
    }

    pub(crate) fn add_name(&mut self) {
        self.set_names(self.names() + 1);
    }

    /// Records that a name was removed; returns the number of those left.
    pub(crate) fn drop_name(&mut self) -> u32 {
        self.set_names(self.names().saturating_sub(1));
        self.names()
    }

    /// Returns whether all its nodes have been checked.
    pub(crate) fn is_checked(&self) -> bool {
        self.named & CHECKED != 0
    }

    pub(crate) fn set_checked(&mut self) {
        self.named |= CHECKED;
    }

    /// Returns whether it has a name or is open.
    pub(crate) fn is_wanted(&self) -> bool {
        self.names() > 0 || self.opens > 0
    }

    /// Adds a node with its version.
    pub(crate) fn add_node(&mut self, place: u32, version: u32) {
        self.nodes.push(place);
        self.highest = self.highest.max(version);
    }
}

/// Entries of 64 consecutive numbers.
#[derive(Debug, Default)]
struct Page {
    /// Which of them exist.
    present: u64,
    /// The existing ones, in order.
    entries: Vec<InodeCache>,
}

/// Returns page and bit of a number.
fn split(ino: u32) -> (u32, u32) {
    (ino >> PAGE_BITS, ino & ((1 << PAGE_BITS) - 1))
}

impl Page {
    /// Returns where the entry of a number is, or would be.
    fn index(&self, bit: u32) -> Result<usize, usize> {
        let index = (self.present & ((1 << bit) - 1)).count_ones() as usize;
        if self.present >> bit & 1 != 0 { Ok(index) } else { Err(index) }
    }

    /// Returns the numbers in a page that starts with `first`.
    fn numbers(&self, first: u32) -> impl Iterator<Item = u32> {
        let present = self.present;
        (0..1 << PAGE_BITS).filter(move |bit| present >> bit & 1 != 0).map(move |bit| first + bit)
    }

    /// Returns the entry of a number; creates it if necessary.
    fn entry(&mut self, bit: u32) -> &mut InodeCache {
        let index = self.index(bit).unwrap_or_else(|index| {
            if self.entries.len() == self.entries.capacity() {
                self.entries.reserve_exact(self.entries.len().max(1));
            }
            self.entries.insert(index, InodeCache::default());
            self.present |= 1 << bit;
            index
        });
        &mut self.entries[index]
    }
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Inodes {
    pages: BTreeMap<u32, Page>,
    len: usize,
}

impl Inodes {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, ino: u32) -> Option<&InodeCache> {
        let (number, bit) = split(ino);
        let page = self.pages.get(&number)?;
        page.index(bit).ok().map(|index| &page.entries[index])
    }

    pub(crate) fn get_mut(&mut self, ino: u32) -> Option<&mut InodeCache> {
        let (number, bit) = split(ino);
        let page = self.pages.get_mut(&number)?;
        page.index(bit).ok().map(|index| &mut page.entries[index])
    }

    /// Returns the entry of an inode; creates it if necessary.
    pub(crate) fn entry(&mut self, ino: u32) -> &mut InodeCache {
        let (number, bit) = split(ino);
        let page = self.pages.entry(number).or_default();
        self.len += usize::from(page.index(bit).is_err());
        page.entry(bit)
    }

    pub(crate) fn remove(&mut self, ino: u32) -> Option<InodeCache> {
        let (number, bit) = split(ino);
        let page = self.pages.get_mut(&number)?;
        let entry = page.entries.remove(page.index(bit).ok()?);
        page.present &= !(1 << bit);
        if page.entries.is_empty() {
            self.pages.remove(&number);
        }
        self.len -= 1;
        Some(entry)
    }

    /// Returns the highest number; 0 if there is none.
    pub(crate) fn highest(&self) -> u32 {
        self.pages
            .last_key_value()
            .map_or(0, |(number, page)| (number << PAGE_BITS) + page.numbers(0).last().unwrap_or(0))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &InodeCache)> {
        self.range(0)
    }

    /// Returns the entries from `first` on.
    pub(crate) fn range(&self, first: u32) -> impl Iterator<Item = (u32, &InodeCache)> {
        let pages = self.pages.range(split(first).0..);
        pages
            .flat_map(|(number, page)| page.numbers(number << PAGE_BITS).zip(&page.entries))
            .skip_while(move |(ino, _)| *ino < first)
    }

    /// Frees spare capacity.
    pub(crate) fn shrink(&mut self) {
        for page in self.pages.values_mut() {
            page.entries.shrink_to_fit();
            page.entries.iter_mut().for_each(|entry| entry.nodes.shrink());
        }
    }

    /// Returns the bytes of memory, without the spare capacity of the tree of pages.
    pub(crate) fn memory(&self) -> usize {
        let pages = self.pages.values().map(|page| {
            let lists: usize = page.entries.iter().map(|entry| entry.nodes.memory()).sum();
            lists + size_of::<(u32, Page)>() + page.entries.capacity() * size_of::<InodeCache>()
        });
        pages.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_table_of_inodes_is_a_map_in_ascending_order(
            steps in proptest::collection::vec((0_u32..300, any::<bool>(), any::<bool>()), 1..400),
            from in 0_u32..300,
        ) {
            let (mut table, mut map) = (Inodes::default(), BTreeMap::new());
            for (number, (ino, is_high, is_gone)) in (1..).zip(steps) {
                let ino = if is_high { u32::MAX - ino } else { ino };
                if is_gone {
                    let gone = table.remove(ino).map(|entry| entry.highest);
                    prop_assert_eq!(gone, map.remove(&ino));
                } else {
                    table.entry(ino).highest = number;
                    map.insert(ino, number);
                }
                prop_assert_eq!(table.len(), map.len());
                prop_assert_eq!(table.get(ino).map(|entry| entry.highest), map.get(&ino).copied());
            }
            let all: Vec<(u32, u32)> = table.range(from).map(|(ino, it)| (ino, it.highest)).collect();
            let expected: Vec<(u32, u32)> = map.range(from..).map(|(ino, it)| (*ino, *it)).collect();
            prop_assert_eq!(all, expected);
            prop_assert_eq!(table.highest(), map.keys().last().copied().unwrap_or(0));
            for ino in map.keys() {
                table.remove(*ino);
            }
            prop_assert_eq!((table.len(), table.memory()), (0, 0));
        }

        #[test]
        fn places_of_nodes_are_kept_in_order_whether_few_or_many(
            count in 0_u32..40, kept in 1_u32..5
        ) {
            let (mut places, mut list) = (Places::default(), Vec::new());
            for place in 0..count {
                places.push(place);
                list.push(place);
            }
            prop_assert_eq!(places.as_slice(), &list);
            places.retain(|place| place % kept == 0);
            list.retain(|place| place % kept == 0);
            places.push(99);
            list.push(99);
            prop_assert_eq!(places.as_slice(), &list);
        }
    }

    #[test]
    fn names_and_the_check_of_an_inode_do_not_touch_each_other() {
        let mut entry = InodeCache::default();
        entry.add_name();
        entry.set_checked();
        entry.add_name();
        assert_eq!((entry.names(), entry.is_checked()), (2, true));
        assert_eq!((entry.drop_name(), entry.drop_name(), entry.drop_name()), (1, 0, 0));
        assert!(entry.is_checked() && !entry.is_wanted());
    }

    /// Returns the bytes that a table takes for each inode with one node, when numbers are `step`
    /// apart.
    fn bytes_of_an_inode(step: u32) -> usize {
        const COUNT: u32 = 10_000;
        let mut table = Inodes::default();
        for number in 1..=COUNT {
            table.entry(number.wrapping_mul(step)).add_node(4 * number, 1);
        }
        assert_eq!(table.len(), COUNT as usize);
        table.memory() / COUNT as usize
    }

    #[test]
    fn an_inode_takes_33_bytes_and_one_far_from_all_others_72() {
        assert!(bytes_of_an_inode(1) <= 33, "{}", bytes_of_an_inode(1));
        for step in [64, 65, 1 << 12, 0x9E37_79B1] {
            assert!(bytes_of_an_inode(step) <= 72, "{step}: {}", bytes_of_an_inode(step));
        }
    }
}
