//! The match finder of the dense encoders. For every position of a block it finds the longest
//! earlier match, the longest nearby match, and the nearest two equal bytes.
//!
//! Blocks are small and the encoders price every position, so the search is shallow. A position is
//! compared with the last three or, if deep, four positions with the same four bytes, and with the
//! last one or two with the same six, all at once and without branches. It also inherits the
//! matches of the previous position.
//!
//! # Invariants
//! 1. A block does not affect the next one: the tables are cleared before each block, or their
//!    entries are farther back than the start of the block.
//! 2. A match lies inside the block and starts earlier than its position.
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions, lengths and hashes are cut on purpose"
)]

use std::hint::select_unpredictable;

use crate::text::{MAX_BLOCK, POSITIONS, Text, zeroed};

/// No earlier position: greater than every position, so never a match.
const NONE: u16 = u16::MAX;

/// Returns the length from which a match is not improved; the following positions inherit it.
const fn long_enough(deep: bool) -> u32 {
    if deep { 16 } else { 12 }
}

/// Number of bytes for which the first comparison of two positions is exact.
const LOOK: u32 = 8;

const BITS_3: u32 = 11;
const BITS_4: u32 = 11;
const BITS_6: u32 = 11;

/// A match as one number that orders by length, then by shorter distance; 0 is no match.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Match(u32);

impl Match {
    const fn new(len: u32, distance: u16) -> Self {
        Self((len << 16) | !distance as u32)
    }

    /// Returns the number of bytes that match; 0 if there is no match.
    #[inline(always)]
    pub(crate) const fn len(self) -> u32 {
        self.0 >> 16
    }

    /// Returns the distance of the match.
    #[inline(always)]
    pub(crate) const fn distance(self) -> u16 {
        !(self.0 as u16)
    }

    /// Returns the same match for the next position.
    #[inline(always)]
    const fn next(self) -> Self {
        Self(self.0.saturating_sub(1 << 16))
    }

    /// Returns the match when `limit` bytes are left in the block.
    #[inline(always)]
    fn capped(self, limit: u32) -> Self {
        if self.len() <= limit { self } else { Self((limit << 16) | (self.0 & 0xFFFF)) }
    }

    /// Returns the match, or no match if it has less than three bytes.
    #[inline(always)]
    fn worthwhile(self) -> Self {
        select_unpredictable(self.0 >= 3 << 16, self, Self(0))
    }
}

/// The matches found at one position.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Found {
    /// The longest match at a distance of at most `NEAR`; its length is exact up to [`LOOK`] only.
    pub(crate) near: Match,
    /// The longest match at a distance of at most `FAR`.
    pub(crate) far: Match,
    /// Distance of the nearest two equal bytes, at most 1024, or 0.
    pub(crate) pair: u16,
}

/// The finder with its tables.
#[derive(Debug)]
pub(crate) struct Finder<const NEAR: u16, const FAR: u16, const DEEP: bool> {
    /// The last position of two bytes, counted from when the table was last cleared.
    pairs: Box<[u16; POSITIONS]>,
    /// The start of the block, counted in the same way.
    start: u16,
    last_3: Box<[u16; 1 << BITS_3]>,
    last_4: Box<[u64; 1 << BITS_4]>,
    last_6: Box<[u32; 1 << BITS_6]>,
    found: Box<[Found; POSITIONS]>,
}

/// The earlier positions with which one position is compared.
struct Candidates {
    third: u16,
    four: u64,
    six: u32,
}

impl Candidates {
    #[inline(always)]
    fn each<const DEEP: bool>(&self, mut visit: impl FnMut(u16)) {
        visit(self.four as u16);
        visit((self.four >> 16) as u16);
        visit((self.four >> 32) as u16);
        visit(self.six as u16);
        if DEEP {
            visit((self.four >> 48) as u16);
            visit((self.six >> 16) as u16);
        }
    }
}

impl<const NEAR: u16, const FAR: u16, const DEEP: bool> Finder<NEAR, FAR, DEEP> {
    /// Longest distance of a reported pair.
    pub(crate) const PAIR: u16 = 1024;

    pub(crate) fn new() -> Self {
        let mut pairs = zeroed();
        pairs.fill(NONE);
        Self {
            pairs,
            start: 0,
            last_3: zeroed(),
            last_4: zeroed(),
            last_6: zeroed(),
            found: zeroed(),
        }
    }

    /// Returns the matches found, by position.
    #[inline(always)]
    pub(crate) fn found(&self) -> &[Found; POSITIONS] {
        &self.found
    }

