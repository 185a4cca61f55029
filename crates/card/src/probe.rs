//! What flashbench measures on a card, in virtual time: how fast alternate writes to several units
//! are, and how much longer reads take across a boundary.

use crate::card::Card;
use crate::error::CardError;
use crate::parameters::Parameters;

/// The time of alternate writes in blocks of one size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    /// Bytes of a block.
    pub block: u32,
    /// Megabytes a second.
    pub megabytes: f64,
    /// Seconds a block.
    pub seconds: f64,
}

/// What is written alternately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// Areas that are written at the same time.
    pub count: u32,
    /// Bytes of an area: the allocation unit, if it is known. A power of two.
    pub area: u32,
    /// Whether the blocks of an area follow in another order, the same for every area.
    pub random: bool,
    /// The size of the smallest block, at least 512.
    pub smallest: u32,
}

/// Areas from one that is written to the next.
const APART: u64 = 12;
/// Bytes at the start of the card that are left alone.
const SKIPPED: u64 = 16 << 20;

/// Writes whole areas alternately, a block of each in turn: first in blocks as large as an area,
/// then in blocks of half the size, down to the smallest.
///
/// # Errors
///
/// Fails with [`CardError::Parameter`] if such a card cannot exist.
#[allow(clippy::cast_precision_loss)] // figures for people
pub fn open_units(parameters: &Parameters, pattern: &Pattern) -> Result<Vec<Rate>, CardError> {
    let (area, count) = (u64::from(pattern.area), u64::from(pattern.count));
    let first = SKIPPED.next_multiple_of(area.max(1));
    let capacity = first + (APART * count + 1) * area;
    let card = Card::in_memory(parameters.clone().with_capacity(capacity))?;
    let mut rates = Vec::new();
    let mut block = pattern.area;
    while block >= pattern.smallest.max(512) {
        let before = card.counters().total_ns();
        let data = vec![0; block as usize];
        let blocks = u64::from(pattern.area / block);
        for turn in 0..blocks {
            let place = if pattern.random { blocks - 1 - (turn * 5) % blocks } else { turn };
            for number in 0..count {
                let at = first + APART * number * area + place * u64::from(block);
                card.write(at, &data)?;
            }
        }
        let seconds = (card.counters().total_ns() - before) as f64 / 1e9;
        let writes = (blocks * count) as f64;
        let megabytes = writes * f64::from(block) / seconds / 1e6;
        rates.push(Rate { block, megabytes, seconds: seconds / writes });
        block /= 2;
    }
    Ok(rates)
}

/// Returns the nanoseconds that a read of `length` bytes takes longer if it crosses a multiple of
/// `alignment` that is no multiple of twice that.
///
/// # Errors
///
/// Fails with [`CardError::Parameter`] if such a card cannot exist.
pub fn boundary_ns(parameters: &Parameters, alignment: u64, length: u32) -> Result<u64, CardError> {
    let card = Card::in_memory(parameters.clone().with_capacity(4 * alignment + SKIPPED))?;
    let mut data = vec![0; length as usize];
    let half = u64::from(length) / 2;
    let mut time = |at: u64| -> Result<u64, CardError> {
        let before = card.counters().total_ns();
        card.read(at, &mut data)?;
        Ok(card.counters().total_ns() - before)
    };
    Ok(time(alignment - half)?.saturating_sub(time(alignment)?))
}
