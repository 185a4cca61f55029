//! Directory cookies: the position at which a listing continues, even if the directory was changed
//! in between.
//!
//! # Invariants
//! 1. The cookie of an entry is its hash in the upper half and a tag derived from its name in the
//!    lower, so it is the same on every mount and independent of other names.
//! 2. Entries of one hash are listed in the order of their tags. If two names share hash and tag,
//!    or a hash has more than [`MOST`] names, the tag is one more than the previous one.
//! 3. No tag is 0: a cookie with tag 0 precedes all entries of its hash.

use crate::tnc::OwnedDent;
use eraseblock_base::crc::crc32;
use eraseblock_ubifs_format::key::VALUE_MASK;
use std::ops::ControlFlow;

/// Number of entries of one hash that are sorted.
const MOST: usize = 1 << 16;
/// Leaves space for tags that are one more than the previous one.
const TAG_MASK: u32 = u32::MAX >> 1;

/// Receives entries with their cookies, until it breaks.
pub(crate) type Sink<'a> = dyn FnMut(OwnedDent, u64) -> ControlFlow<()> + 'a;

fn tag(name: &[u8]) -> u32 {
    (crc32(name) & TAG_MASK).max(1)
}

/// Returns the hash at which a listing after a cookie begins, if it can contain anything.
pub(crate) fn first_hash(cookie: u64) -> Option<u32> {
    u32::try_from(cookie >> 32).ok().filter(|hash| *hash <= VALUE_MASK)
}

/// Sorts the entries of a directory, which come in key order, by their cookies. It must be given
/// all entries of the hash at which it begins.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Entries up to this cookie are left out.
    behind: u64,
    hash: u32,
    /// The last tag of this hash.
    last: u32,
    group: Vec<OwnedDent>,
}

impl Listing {
    pub(crate) fn behind(cookie: u64) -> Self {
        Self { behind: cookie, hash: 0, last: 0, group: Vec::new() }
    }

    /// Takes an entry; passes on those before it if they had another hash.
    pub(crate) fn add(&mut self, dent: OwnedDent, sink: &mut Sink<'_>) -> ControlFlow<()> {
        let hash = dent.key.value();
        if hash != self.hash || self.group.len() == MOST {
            self.give_rest(sink)?;
        }
        if hash != self.hash {
            (self.hash, self.last) = (hash, 0);
        }
        self.group.push(dent);
        ControlFlow::Continue(())
    }

    /// Passes on the remaining entries; nothing after a break.
    pub(crate) fn give_rest(&mut self, sink: &mut Sink<'_>) -> ControlFlow<()> {
        if self.group.len() > 1 {
            self.group.sort_by_cached_key(|dent| tag(&dent.name));
        }
        for dent in self.group.drain(..) {
            self.last = tag(&dent.name).max(self.last.saturating_add(1));
            let cookie = u64::from(self.hash) << 32 | u64::from(self.last);
            if cookie > self.behind {
                sink(dent, cookie)?;
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_ubifs_format::{EntryKind, Key};

    fn dent(hash: u32, name: &str) -> OwnedDent {
        let (key, name) = (Key::dent(1, hash), name.as_bytes().to_vec());
        OwnedDent { key, ino: 65, kind: EntryKind::Regular, cookie: 0, name }
    }

    fn listed(dents: &[OwnedDent], cookie: u64) -> Vec<(Vec<u8>, u64)> {
        let (mut listing, mut all) = (Listing::behind(cookie), Vec::new());
        let mut sink = |dent: OwnedDent, cookie| {
            all.push((dent.name, cookie));
            ControlFlow::Continue(())
        };
        for dent in dents {
            assert!(listing.add(dent.clone(), &mut sink).is_continue());
        }
        assert!(listing.give_rest(&mut sink).is_continue());
        all
    }

    // tests I1
    #[test]
    fn what_comes_and_goes_moves_no_other_entry() {
        let dents: Vec<OwnedDent> =
            (0..40).map(|number| dent(5 + number / 15, &format!("name {number}"))).collect();
        let all = listed(&dents, 0);
        assert!(all.is_sorted_by_key(|(_, cookie)| *cookie));
        for gone in &dents {
            let rest: Vec<OwnedDent> =
                dents.iter().filter(|dent| dent.name != gone.name).cloned().collect();
            for (at, (_, cookie)) in all.iter().enumerate() {
                let expected: Vec<_> =
                    all[at + 1..].iter().filter(|(name, _)| *name != gone.name).cloned().collect();
                assert_eq!(listed(&rest, *cookie), expected);
            }
        }
    }

    // tests I2
    #[test]
    fn cookies_are_unique_and_ascend_whatever_the_names() {
        let twins: Vec<OwnedDent> = std::iter::repeat_n(dent(7, "twin"), MOST + 10).collect();
        let all = listed(&twins, 0);
        assert_eq!(all.len(), twins.len());
        assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].1));
        assert_eq!(listed(&twins, all[MOST + 5].1).len(), 4);
    }

    #[test]
    fn no_hash_has_more_than_29_bits() {
        assert_eq!(first_hash(u64::from(VALUE_MASK) << 32 | 9), Some(VALUE_MASK));
        assert_eq!(first_hash((u64::from(VALUE_MASK) + 1) << 32), None);
        assert_eq!(first_hash(u64::MAX), None);
    }
}
