//! Broken nodes on flash, and the parts of files that are lost with them (spec: jffs2 8.6).
//!
//! Every writer covers a file up to its size with nodes, holes included, and a power cut leaves no
//! gap: a torn node was never part of the file. So a gap is damage if a broken node may have filled
//! it. If older nodes cover the range of a broken node, its content is undecided.

use crate::inode::Map;
use eraseblock_base::align::is_erased;
use eraseblock_base::{Location, Severity};
use eraseblock_jffs2_format::Inode;
use eraseblock_jffs2_format::constants::INODE_LEN;
use eraseblock_vfs::{FsError, FsErrorKind, Ino};
use std::fmt;

/// A range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A good INODE node and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) node: Inode,
    pub(crate) place: u32,
}

/// A node of an inode that cannot be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    pub(crate) place: u32,
    /// Its fields, if their checksum holds; then only its data is damaged.
    pub(crate) node: Option<Inode>,
    /// Whether it looks like a program that a power cut interrupted.
    pub(crate) is_torn: bool,
}

/// Returns whether the bytes of a node, with their alignment, end like those of an interrupted
/// program: erased.
pub(crate) fn is_torn(bytes: &[u8]) -> bool {
    bytes.len() > TORN_TAIL && is_erased(&bytes[bytes.len() - TORN_TAIL..])
}

/// This many erased bytes at the end of a node are not a coincidence.
const TORN_TAIL: usize = 12;

/// A range of a file and the broken node that held it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) place: u32,
    is_torn: bool,
}

/// The consequences of broken nodes for a file.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Ranges that no other node holds.
    pub(crate) lost: Vec<Part>,
    /// Ranges that older nodes hold, which are right if the broken ones were torn.
    doubtful: Vec<Part>,
}

/// A part of a file whose newest content is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DamagedPart {
    /// The first byte.
    pub start: u32,
    /// The first byte after it.
    pub end: u32,
    /// Whether no older node holds it: then reading it fails.
    pub is_lost: bool,
    /// Whether the node looks like a program that a power cut interrupted, which was never part of the
    /// file.
    pub is_torn: bool,
}

impl Verdict {
    /// Returns all parts, the lost ones first.
    pub(crate) fn parts(&self) -> Vec<DamagedPart> {
        let part = |part: &Part, is_lost| {
            let Part { start, end, is_torn, .. } = *part;
            DamagedPart { start, end, is_lost, is_torn }
        };
        let lost = self.lost.iter().map(|one| part(one, true));
        lost.chain(self.doubtful.iter().map(|one| part(one, false))).collect()
    }

    /// Returns what to report about content that may be outdated: a note if a power cut explains
    /// all of it, otherwise a warning. `location` converts a place.
    pub(crate) fn doubt(&self, location: impl Fn(u32) -> Location) -> Option<(Severity, String)> {
        let suspicious = self.doubtful.iter().find(|part| !part.is_torn);
        let part = suspicious.or(self.doubtful.first())?;
        let severity = if suspicious.is_some() { Severity::Warning } else { Severity::Note };
        let (Part { start, end, .. }, at) = (*part, location(part.place));
        let why = if part.is_torn {
            "was torn by a power cut"
        } else {
            "is damaged, or was torn by a power cut"
        };
        let others = match self.doubtful.len() - 1 {
            0 => String::new(),
            count => format!("; {count} more ranges like it"),
        };
        let message = format!(
            "bytes {start} to {end}: older content, as the newer node at {at} {why}{others}"
        );
        Some((severity, message))
    }
}

/// Judges the broken nodes of a file of `size` bytes, of which `valid` are the other data nodes.
pub(crate) fn judge(valid: &[Placed], broken: &[Broken], size: u32) -> Verdict {
    let mut verdict = Verdict::default();
    if broken.is_empty() {
        return verdict;
    }
    let range =
        |node: &Inode| Range { start: node.offset, end: node.offset.saturating_add(node.dsize) };
    let mut held = Map::default();
    for Placed { node, place } in valid {
        held.lay(range(node), Some(*place));
    }
    let gaps = gaps(held.ranges().map(|part| part.0), size);
    // Nodes whose range is unknown may have been in any gap.
    let mut all = Map::default();
    if let Some((unknown, _)) = (0..).zip(broken).find(|(_, broken)| broken.node.is_none()) {
        for gap in &gaps {
            all.lay(*gap, Some(unknown));
        }
    }
    // Of one version the valid node is used: it is a copy.
    let good = valid.iter().map(|it| (&it.node, None));
    let torn = (0..).zip(broken).filter_map(|(index, it)| Some((it.node.as_ref()?, Some(index))));
    let mut nodes: Vec<(&Inode, Option<u32>)> = good.chain(torn).collect();
    nodes.sort_by_key(|(node, index)| (node.version, index.is_none(), *index));
    for (node, index) in nodes {
        all.lay(range(node), index);
    }
    for (Range { start, end }, index) in all.ranges() {
        let Some(it) = index.and_then(|index| broken.get(index as usize)) else { continue };
        let part = Part { start, end: end.min(size), place: it.place, is_torn: it.is_torn };
        split(part, &gaps, &mut verdict);
    }
    verdict
}

