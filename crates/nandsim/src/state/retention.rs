//! Bits that leak with the age of a page (spec: mtd-nand 15.4).
//!
//! # Invariants
//! 1. The set of leaked bits is a function of the seed, the place, the time of the last program,
//!    the wear and the current time: reading changes nothing, and leaked bits stay leaked until the
//!    erase.

use super::State;
use crate::plan::Retention;
use crate::rng::Rng;
use eraseblock_base::Peb;
use eraseblock_mtd::MtdError;

/// A billion, as plans count.
const BILLION: u128 = 1_000_000_000;

impl State {
    /// Returns the age of the chip, in events.
    pub(crate) fn time(&self) -> u64 {
        self.events.saturating_add(self.idle)
    }

    /// Records when a page was programmed, if bits leak.
    pub(super) fn note_program_time(&mut self, peb: Peb, page: u32) -> Result<(), MtdError> {
        if self.leaking().is_none() || !self.store.get(peb).page(page).is_touched() {
            return Ok(());
        }
        let now = self.time();
        self.with_page(peb, page, |_, meta| meta.born = now)
    }

    pub(super) fn leaking(&self) -> Option<Retention> {
        if self.config.is_nand() { self.plan.retention } else { None }
    }

    /// Returns the leaked bits of a page, in the codewords from `from` to before `end` and in the
    /// out-of-band bytes if `end` is in them, ascending.
    pub(super) fn leaked_bits(
        &self,
        peb: Peb,
        page: u32,
        from: usize,
        end: usize,
    ) -> Result<Vec<u32>, MtdError> {
        let Some(retention) = self.leaking() else { return Ok(Vec::new()) };
        let meta = self.store.get(peb).page(page);
        let born = meta.born.max(self.leaks_since);
        let age = self.time().saturating_sub(born);
        if age == 0 || !meta.is_touched() {
            return Ok(Vec::new());
        }
        let (step, data) = (self.config.ecc_step() as usize, self.config.page as usize);
        let steps = data / step;
        // The out-of-band bytes form one more group of cells.
        let group = |at: usize| if at < data { at / step } else { steps };
        let mut leaked = Vec::new();
        for index in group(from)..=group(end.saturating_sub(1).max(from)) {
            let start = index * step;
            let len = if index < steps { step } else { self.config.stride() - data };
            let mut cells = vec![0xFF; len];
            self.load(peb, page, start, &mut cells)?;
            let number = self.page_number(peb, page) * 128 + index as u64;
            let rng = Rng::new(retention.seed ^ born.rotate_left(32), number);
            let bits = leaks(&cells, rng, self.rate(peb, retention), age);
            let first = u32::try_from(start * 8).unwrap_or(u32::MAX);
            leaked.extend(bits.into_iter().map(|bit| first + bit));
        }
        Ok(leaked)
    }

    /// Returns the leakage of a bit per event, in billionths of a thousandth.
    fn rate(&self, peb: Peb, retention: Retention) -> u64 {
        let wear = u64::from(self.wear_of(peb).min(1000));
        u64::from(retention.per_billion) * (1000 + wear * 9)
    }
}

/// Returns the cleared bits of `cells` that have leaked. Equal times hit equally many cells, in a
/// fixed order; some of these hold a 1 already, some were hit before.
fn leaks(cells: &[u8], mut rng: Rng, rate: u64, age: u64) -> Vec<u32> {
    let bits = u32::try_from(cells.len() * 8).unwrap_or(u32::MAX);
    // The time of the first hit differs between groups.
    let start = u128::from(rng.below(1_000_000_000)) * 1000;
    let hits = (u128::from(rate) * u128::from(age)).saturating_mul(bits.into()) + start;
    let hits = (hits / (BILLION * 1000)).min(u128::from(bits) * 4);
    let mut leaked = std::collections::BTreeSet::new();
    for _ in 0..hits {
        let bit = rng.below(bits);
        if cells[bit as usize / 8] >> (bit % 8) & 1 == 0 {
            leaked.insert(bit);
        }
    }
    leaked.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaks_grow_with_age_and_rate_and_only_cleared_bits_leak() {
        let cells: Vec<u8> = (0..=255).cycle().take(512).collect();
        let at = |rate, age| leaks(&cells, Rng::new(3, 5), rate * 1000, age);
        let mut before = Vec::new();
        for age in (0..4000).step_by(100) {
            let now = at(10_000, age);
            assert!(before.iter().all(|bit| now.contains(bit)), "at {age}");
            assert!(now.iter().all(|bit| cells[*bit as usize / 8] >> (bit % 8) & 1 == 0));
            before = now;
        }
        // 2048 cleared bits, 4 % of them hit.
        assert!((60..100).contains(&before.len()), "{}", before.len());
        assert_eq!(at(20_000, 1000), at(10_000, 2000));
        assert!(at(1, 1).len() <= 1);
        assert!(leaks(&[0xFF; 64], Rng::new(3, 5), 1 << 40, 1 << 40).is_empty());
        assert!(leaks(&[], Rng::new(3, 5), 1 << 40, 1 << 40).is_empty());
        assert!(at(u64::from(u32::MAX), u64::MAX).len() <= 2048, "and it ends");
    }
}