    /// Finds the matches in `text`, a block of at most [`MAX_BLOCK`] bytes.
    pub(crate) fn find(&mut self, text: &Text) {
        self.last_3.fill(NONE);
        self.last_4.fill(u64::MAX);
        self.last_6.fill(u32::MAX);
        let len = text.block().len();
        assert!(len <= MAX_BLOCK, "the caller refuses larger blocks");
        self.make_room_for_pairs(len as u16);
        let (mut near, mut far) = (Match::default(), Match::default());
        for at in 0..len as u16 {
            let limit = (len as u16).wrapping_sub(at);
            let here = text.load8(at);
            let pair = self.pair(here, at, limit);
            let candidates = self.enter(here, at);
            near = near.next();
            far = far.next();
            if far.len() < long_enough(DEEP) {
                (near, far) = look::<DEEP>(text, at, here, &candidates, near, far, NEAR, FAR);
                if u32::from(limit) < LOOK {
                    near = near.capped(u32::from(limit));
                    far = far.capped(u32::from(limit));
                }
            }
            near = select_unpredictable(far.distance() <= NEAR, near.max(far), near);
            let (near, far) = (near.worthwhile(), far.worthwhile());
            self.found[usize::from(at)] = Found { near, far, pair };
        }
        self.start = self.start.wrapping_add(len as u16);
    }

    #[inline(always)]
    fn pair(&mut self, here: u64, at: u16, limit: u16) -> u16 {
        let last = &mut self.pairs[usize::from(here as u16)];
        let place = self.start.wrapping_add(at);
        let back = place.wrapping_sub(*last);
        *last = place;
        if back <= Self::PAIR.min(at) && limit >= 2 { back } else { 0 }
    }

    /// Enters a position into the tables and returns the previous entries.
    #[inline(always)]
    fn enter(&mut self, here: u64, at: u16) -> Candidates {
        const PRIME: u64 = 0x9E37_79B1_85EB_CA87;
        let word = here as u32;
        let third =
            &mut self.last_3[((word << 8).wrapping_mul(PRIME as u32) >> (32 - BITS_3)) as usize];
        let four = &mut self.last_4[(word.wrapping_mul(PRIME as u32) >> (32 - BITS_4)) as usize];
        let six = &mut self.last_6[((here << 16).wrapping_mul(PRIME) >> (64 - BITS_6)) as usize];
        let candidates = Candidates { third: *third, four: *four, six: *six };
        *third = at;
        *four = (*four << 16) | u64::from(at);
        *six = (*six << 16) | u32::from(at);
        candidates
    }

    /// Clears the table of pairs when the positions of a block of `len` bytes would overflow. The
    /// table is too large to be cleared for each block. It need not be: entries of earlier blocks
    /// are farther back than the start of this one, and therefore refused.
    fn make_room_for_pairs(&mut self, len: u16) {
        // The last position must not be NONE.
        if self.start > NONE - len {
            self.pairs.fill(NONE);
            self.start = 0;
        }
    }
}

/// Returns the greater of two matches without a branch, because the result is unpredictable.
#[inline(always)]
fn greater(a: Match, b: Match) -> Match {
    select_unpredictable(a >= b, a, b)
}

/// Improves on the inherited matches `near` and `far`.
#[expect(clippy::too_many_arguments, reason = "everything is in registers")]
#[inline(always)]
fn look<const DEEP: bool>(
    text: &Text,
    at: u16,
    here: u64,
    candidates: &Candidates,
    mut near: Match,
    mut far: Match,
    near_limit: u16,
    far_limit: u16,
) -> (Match, Match) {
    let near_limit = near_limit.min(at);
    let far_limit = far_limit.min(at);
    let compare = |candidate: u16, limit: u16| {
        let back = at.wrapping_sub(candidate);
        let len = (text.load8(candidate) ^ here).trailing_zeros() / 8;
        select_unpredictable(back <= limit, Match::new(len, back), Match::default())
    };
    if far.len() < LOOK {
        let third = compare(candidates.third, far_limit);
        far = greater(far, third);
        candidates.each::<DEEP>(|candidate| far = greater(far, compare(candidate, far_limit)));
        if far.distance() > near_limit && far.len() > 2 {
            near = near.max(compare(candidates.third, near_limit));
            candidates
                .each::<DEEP>(|candidate| near = greater(near, compare(candidate, near_limit)));
        }
    }
    if far.len() >= LOOK {
        candidates.each::<DEEP>(|candidate| {
            far = far.max(extend(text, at, here, candidate, far, far_limit));
        });
    }
    (near, far)
}

/// Returns the whole length of a match, if it is longer than `best`.
#[inline(always)]
fn extend(text: &Text, at: u16, here: u64, candidate: u16, best: Match, far_limit: u16) -> Match {
    let back = at.wrapping_sub(candidate);
    let tail = (best.len() as u16).wrapping_sub(LOOK as u16 - 1);
    let promising = back <= far_limit
        && text.load8(candidate.wrapping_add(tail)) == text.load8(at.wrapping_add(tail))
        && text.load8(candidate) == here;
    if promising {
        let limit = (text.block().len() as u16).wrapping_sub(at);
        return Match::new(u32::from(text.common(candidate, at, LOOK as u16, limit)), back);
    }
    Match::default()
}
