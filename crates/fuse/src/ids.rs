//! Owners and groups in the image and on the host.
//!
//! # Invariants
//! 1. Without ranges every id is mapped to itself.
//! 2. With ranges, `stored` is the inverse of `shown`, except for ids that `shown` maps to 65534
//!    because no range covers them; ids without a range cannot be stored.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The owner on the host of files whose owner no range covers.
pub(crate) const NOBODY: u32 = 65_534;

/// A mapping of `count` ids from `inside` in the image to ids from `outside` on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdRange {
    /// First id in the image.
    pub inside: u32,
    /// First id on the host.
    pub outside: u32,
    /// The number of ids; at least 1.
    pub count: u32,
}

/// An invalid range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdMapError {
    text: String,
}

impl fmt::Display for IdMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text } = self;
        write!(
            f,
            "`{text}` is not a range of ids: expected INSIDE:OUTSIDE or INSIDE:OUTSIDE:COUNT, all below 2^32"
        )
    }
}

impl Error for IdMapError {}

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

/// Ranges of one kind of id; the first that covers an id is used.
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
    /// Returns the id on the host for an id in the image.
    pub fn shown(&self, id: u32) -> u32 {
        if self.ranges.is_empty() {
            return id;
        }
        let mut ranges = self.ranges.iter();
        ranges.find_map(|r| through(id, r.inside, r.outside, r.count)).unwrap_or(NOBODY)
    }

    /// Returns the id in the image for an id on the host, or `None` if no range covers it.
    pub fn stored(&self, id: u32) -> Option<u32> {
        if self.ranges.is_empty() {
            return Some(id);
        }
        self.ranges.iter().find_map(|r| through(id, r.outside, r.inside, r.count))
    }
}

/// The maps of users and groups.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IdMaps {
    /// The map of users.
    pub uid: IdMap,
    /// The map of groups.
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
