//! The health of a device.

use super::ReadOnlyReason;
use crate::core::{Core, Counters};
use crate::wl::Place;

/// Wear, errors and lists of a device, for reports.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Health {
    /// Eraseblocks of the device.
    pub pebs: u32,
    /// The smallest erase counter.
    pub min_ec: u32,
    /// The largest erase counter.
    pub max_ec: u32,
    /// The mean of all, rounded down.
    pub mean_ec: u32,
    /// The number of blocks for each range of erase counters.
    pub histogram: Vec<Histogram>,
    /// The number of blocks in each list.
    pub lists: ListSizes,
    /// Lost or suspicious blocks.
    pub errors: ErrorCounts,
    /// Events since the device was opened.
    pub counters: Counters,
    /// Blocks free for new volumes.
    pub available: u32,
    /// Blocks reserved to replace bad ones, and the number that should be reserved.
    pub bad_block_reserve: (u32, u32),
    /// The reason if the device is read-only.
    pub read_only: Option<ReadOnlyReason>,
}

/// One bar of the histogram of erase counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Histogram {
    /// The smallest counter of the bar.
    pub from: u32,
    /// The largest counter of the bar.
    pub to: u32,
    /// The number of blocks in this range.
    pub pebs: u32,
}

/// The number of blocks in each list (spec: ubi 14.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ListSizes {
    /// Ready for use.
    pub free: u32,
    /// Holding a LEB.
    pub used: u32,
    /// Holding a LEB that must not be moved yet.
    pub protected: u32,
    /// Holding a LEB that must be moved.
    pub scrub: u32,
    /// Waiting to be erased.
    pub erase: u32,
    /// Holding the fastmap.
    pub fastmap: u32,
}

/// Blocks that are lost or suspicious.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ErrorCounts {
    /// Marked bad.
    pub bad: u32,
    /// Damaged or foreign; left untouched.
    pub corrupted: u32,
    /// Holding a LEB that cannot be read.
    pub erroneous: u32,
}

/// Bars of the histogram.
const BARS: u32 = 16;

impl Health {
    pub(super) fn of(core: &Core) -> Self {
        let mut lists = ListSizes::default();
        let mut errors = ErrorCounts::default();
        for peb in core.io.device.geometry().pebs() {
            *match core.wl.place(peb) {
                Place::Free | Place::UserPool | Place::MovePool | Place::Anchor => &mut lists.free,
                Place::Fastmap => &mut lists.fastmap,
                Place::Used => &mut lists.used,
                Place::Protected => &mut lists.protected,
                Place::Scrub => &mut lists.scrub,
                Place::Erase => &mut lists.erase,
                Place::Erroneous => &mut errors.erroneous,
                Place::Bad => &mut errors.bad,
                Place::Corrupted | Place::Held => &mut errors.corrupted,
            } += 1;
        }
        let counters = core.wl.ecs();
        let (min_ec, max_ec) = (
            counters.iter().copied().min().unwrap_or(0),
            counters.iter().copied().max().unwrap_or(0),
        );
        let sum: u64 = counters.iter().map(|ec| u64::from(*ec)).sum();
        let mean = sum.checked_div(counters.len() as u64).unwrap_or(0);
        Self {
            pebs: u32::try_from(counters.len()).expect("PEB numbers are 32 bits"),
            min_ec,
            max_ec,
            mean_ec: u32::try_from(mean).expect("a mean of 32-bit numbers"),
            histogram: histogram(counters, min_ec, max_ec),
            lists,
            errors,
            counters: core.counters,
            available: core.books.available,
            bad_block_reserve: (core.books.beb_reserved, core.books.beb_level),
            read_only: core.read_only,
        }
    }
}

fn histogram(counters: &[u32], min: u32, max: u32) -> Vec<Histogram> {
    let width = (max - min) / BARS + 1;
    let mut bars: Vec<Histogram> = (0..=(max - min) / width)
        .map(|bar| min + bar * width)
        .map(|from| Histogram { from, to: from.saturating_add(width - 1), pebs: 0 })
        .collect();
    for ec in counters {
        bars[((ec - min) / width) as usize].pebs += 1;
    }
    bars.retain(|bar| bar.pebs > 0);
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_in_one_bar() {
        let bars = histogram(&[1, 1, 2, 100, 50], 1, 100);
        assert_eq!(bars.iter().map(|bar| bar.pebs).sum::<u32>(), 5);
        assert_eq!((bars[0].from, bars[0].to, bars[0].pebs), (1, 7, 3));
        assert_eq!(histogram(&[7; 3], 7, 7), [Histogram { from: 7, to: 7, pebs: 3 }]);
        assert_eq!(histogram(&[u32::MAX, 0], 0, u32::MAX).len(), 2);
    }
}
