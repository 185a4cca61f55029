//! A loaded inode: attributes, the map of its content, its names (spec: jffs2 8).
//!
//! Layer: data, above `dents`.
//!
//! # Invariants
//! 1. Fragments do not overlap; between them is a hole without a node.
//! 2. `counts` says for each node how many fragments it has; a node without any is not in it.
//! 3. A directory's `dents` hold live DIRENT nodes, deletions (inode 0) among them.

use super::dents::Dents;
use crate::damage::Range;
use eraseblock_jffs2_format::Inode;
use eraseblock_vfs::{FsError, FsErrorKind, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// Bytes of a page of a file: no data node crosses its end (spec: jffs2 8.5).
pub(crate) const PAGE: u32 = 4096;

/// Type bits of a mode.
const TYPE_BITS: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
const CHAR_DEVICE: u32 = 0o020_000;
const BLOCK_DEVICE: u32 = 0o060_000;

/// Approximate memory of a loaded inode with almost no content, and of a fragment, as allocated.
const SMALLEST: usize = 640;
const FRAGMENT: usize = 48;

/// Returns a time as stored in nodes.
pub(crate) fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.seconds.max(0)).unwrap_or(u32::MAX)
}

/// Returns an owner as stored in nodes.
pub(crate) fn id16(id: u32) -> Result<u16, FsError> {
    u16::try_from(id).map_err(|_| {
        FsError::new(FsErrorKind::Invalid, format!("owner {id}: JFFS2 has 16 bits for it"))
    })
}

/// The fields that every INODE node repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) uid: u16,
    pub(crate) gid: u16,
    /// Bytes of a file or of a link's target; 0 for everything else.
    pub(crate) size: u32,
    pub(crate) atime: u32,
    pub(crate) mtime: u32,
    pub(crate) ctime: u32,
}

impl Attributes {
    /// Returns those that a node repeats.
    pub(crate) fn of(node: &Inode) -> Self {
        let Inode { mode, uid, gid, isize: size, atime, mtime, ctime, .. } = *node;
        Self { mode, uid, gid, size, atime, mtime, ctime }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.mode & TYPE_BITS == DIRECTORY
    }

    pub(crate) fn is_regular(&self) -> bool {
        self.mode & TYPE_BITS == REGULAR
    }

    /// Returns whether the one node of the inode has a payload that is not file content.
    pub(crate) fn has_payload(&self) -> bool {
        matches!(self.mode & TYPE_BITS, SYMLINK | CHAR_DEVICE | BLOCK_DEVICE)
    }

    /// Returns the type as DIRENT nodes have it.
    pub(crate) fn file_type(&self) -> u8 {
        ((self.mode & TYPE_BITS) >> 12) as u8
    }
}

/// Where the content of a fragment comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The node at this place.
    Data(u32),
    /// The node at this place, which is a hole: nothing must be read.
    Hole(u32),
    /// The node at this place, which is damaged: nothing can be read.
    Lost(u32),
    /// No known node, although damaged ones may hold it: nothing can be read.
    Unknown,
}

impl Source {
    /// Returns the place of the node, if one is known.
    pub(crate) fn place(self) -> Option<u32> {
        match self {
            Self::Data(place) | Self::Hole(place) | Self::Lost(place) => Some(place),
            Self::Unknown => None,
        }
    }

    fn place_mut(&mut self) -> Option<&mut u32> {
        match self {
            Self::Data(place) | Self::Hole(place) | Self::Lost(place) => Some(place),
            Self::Unknown => None,
        }
    }
}

/// A range of a file, up to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fragment {
    pub(crate) end: u32,
    /// `None` for a hole without a node.
    pub(crate) source: Option<Source>,
}

impl Fragment {
    /// Returns the place of its node, if one is known.
    pub(crate) fn place(&self) -> Option<u32> {
        self.source.and_then(Source::place)
    }

    /// Returns whether it reads as zeros.
    pub(crate) fn is_hole(&self) -> bool {
        matches!(self.source, None | Some(Source::Hole(_)))
    }
}

/// The map of a file's content.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    map: BTreeMap<u32, Fragment>,
    counts: HashMap<u32, Count>,
}

/// The number of fragments of a node, and an offset before which it has none.
#[derive(Clone, Copy, Debug)]
struct Count {
    count: u32,
    from: u32,
}

impl Fragments {
    fn insert(&mut self, start: u32, fragment: Fragment) {
        if let Some(place) = fragment.place() {
            let entry = self.counts.entry(place).or_insert(Count { count: 0, from: start });
            entry.count += 1;
            entry.from = entry.from.min(start);
        }
        self.map.insert(start, fragment);
    }

    /// Removes a fragment; adds its node to `gone` if that was its last one.
    fn remove(&mut self, start: u32, gone: &mut Vec<u32>) -> Option<Fragment> {
        let fragment = self.map.remove(&start)?;
        if let Some(place) = fragment.place()
            && let Some(count) = self.counts.get_mut(&place)
        {
            count.count -= 1;
            if count.count == 0 {
                self.counts.remove(&place);
                gone.push(place);
            }
        }
        Some(fragment)
    }

    /// Overwrites a range. Returns the nodes that have no fragments left.
    pub(crate) fn lay(&mut self, range: Range, source: Option<Source>) -> Vec<u32> {
        let Range { start, end } = range;
        let mut gone = Vec::new();
        if start >= end {
            return gone;
        }
        let before = self.map.range(..start).next_back().map(|(at, fragment)| (*at, fragment.end));
        if let Some((at, _)) = before.filter(|before| before.1 > start) {
            self.cover(at, start, end, &mut gone);
        }
        while let Some(at) = self.map.range(start..end).next().map(|(at, _)| *at) {
            self.cover(at, start, end, &mut gone);
        }
        self.insert(start, Fragment { end, source });
        gone.retain(|place| !self.counts.contains_key(place));
        gone
    }

