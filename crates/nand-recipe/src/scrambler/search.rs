//! The scrambler of a dump, from stretches of constant bytes: there the stored bits are the output of
//! the register itself, or its complement, and Berlekamp-Massey finds the register.

use super::Scrambler;
use crate::bits::BitRange;
use crate::polynomial::{is_irreducible, shortest_register};
use crate::sample::Page;
use std::collections::BTreeMap;
use std::fmt;

/// Bytes in a window: a register of at most a third of its bits is no accident, since random bits
/// need one of half as many.
const WINDOW: usize = 16;
/// Lengths of registers; shorter ones are patterns of data.
const LENGTHS: std::ops::RangeInclusive<u32> = 9..=31;
/// Pages that must agree.
const AGREEING: usize = 4;
/// Windows of a page that say with which state it begins.
const VOTES: usize = 5;
/// Pages that are searched.
const SEARCHED: usize = 400;

/// A register, and the states that pages begin with.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    width: u32,
    taps: u32,
    seeds: Vec<u32>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.seeds.iter().filter(|seed| **seed != 0).count();
        let Self { width, taps, seeds } = self;
        write!(
            f,
            "pages are scrambled by a register of {width} bits, taps {taps:#x}; {known} of {} seeds are known",
            seeds.len()
        )
    }
}

impl Found {
    /// Returns the scrambler for raw pages of `raw` bytes.
    pub(crate) fn scrambler(&self, raw: u32) -> Scrambler {
        Scrambler {
            width: self.width,
            taps: self.taps,
            skip: 0,
            seeds: self.seeds.clone(),
            covers: vec![BitRange::bytes(0, raw)],
        }
    }
}

/// A register as its length and the bits of the state that are fed back.
type Register = (u32, u32);

/// Searches pages for a register that covers them from their first byte.
pub(crate) fn find(pages: &[Page]) -> Option<Found> {
    let step = pages.len().div_ceil(SEARCHED).max(1);
    let mut votes: BTreeMap<Register, usize> = BTreeMap::new();
    for page in pages.iter().step_by(step) {
        let mut own: Vec<Register> =
            page.raw.chunks_exact(WINDOW).filter_map(register_of).collect();
        own.sort_unstable();
        own.dedup();
        for register in own {
            *votes.entry(register).or_default() += 1;
        }
    }
    let (register, count) = votes.into_iter().max_by_key(|(_, count)| *count)?;
    if count < AGREEING {
        return None;
    }
    let states = states(pages, register);
    let seeds = period(&states)?;
    Some(Found { width: register.0, taps: register.1, seeds })
}

fn bits_of(window: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(window);
    u128::from_le_bytes(bytes)
}

/// Returns the register that makes a window or its complement.
fn register_of(window: &[u8]) -> Option<Register> {
    let bits = bits_of(window);
    let count = 8 * u32::try_from(WINDOW).ok()?;
    for bits in [bits, !bits] {
        let Some((length, feedback)) = shortest_register(bits, count, *LENGTHS.end()) else {
            continue;
        };
        if length < *LENGTHS.start() {
            continue;
        }
        // Bit i of the feedback belongs to the bit i + 1 places before the next one.
        let taps = (0..length).fold(0_u32, |taps, place| {
            taps | u32::from(feedback >> place & 1 == 1) << (length - 1 - place)
        });
        if is_irreducible(1 << length | u64::from(taps)) {
            return Some((length, taps));
        }
    }
    None
}

/// Returns the state that each page begins with, where windows of it agree.
fn states(pages: &[Page], register: Register) -> BTreeMap<u64, u32> {
    let mut states = BTreeMap::new();
    for page in pages {
        let mut votes: BTreeMap<u32, usize> = BTreeMap::new();
        let windows = page.raw.chunks_exact(WINDOW).enumerate();
        let known =
            windows.filter_map(|(index, window)| Some((index, state_of(window, register)?)));
        for (index, state) in known.take(VOTES) {
            let back = index * WINDOW * 8;
            *votes.entry(rewound(state, back, register)).or_default() += 1;
        }
        let total: usize = votes.values().sum();
        if let Some((state, count)) = votes.into_iter().max_by_key(|(_, count)| *count)
            && count * 2 > total
        {
            states.insert(page.number, state);
        }
    }
    states
}

/// Returns the state at the start of a window that the register makes, itself or its complement.
fn state_of(window: &[u8], (length, taps): Register) -> Option<u32> {
    let bits = bits_of(window);
    let mask = (1_u128 << length) - 1;
    let end = 8 * u32::try_from(WINDOW).ok()? - length;
    [bits, !bits].into_iter().find_map(|bits| {
        let holds = (0..end).all(|at| {
            let feedback = (bits >> at & u128::from(taps)).count_ones() & 1;
            u128::from(feedback) == bits >> (at + length) & 1
        });
        let state = u32::try_from(bits & mask).ok()?;
        (holds && state != 0).then_some(state)
    })
}

/// Returns the state `steps` steps before.
fn rewound(mut state: u32, steps: usize, (length, taps): Register) -> u32 {
    for _ in 0..steps {
        // The bit that was shifted out is the part of the feedback that the others do not explain.
        let feedback = state >> (length - 1) & 1;
        let rest = (state << 1) & ((1 << length) - 1);
        let known = (rest & taps).count_ones() & 1;
        state = rest | (feedback ^ known);
    }
    state
}

/// Returns the seeds by page, for the smallest period in which the known states agree.
fn period(states: &BTreeMap<u64, u32>) -> Option<Vec<u32>> {
    let powers = (0..=12).map(|power| 1_usize << power);
    for period in powers {
        let mut seeds: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); period];
        for (page, state) in states {
            let index = usize::try_from(page % period as u64).ok()?;
            *seeds[index].entry(*state).or_default() += 1;
        }
        let best = |votes: &BTreeMap<u32, usize>| {
            votes
                .iter()
                .max_by_key(|(_, count)| **count)
                .map_or((0, 0), |(seed, count)| (*seed, *count))
        };
        let agreeing: usize = seeds.iter().map(|votes| best(votes).1).sum();
        // As many votes as seeds would prove nothing.
        let is_repeated = states.len() >= 2 * period.min(states.len() / 2).max(1);
        if is_repeated && agreeing * 20 >= states.len() * 19 && states.len() > period {
            return Some(seeds.iter().map(|votes| best(votes).0).collect());
        }
    }
    None
}
