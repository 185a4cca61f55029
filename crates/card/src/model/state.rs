//! The state of the translation layer as bytes (docs/format/card.md 4).

use super::units::Units;
use super::{Model, Open};
use crate::counters::{COUNT, Counters};
use crate::parameters::Parameters;

/// Bytes of an open unit.
const OPEN_SIZE: u64 = 16;
/// A counter above this is no count of a card: adding to it must not overflow.
const COUNTER_MAX: u64 = 1 << 62;

/// Returns the largest size of a state.
pub(crate) fn max_size(parameters: &Parameters) -> u64 {
    let (units, physical) = (u64::from(parameters.units()), u64::from(parameters.physical_units()));
    let lists = 4 * (u64::from(parameters.fat_units) + 2 * physical + units);
    8 * COUNT as u64 + 8 + OPEN_SIZE * u64::from(parameters.open_units) + lists
}

impl Model {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out: Vec<u8> =
            self.counters.words().into_iter().flat_map(u64::to_le_bytes).collect();
        let mut words: Vec<u32> = vec![count(self.open.len()), count(self.units.free.len())];
        for open in &self.open {
            words.extend([open.unit, open.used, u32::from(open.in_order), open.log]);
        }
        words.extend(&self.fat_used);
        words.extend(&self.units.erases);
        words.extend(&self.units.content);
        words.extend(&self.units.free);
        out.extend(words.into_iter().flat_map(u32::to_le_bytes));
        out
    }

    /// Decodes a state; `None` if it is not one of a card with these parameters.
    pub(crate) fn decode(parameters: Parameters, payload: &[u8]) -> Option<Self> {
        let (counters, lists) = payload.split_at_checked(8 * COUNT)?;
        let mut words = [0; COUNT];
        for (word, bytes) in words.iter_mut().zip(counters.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        if !lists.len().is_multiple_of(4) || words.iter().any(|word| *word > COUNTER_MAX) {
            return None;
        }
        let mut input = lists.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok());
        let mut input = Words(input.by_ref().map(u32::from_le_bytes).collect(), 0);
        let [open_count, free_count] = *input.take(2)? else { return None };
        if open_count > parameters.open_units {
            return None;
        }
        let mut open = Vec::new();
        for _ in 0..open_count {
            let [unit, used, in_order, log] = *input.take(4)? else { return None };
            open.push(Open { unit, used, in_order: in_order != 0, log });
        }
        let fat_used = input.take(parameters.fat_units)?.to_vec();
        let units = Units {
            erases: input.take(parameters.physical_units())?.to_vec(),
            content: input.take(parameters.units())?.to_vec(),
            free: input.take(free_count)?.iter().copied().collect(),
        };
        let model = Self {
            open,
            fat_used,
            units,
            counters: Counters::of_words(words),
            last_unit: None,
            write_end: None,
            parameters,
        };
        (input.is_empty() && model.is_possible()).then_some(model)
    }

    /// Returns whether the invariants hold.
    fn is_possible(&self) -> bool {
        let all = self.parameters.unit_pages();
        let possible = |open: &Open| {
            let limit = if open.in_order { all } else { self.parameters.unordered_pages };
            let is_full = open.used >= limit;
            !is_full && (self.parameters.fat_units..self.parameters.units()).contains(&open.unit)
        };
        let mut is_open = vec![false; self.parameters.units() as usize];
        let mut is_used = vec![false; self.units.erases.len()];
        let logs = self.open.iter().map(|open| &open.log);
        let mut physical = self.units.content.iter().chain(&self.units.free).chain(logs);
        self.open.iter().all(possible)
            && self
                .open
                .iter()
                .all(|open| !std::mem::replace(&mut is_open[open.unit as usize], true))
            && self.fat_used.iter().all(|used| *used < all)
            && physical.all(|unit| {
                is_used.get_mut(*unit as usize).is_some_and(|used| !std::mem::replace(used, true))
            })
            && is_used.iter().all(|used| *used)
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Words and the number of those taken.
struct Words(Vec<u32>, usize);

impl Words {
    fn take(&mut self, count: u32) -> Option<&[u32]> {
        let end = self.1.checked_add(count as usize)?;
        let taken = self.0.get(self.1..end)?;
        self.1 = end;
        Some(taken)
    }

    fn is_empty(&self) -> bool {
        self.1 == self.0.len()
    }
}