/// Divides a range into the parts inside and outside of `gaps`, which are ascending.
fn split(part: Part, gaps: &[Range], verdict: &mut Verdict) {
    let Part { start, end, .. } = part;
    let mut position = start;
    let first = gaps.partition_point(|gap| gap.end <= start);
    for gap in gaps[first..].iter().take_while(|gap| gap.start < end) {
        let (from, until) = (gap.start.max(position), gap.end.min(end));
        if position < from {
            verdict.doubtful.push(Part { start: position, end: from, ..part });
        }
        verdict.lost.push(Part { start: from, end: until, ..part });
        position = until;
    }
    if position < end {
        verdict.doubtful.push(Part { start: position, ..part });
    }
}

/// Returns the parts of [0, size) that `covered`, ascending ranges, leaves out.
pub(crate) fn gaps(covered: impl IntoIterator<Item = Range>, size: u32) -> Vec<Range> {
    let (mut gaps, mut position) = (Vec::new(), 0);
    let last = Range { start: size, end: size };
    for Range { start, end } in covered.into_iter().chain([last]) {
        let start = start.min(size);
        if start > position {
            gaps.push(Range { start: position, end: start });
        }
        position = position.max(end);
    }
    gaps
}

/// Bytes that were a node but cannot be assigned to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Unassigned {
    count: u64,
    first: Option<Location>,
}

impl Unassigned {
    /// Records one more.
    pub(crate) fn add(&mut self, at: Location) {
        self.count += 1;
        self.first.get_or_insert(at);
    }

    /// Adds those of a later part.
    pub(crate) fn append(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.or(other.first);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for Unassigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, first) = (self.count, self.first.unwrap_or(Location::Whole));
        write!(
            f,
            "no node, but damaged places that may have held one: {count}, the first at {first}"
        )
    }
}

/// Returns whether bytes that are not a node may have been one: not what writers leave, or so many
/// zeros that they may cover a node with data.
pub(crate) fn is_remains(bytes: &[u8], expected: bool) -> bool {
    !expected || bytes.len() > INODE_LEN as usize && bytes[..4] == [0; 4]
}

/// Returns the error for a range of a file that cannot be read.
pub(crate) fn unread(ino: Ino, range: Range, why: &dyn fmt::Display) -> FsError {
    let Range { start, end } = range;
    FsError::new(FsErrorKind::Corrupted, format!("inode {ino}: bytes {start} to {end}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(version: u32, offset: u32, dsize: u32) -> Inode {
        Inode { version, offset, dsize, ..Inode::default() }
    }

    fn of(valid: &[Inode], broken: &[Option<Inode>], size: u32) -> Verdict {
        let places = (400..).step_by(4);
        let valid: Vec<Placed> =
            valid.iter().zip(places).map(|(node, place)| Placed { node: *node, place }).collect();
        let broken = broken.iter().zip((4..).step_by(4));
        let broken: Vec<Broken> =
            broken.map(|(node, place)| Broken { place, node: *node, is_torn: false }).collect();
        judge(&valid, &broken, size)
    }

    #[test]
    fn gaps_are_what_is_not_covered() {
        let gaps = |covered: &[(u32, u32)]| -> Vec<(u32, u32)> {
            let covered = covered.iter().map(|&(start, end)| Range { start, end });
            gaps(covered, 10).iter().map(|gap| (gap.start, gap.end)).collect()
        };
        assert_eq!(gaps(&[]), [(0, 10)]);
        assert_eq!(gaps(&[(0, 4), (4, 10)]), []);
        assert_eq!(gaps(&[(2, 4), (3, 5), (8, 20)]), [(0, 2), (5, 8)]);
        assert_eq!(gaps(&[(0, 20)]), []);
        assert_eq!(gaps(&[(12, 20)]), [(0, 10)]);
    }

    /// Start, end and place.
    fn flat(parts: &[Part]) -> Vec<(u32, u32, u32)> {
        parts.iter().map(|part| (part.start, part.end, part.place)).collect()
    }

    #[test]
    fn a_gap_belongs_to_the_newest_node_that_can_have_filled_it() {
        let broken = [None, Some(node(3, 0, 6)), Some(node(4, 4, 4))];
        let verdict = of(&[node(1, 0, 2)], &broken, 10);
        assert_eq!(flat(&verdict.lost), [(2, 4, 8), (4, 8, 12), (8, 10, 4)]);
        assert_eq!(flat(&verdict.doubtful), [(0, 2, 8)]);
    }

    #[test]
    fn what_newer_nodes_hold_is_not_in_doubt() {
        let doubtful =
            |broken, valid: &[Inode], size| flat(&of(valid, &[Some(broken)], size).doubtful);
        assert_eq!(doubtful(node(2, 0, 8), &[node(1, 0, 8)], 8), [(0, 8, 4)]);
        assert_eq!(doubtful(node(2, 0, 8), &[node(2, 0, 8)], 8), []);
        assert_eq!(doubtful(node(2, 0, 8), &[node(3, 0, 4), node(4, 4, 4)], 8), []);
        assert_eq!(doubtful(node(2, 0, 8), &[node(1, 4, 4), node(3, 0, 4)], 8), [(4, 8, 4)]);
        assert_eq!(doubtful(node(2, 4, 8), &[node(1, 0, 4)], 4), []);
    }

    #[test]
    fn broken_nodes_of_a_whole_file_lose_nothing() {
        let verdict = of(&[node(5, 0, 9)], &[None, Some(node(1, 0, 9))], 9);
        assert!(verdict.lost.is_empty() && verdict.doubtful.is_empty());
    }
}
