//! The map from LEBs to eraseblocks.

use eraseblock_base::{Leb, Peb};

/// The mapped LEBs of a volume, by ascending LEB number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VolumeMap {
    entries: Vec<(Leb, Peb)>,
}

impl VolumeMap {
    /// Creates a map from pairs in ascending order of LEBs.
    pub(crate) fn new(entries: Vec<(Leb, Peb)>) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "one entry a LEB, in order");
        Self { entries }
    }

    /// Returns the block that holds the LEB.
    pub fn get(&self, leb: Leb) -> Option<Peb> {
        // Most volumes are mapped from the start without a gap.
        match self.entries.get(leb.index()) {
            Some((at, peb)) if *at == leb => Some(*peb),
            _ => self
                .entries
                .binary_search_by_key(&leb, |(at, _)| *at)
                .ok()
                .map(|index| self.entries[index].1),
        }
    }

    /// Returns all pairs by ascending LEB number.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Leb, Peb)> + '_ {
        self.entries.iter().copied()
    }

    /// Returns the highest mapped LEB.
    pub fn highest(&self) -> Option<Leb> {
        self.entries.last().map(|(leb, _)| *leb)
    }

    /// Returns how many LEBs are mapped.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether no LEB is mapped.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes the LEBs from `first` and returns them.
    pub(crate) fn split_off(&mut self, first: Leb) -> Vec<(Leb, Peb)> {
        let place = self.entries.partition_point(|(leb, _)| *leb < first);
        self.entries.split_off(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_with_and_without_gaps() {
        let map = |lebs: &[u32]| {
            VolumeMap::new(lebs.iter().map(|n| (Leb::new(*n), Peb::new(n + 100))).collect())
        };
        for lebs in [&[0, 1, 2][..], &[0, 2, 5], &[7, 4_000_000_000]] {
            let map = map(lebs);
            for leb in [0, 1, 2, 3, 5, 7, 4_000_000_000] {
                let expected = lebs.contains(&leb).then(|| Peb::new(leb + 100));
                assert_eq!(map.get(Leb::new(leb)), expected, "{lebs:?} {leb}");
            }
        }
        let mut all = map(&[0, 2, 5]);
        assert_eq!(all.split_off(Leb::new(2)).len(), 2);
        assert_eq!((all.len(), all.highest()), (1, Some(Leb::new(0))));
    }
}
