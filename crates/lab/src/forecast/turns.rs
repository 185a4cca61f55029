//! Which block is erased next, where nothing looks at erase counters.
//!
//! JFFS2 collects old content now and then, so blocks change between being erased often and being left
//! alone. How worn the most worn block will be depends on how often that happens. What a run shows of
//! it, and what stays the same while blocks change their roles, is after how many other blocks a block
//! has its next turn.

use eraseblock_base::Peb;
use eraseblock_nandsim::Rng;

/// Erases that are projected at most. After that, blocks have changed roles often enough.
const MOST_ERASES: u64 = 1 << 21;

/// The order in which blocks had their turns.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// All blocks; the one erased last comes first.
    order: Vec<u32>,
    /// How often a block was erased from each place in that order.
    places: Vec<u64>,
}

impl Turns {
    pub(super) fn new(blocks: u32) -> Self {
        Self { order: (0..blocks).collect(), places: vec![0; blocks as usize] }
    }

    /// Forgets the places, not the order.
    pub(super) fn begin(&mut self) {
        self.places.fill(0);
    }

    pub(super) fn erased(&mut self, peb: Peb) {
        if let Some(place) = self.order.iter().position(|block| *block == peb.get()) {
            self.places[place] += 1;
            self.order[..=place].rotate_right(1);
        }
    }

    /// Returns the erases of each block after the run has gone on in the same way, until one has
    /// reached `endurance` or the shares change no more.
    pub(super) fn project(&self, erases: &[u32], endurance: u32, seed: u64) -> Vec<u32> {
        let mut erases = erases.to_vec();
        let mut order = self.order.clone();
        let until: Vec<u64> = self
            .places
            .iter()
            .scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            })
            .collect();
        let all = until.last().copied().unwrap_or(0);
        let mut rng = Rng::new(seed, 1);
        for _ in 0..if all == 0 { 0 } else { MOST_ERASES } {
            let drawn = rng.next_u64() % all;
            let place = until.partition_point(|sum| *sum <= drawn);
            let count = &mut erases[order[place] as usize];
            *count += 1;
            if *count >= endurance {
                break;
            }
            order[..=place].rotate_right(1);
        }
        erases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the turns of blocks that are erased in this order.
    fn turns(blocks: u32, erased: impl Iterator<Item = u32>) -> Turns {
        let mut turns = Turns::new(blocks);
        erased.for_each(|block| turns.erased(Peb::new(block)));
        turns
    }

    #[test]
    fn blocks_that_take_turns_wear_evenly() {
        let mut turns = turns(8, (0..80).map(|number| number % 8));
        turns.begin();
        (0..80).for_each(|number| turns.erased(Peb::new(number % 8)));
        let wear = turns.project(&[10; 8], 100, 1);
        assert_eq!((wear.iter().min(), wear.iter().max()), (Some(&99), Some(&100)));
    }

    #[test]
    fn blocks_that_are_left_alone_stay_as_they_are() {
        let turns = turns(8, (0..400).map(|number| number % 4));
        let wear = turns.project(&[0; 8], 1000, 1);
        assert!(wear.iter().filter(|erases| **erases > 900).count() == 4, "{wear:?}");
        assert!(wear.iter().filter(|erases| **erases < 60).count() == 4, "{wear:?}");
    }

    #[test]
    fn without_an_erase_there_is_nothing_to_project() {
        assert_eq!(Turns::new(3).project(&[1, 2, 3], 10, 1), [1, 2, 3]);
    }
}
