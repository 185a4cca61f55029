//! Owners and groups as the image has them, and as the host sees them.
//!
//! # Invariants
//! 1. Without ranges every number is itself.
//! 2. With ranges, `stored` is the inverse of `shown` wherever `shown` is not `NOBODY` for want
//!    of a range; what no range covers cannot be stored.

use std::str::FromStr;

/// What the host sees of owners that no range covers.
pub(crate) const NOBODY: u32 = 65_534;

/// `count` numbers from `inside` on in the image are numbers from `outside` on at the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdRange {
    /// First number in the image.
    pub inside: u32,
    /// First number at the host.
    pub outside: u32,
    /// How many; at least 1.
    pub count: u32,
}

/// Why a range makes no sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{text}` is no range of ids: expected INSIDE:OUTSIDE or INSIDE:OUTSIDE:COUNT, all below 2^32"
)]
pub struct IdMapError {
    text: String,
}

impl FromStr for IdRange {
    type Err = IdMapError;

    fn from_str(text: &str) -> Result<Self, IdMapError> {
        let wrong = || IdMapError { text: text.to_owned() };
        let numbers: Result<Vec<u32>, _> = text.split(':').map(u32::from_str).collect();
        let range = match numbers.map_err(|_| wrong())?.as_slice() {
            [inside, outside] => Self { inside: *inside, outside: *outside, count: 1 },
            [inside, outside, count] => Self { inside: *inside, outside: *outside, count: *count },
            _ => return Err(wrong()),
        };
        let fits = |first: u32| range.count > 0 && first.checked_add(range.count - 1).is_some();
        if fits(range.inside) && fits(range.outside) { Ok(range) } else { Err(wrong()) }
    }
}

/// Ranges of one kind of id; the first that covers a number decides.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdMap {
    /// The ranges.
    pub ranges: Vec<IdRange>,
}

fn through(id: u32, from: u32, to: u32, count: u32) -> Option<u32> {
    let step = id.checked_sub(from).filter(|step| *step < count)?;
    Some(to + step)
}

impl IdMap {
    /// What the host sees of a number in the image.
    pub fn shown(&self, id: u32) -> u32 {
        if self.ranges.is_empty() {
            return id;
        }
        let mut ranges = self.ranges.iter();
        ranges.find_map(|r| through(id, r.inside, r.outside, r.count)).unwrap_or(NOBODY)
    }

    /// What the image keeps of a number at the host; `None` if no range covers it.
    pub fn stored(&self, id: u32) -> Option<u32> {
        if self.ranges.is_empty() {
            return Some(id);
        }
        self.ranges.iter().find_map(|r| through(id, r.outside, r.inside, r.count))
    }
}

/// The maps of owners and of groups.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdMaps {
    /// Of owners.
    pub uid: IdMap,
    /// Of groups.
    pub gid: IdMap,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(texts: &[&str]) -> IdMap {
        IdMap { ranges: texts.iter().map(|text| text.parse().unwrap()).collect() }
    }

    #[test]
    fn without_ranges_nothing_changes() {
        assert_eq!((map(&[]).shown(7), map(&[]).stored(7)), (7, Some(7)));
    }

    #[test]
    fn ranges_go_both_ways() {
        let map = map(&["0:1000", "100:2000:50"]);
        assert_eq!((map.shown(0), map.stored(1000)), (1000, Some(0)));
        assert_eq!((map.shown(149), map.stored(2049)), (2049, Some(149)));
        assert_eq!((map.shown(150), map.stored(2050)), (NOBODY, None));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "1", "1:2:0", "a:b", "1:2:3:4", "4294967295:0:2", "-1:0"] {
            assert!(text.parse::<IdRange>().is_err(), "{text}");
        }
    }
}
