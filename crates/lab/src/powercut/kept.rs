//! Which operations of a sequence happen: `1-3,9` are the first three and the ninth.

use std::fmt;

/// Operations of a sequence by number, counted from 1. The others are left out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kept {
    /// First and last number of each range; ranges ascend and neither touch nor overlap.
    ranges: Vec<(u32, u32)>,
}

impl Kept {
    /// Returns the ranges of these numbers, which ascend.
    pub fn of(numbers: impl IntoIterator<Item = u32>) -> Self {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((_, last)) if number == *last + 1 => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        Self { ranges }
    }

    /// Returns all operations up to this one.
    pub fn until(last: u32) -> Self {
        Self { ranges: vec![(1, last)] }
    }

    /// Returns whether this operation happens.
    pub fn contains(&self, number: u32) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }

    /// Returns the number of the last operation that happens, 0 if none does.
    pub fn last(&self) -> u32 {
        self.ranges.last().map_or(0, |(_, last)| *last)
    }

    /// Returns the numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Reads what `Display` writes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        let ranges: Vec<(u32, u32)> = text.split(',').map(range).collect::<Option<_>>()?;
        let mut before = 0;
        for (first, last) in &ranges {
            if *first <= before || last < first {
                return None;
            }
            before = *last;
        }
        Some(Self { ranges })
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{first}")?;
            if first != last {
                write!(f, "-{last}")?;
            }
        }
        Ok(())
    }
}
