//! From wear to days.

use eraseblock_nandsim::Rng;

/// Chips drawn for a spread.
const DRAWS: u64 = 1000;

/// Activation energy of lost charge in electronvolts (JESD22-A117).
const ACTIVATION_EV: f64 = 1.1;
/// The Boltzmann constant in electronvolts per kelvin.
const BOLTZMANN: f64 = 8.617_333e-5;
/// 0 degrees Celsius in kelvin.
const ZERO_CELSIUS: f64 = 273.15;

/// A number with its spread over chips.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Spread {
    /// One chip in 20 has less.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// One chip in 20 has more.
    pub high: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: usize| values[(values.len() - 1) * share / 100];
        Self { low: at(5), median: at(50), high: at(95) }
    }
}

/// How endurance differs between the blocks of a chip: lognormal around the rating.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Endurance {
    /// The rated number of erases.
    pub(super) rated: u32,
    /// The standard deviation of the logarithm.
    pub(super) sigma: f64,
}

/// Returns when the block with the number `index`, in the order in which they wear out, does so, in
/// days. `rates` are the erases of each block in a day; blocks that go on wear no faster for it.
pub(super) fn worn(rates: &[f64], endurance: Endurance, index: usize, seed: u64) -> Spread {
    let draw = |number| {
        let mut rng = Rng::new(seed, number);
        let mut life = |rate: &f64| {
            f64::from(endurance.rated) * (endurance.sigma * normal(&mut rng)).exp() / rate
        };
        let mut days: Vec<f64> = rates.iter().map(&mut life).collect();
        days.sort_by(f64::total_cmp);
        days[index.min(days.len() - 1)]
    };
    Spread::of((0..DRAWS).map(draw).collect())
}

/// Draws a number of the standard normal distribution: the sum of twelve even ones.
fn normal(rng: &mut Rng) -> f64 {
    #[allow(clippy::cast_precision_loss)] // 2^32 steps are enough
    let even = |rng: &mut Rng| (rng.next_u64() >> 32) as f64 / 4_294_967_296.0;
    (0..12).map(|_| even(rng)).sum::<f64>() - 6.0
}

/// Returns how long charge lasts at a temperature, given how long it does at another one; both in
/// degrees Celsius, times in any unit.
pub(super) fn retention(time: f64, rated: f64, at: f64) -> f64 {
    let (rated, at) = (rated + ZERO_CELSIUS, at + ZERO_CELSIUS);
    time * (ACTIVATION_EV / BOLTZMANN * (1.0 / at - 1.0 / rated)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is published for 1 year at 30 degrees: 500 hours at 52, 96 hours at 66.
    #[test]
    fn heat_shortens_retention_as_published() {
        let year = 365.25 * 24.0;
        for (celsius, published) in [(52.0, 500.0), (66.0, 96.0)] {
            let hours = retention(year, 30.0, celsius);
            assert!((hours / published - 1.0).abs() < 0.05, "{hours} at {celsius}");
        }
        assert!((retention(7.0, 40.0, 40.0) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn without_spread_the_most_worn_block_is_the_first() {
        let endurance = Endurance { rated: 1000, sigma: 0.0 };
        let rates = [1.0, 4.0, 2.0];
        for (index, days) in [(0, 250.0), (1, 500.0), (2, 1000.0), (9, 1000.0)] {
            let spread = worn(&rates, endurance, index, 1);
            assert_eq!(spread, Spread { low: days, median: days, high: days });
        }
    }

    /// The median of one block is its rating, and one in 20 lies 1.645 deviations below.
    #[test]
    fn endurance_is_lognormal_around_the_rating() {
        let spread = worn(&[1.0], Endurance { rated: 1000, sigma: 0.1 }, 0, 7);
        assert!((spread.median - 1000.0).abs() < 15.0, "{spread:?}");
        assert!(
            (spread.low - 848.0).abs() < 20.0 && (spread.high - 1179.0).abs() < 30.0,
            "{spread:?}"
        );
    }
}