    /// Removes [start, end) from the fragment at `at`.
    fn cover(&mut self, at: u32, start: u32, end: u32, gone: &mut Vec<u32>) {
        let Some(old) = self.remove(at, gone) else { return };
        if at < start {
            self.insert(at, Fragment { end: start, source: old.source });
        }
        if old.end > end {
            self.insert(end, Fragment { end: old.end, source: old.source });
        }
    }

    /// Removes everything from `size`. Returns the nodes that have no fragments left.
    pub(crate) fn cut(&mut self, size: u32) -> Vec<u32> {
        let gone = self.lay(Range { start: size, end: u32::MAX }, None);
        self.map.remove(&size);
        gone
    }

    /// Returns the end of the last fragment.
    pub(crate) fn end(&self) -> u32 {
        self.map.last_key_value().map_or(0, |(_, fragment)| fragment.end)
    }

    /// Returns the fragments that end after `offset`, in order.
    pub(crate) fn from(&self, offset: u32) -> impl Iterator<Item = (u32, Fragment)> + '_ {
        let first = self.map.range(..=offset).next_back().map_or(offset, |(at, _)| *at);
        let list = self.map.range((Bound::Included(first), Bound::Unbounded));
        list.map(|(start, fragment)| (*start, *fragment)).filter(move |part| part.1.end > offset)
    }

    /// Returns the fragment that ends at `end`.
    pub(crate) fn before(&self, end: u32) -> Option<(u32, Fragment)> {
        let (start, fragment) = self.map.range(..end).next_back()?;
        (fragment.end == end).then_some((*start, *fragment))
    }

    /// Returns the ranges that have a node.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.map.iter().map(|(start, fragment)| Range { start: *start, end: fragment.end })
    }

    /// Returns how many fragments a node has.
    pub(crate) fn count(&self, place: u32) -> u32 {
        self.counts.get(&place).map_or(0, |count| count.count)
    }

    /// Returns the first start and last end of the fragments of a node whose range starts at
    /// `from`.
    pub(crate) fn span(&self, from: u32, place: u32) -> Option<Range> {
        let mut left = self.count(place);
        let mut span: Option<Range> = None;
        for (start, fragment) in self.from(from) {
            if left == 0 {
                break;
            }
            if fragment.place() == Some(place) {
                let start = span.map_or(start, |span| span.start);
                span = Some(Range { start, end: fragment.end });
                left -= 1;
            }
        }
        span
    }

    /// Returns all nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.counts.keys().copied()
    }

    fn relocate(&mut self, old: u32, new: u32) {
        let Some(count) = self.counts.remove(&old) else { return };
        self.counts.insert(new, count);
        let sources = self.map.range_mut(count.from..).filter_map(|(_, it)| it.source.as_mut());
        let places = sources.filter_map(Source::place_mut).filter(|place| **place == old);
        for place in places.take(count.count as usize) {
            *place = new;
        }
    }
}

/// A loaded inode.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) attributes: Attributes,
    /// The node of attributes only, or the only node of a link or device.
    pub(crate) metadata: Option<u32>,
    /// A directory without a node of its own, so that no entry can set its times.
    pub(crate) is_made_up: bool,
    pub(crate) fragments: Fragments,
    pub(crate) dents: Dents,
    /// Device number.
    pub(crate) rdev: (u32, u32),
}

impl Loaded {
    /// Returns the approximate memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        SMALLEST + self.fragments.map.len() * FRAGMENT + self.dents.memory()
    }

    /// Updates the place of a node of the inode that has moved; `name` is that of a DIRENT node, if
    /// known.
    pub(crate) fn relocate(&mut self, old: u32, new: u32, name: Option<&[u8]>) {
        if let Some(place) = self.metadata.as_mut().filter(|place| **place == old) {
            *place = new;
        } else if self.attributes.is_directory() {
            self.dents.relocate(old, new, name);
        } else {
            self.fragments.relocate(old, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_map_of_fragments_is_what_an_array_would_be(
            steps in proptest::collection::vec((0_u32..60, 0_u32..30, any::<bool>()), 1..60)
        ) {
            let mut map = Fragments::default();
            let mut cells: Vec<Option<u32>> = Vec::new();
            for (number, (start, len, is_cut)) in (1..).zip(steps) {
                let end = start + len;
                let before: std::collections::BTreeSet<u32> = cells.iter().flatten().copied().collect();
                let gone = if is_cut {
                    cells.truncate(start as usize);
                    map.cut(start)
                } else if len == 0 {
                    // An empty range has no fragment: its node is in no part of the file.
                    map.lay(Range { start, end }, Some(Source::Data(number * 4)))
                } else {
                    cells.resize(cells.len().max(end as usize), None);
                    cells[start as usize..end as usize].fill(Some(number * 4));
                    map.lay(Range { start, end }, Some(Source::Data(number * 4)))
                };
                let after: std::collections::BTreeSet<u32> = cells.iter().flatten().copied().collect();
                let lost: Vec<u32> = before.difference(&after).copied().collect();
                let mut gone = gone;
                gone.sort_unstable();
                prop_assert_eq!(gone, lost);
                let mut flat = vec![None; cells.len()];
                let mut last = 0;
                for (start, fragment) in map.from(0) {
                    prop_assert!(start >= last && fragment.end > start);
                    last = fragment.end;
                                        flat[start as usize..fragment.end as usize].fill(fragment.place());
                }
                prop_assert_eq!(&flat, &cells);
                for place in after {
                    let parts = map.from(0).filter(|part| part.1.place() == Some(place));
                    prop_assert_eq!(map.count(place) as usize, parts.count());
                }
            }
        }
    }
}
