//! Eraseblocks ordered by wear.

use eraseblock_base::Peb;

/// Blocks ordered by (erase counter, number). A sorted vector is sufficient: a device has a few
/// thousand blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct PebSet {
    entries: Vec<(u32, Peb)>,
}

impl PebSet {
    pub(crate) fn insert(&mut self, ec: u32, peb: Peb) {
        let place = self.entries.partition_point(|entry| *entry < (ec, peb));
        self.entries.insert(place, (ec, peb));
    }

    pub(crate) fn remove(&mut self, ec: u32, peb: Peb) {
        if let Ok(place) = self.entries.binary_search(&(ec, peb)) {
            self.entries.remove(place);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the least worn block.
    pub(crate) fn first(&self) -> Option<Peb> {
        self.entries.first().map(|(_, peb)| *peb)
    }

    pub(crate) fn pebs(&self) -> impl DoubleEndedIterator<Item = Peb> + '_ {
        self.entries.iter().map(|(_, peb)| *peb)
    }

    /// Returns the most worn block less than `diff` above the least worn one (spec: ubi 14.2).
    pub(crate) fn near(&self, diff: u32) -> Option<Peb> {
        let limit = self.entries.first()?.0.saturating_add(diff);
        let place = self.entries.partition_point(|(ec, _)| *ec < limit);
        Some(self.entries[place.saturating_sub(1)].1)
    }

    pub(crate) fn is_sorted_by(&self, ec: impl Fn(Peb) -> u32) -> bool {
        self.entries.is_sorted() && self.entries.iter().all(|(at, peb)| ec(*peb) == *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection() {
        let mut set = PebSet::default();
        assert_eq!((set.near(8), set.first()), (None, None));
        for (ec, peb) in [(5, 9), (1, 4), (1, 2), (3, 7), (20, 1)] {
            set.insert(ec, Peb::new(peb));
        }
        assert_eq!(set.first(), Some(Peb::new(2)));
        assert_eq!(set.near(3), Some(Peb::new(7)));
        assert_eq!(set.near(1), Some(Peb::new(4)));
        assert_eq!(set.near(0), Some(Peb::new(2)), "at least the first");
        set.remove(1, Peb::new(2));
        assert_eq!((set.first(), set.len()), (Some(Peb::new(4)), 4));
    }
}
