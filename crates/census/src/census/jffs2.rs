//! Which nodes of a JFFS2 are live: of each name and each byte of a file the highest version wins
//! (spec: jffs2 7, 8).

use super::State;
use crate::segment::{Format, Plan};
use crate::walk::{Family, Record, Tables, What, walk_segment};
use eraseblock_base::{ByteOrder, Location};
use eraseblock_jffs2_format::constants::{ROOT_INO, compression};
use eraseblock_jffs2_format::{Header, decode};
use eraseblock_mtd::ReadAt;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

/// The type bits of a mode, and those of a regular file.
const TYPE: (u32, u32) = (0o170_000, 0o100_000);
/// What fills up in the bytes after a padding node or before the next one.
const FILLERS: [u8; 2] = [0, 0xFF];

/// The states of nodes, by their places in the image.
#[derive(Debug, Default)]
pub(super) struct Facts {
    states: HashMap<u64, State>,
}

/// An entry of a directory.
struct Name {
    pino: u32,
    hash: u64,
    version: u32,
    ino: u32,
    at: u64,
}

/// A node of an inode.
struct Part {
    version: u32,
    at: u64,
    start: u32,
    end: u32,
    size: u32,
    is_file: bool,
}

/// What the nodes say.
#[derive(Default)]
struct Nodes {
    names: Vec<Name>,
    parts: BTreeMap<u32, Vec<Part>>,
    /// Pairs of name and value: number, version, place.
    pairs: Vec<(u32, u32, u64)>,
    /// References to them: inode, number, counter, place.
    refs: Vec<(u32, u32, u32, u64)>,
}

impl Facts {
    /// Reads all nodes of a segment. Fails if it cannot be read.
    pub(super) fn of(
        image: &dyn ReadAt,
        plan: &Plan,
        tables: &Tables,
        index: usize,
    ) -> io::Result<Self> {
        let Format::Jffs2 { order, .. } = plan.segments[index].format else {
            return Ok(Self::default());
        };
        let mut nodes = Nodes::default();
        walk_segment(image, plan, tables, index, &mut |record| {
            if let What::Structure { family: Family::Jffs2, kind, len } = record.what
                && let Some(fields) = tables.of(plan, index, Family::Jffs2)
                && let Some(bytes) = record.bytes.get(..len)
                && fields.sums_hold(kind, bytes)
                && is_accurate(order, bytes)
            {
                nodes.add(order, fields.structures()[kind].kind, bytes, record.offset);
            }
            Ok(())
        })?;
        let mut facts = Self::default();
        let alive = facts.names(&mut nodes.names);
        for (ino, parts) in &mut nodes.parts {
            facts.parts(parts, alive.contains(ino));
        }
        facts.attributes(&mut nodes, &alive);
        Ok(facts)
    }

    /// Decides on the entries; returns the inodes that can be reached.
    fn names(&mut self, names: &mut [Name]) -> HashSet<u32> {
        names.sort_unstable_by_key(|name| (name.pino, name.hash, name.version, name.at));
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for (index, name) in names.iter().enumerate() {
            let next = names.get(index + 1).map(|next| (next.pino, next.hash));
            let state = match next == Some((name.pino, name.hash)) {
                true => State::Superseded,
                false if name.ino == 0 => State::Deleted,
                false => {
                    children.entry(name.pino).or_default().push(name.ino);
                    State::Live
                }
            };
            self.states.insert(name.at, state);
        }
        let (mut alive, mut open) = (HashSet::from([ROOT_INO]), vec![ROOT_INO]);
        while let Some(ino) = open.pop() {
            for child in children.get(&ino).into_iter().flatten() {
                if alive.insert(*child) {
                    open.push(*child);
                }
            }
        }
        for name in names.iter().filter(|name| !alive.contains(&name.pino)) {
            self.states.insert(name.at, State::Deleted);
        }
        alive
    }

    /// Decides on the nodes of one inode, the newest first.
    fn parts(&mut self, parts: &mut [Part], is_alive: bool) {
        parts.sort_unstable_by_key(|part| std::cmp::Reverse((part.version, part.at)));
        let size = parts.first().map_or(0, |newest| newest.size);
        let mut shown = Covered::default();
        for (index, part) in parts.iter().enumerate() {
            let shows = part.is_file && shown.add(part.start, part.end.min(size));
            let state = match is_alive {
                false => State::Deleted,
                true if index == 0 || shows => State::Live,
                true => State::Superseded,
            };
            self.states.insert(part.at, state);
        }
    }

    /// Decides on xattrs: of each reference the highest counter wins, an odd one deletes.
    fn attributes(&mut self, nodes: &mut Nodes, alive: &HashSet<u32>) {
        nodes.refs.sort_unstable();
        let mut used = HashSet::new();
        for (index, (ino, xid, counter, at)) in nodes.refs.iter().enumerate() {
            let next = nodes.refs.get(index + 1).map(|(ino, xid, ..)| (ino, xid));
            let state = if next == Some((ino, xid)) {
                State::Superseded
            } else if counter % 2 == 1 || !alive.contains(ino) {
                State::Deleted
            } else {
                used.insert(*xid);
                State::Live
            };
            self.states.insert(*at, state);
        }
        nodes.pairs.sort_unstable();
        for (index, (xid, _, at)) in nodes.pairs.iter().enumerate() {
            let is_newest = nodes.pairs.get(index + 1).is_none_or(|next| next.0 != *xid);
            let state = match (is_newest, used.contains(xid)) {
                (false, _) => State::Superseded,
                (true, true) => State::Live,
                (true, false) => State::Deleted,
            };
            self.states.insert(*at, state);
        }
    }

    /// Returns the state of a record.
    pub(super) fn state(&self, record: &Record<'_>) -> State {
        match record.what {
            What::Run(0xFF) => State::Free,
            What::Run(0) => State::Padding,
            What::Bytes if record.bytes.iter().all(|byte| FILLERS.contains(byte)) => State::Padding,
            What::Run(_) | What::Bytes => State::Garbage,
            What::Structure { .. } => {
                let known = self.states.get(&record.offset).copied();
                known.unwrap_or_else(|| of_block(record.bytes))
            }
        }
    }
}

impl Nodes {
    fn add(&mut self, order: ByteOrder, kind: &str, bytes: &[u8], at: u64) {
        let place = Location::Byte(at);
        match kind {
            "jffs2.inode" => {
                let Ok(inode) = decode::inode(order, bytes, place) else { return };
                let is_hole = inode.compression == compression::ZERO;
                let end = inode.offset.saturating_add(inode.dsize);
                let is_file = inode.mode & TYPE.0 == TYPE.1 && (is_hole || inode.dsize > 0);
                let (version, start, size) = (inode.version, inode.offset, inode.isize);
                let part = Part { version, at, start, end, size, is_file };
                self.parts.entry(inode.ino).or_default().push(part);
            }
            "jffs2.dirent" => {
                let Ok(entry) = decode::dirent(order, bytes, place) else { return };
                let mut hasher = DefaultHasher::new();
                entry.name.hash(&mut hasher);
                let (pino, version, ino) = (entry.pino, entry.version, entry.ino);
                self.names.push(Name { pino, hash: hasher.finish(), version, ino, at });
            }
            "jffs2.xattr" => {
                let head = decode::xattr_head(order, bytes, place);
                self.pairs.extend(head.map(|(xid, version)| (xid, version, at)));
            }
            "jffs2.xref" => {
                let xref = decode::xref(order, bytes, place);
                self.refs.extend(xref.map(|xref| (xref.ino, xref.xid, xref.xseqno, at)));
            }
            _ => {}
        }
    }
}

fn is_accurate(order: ByteOrder, bytes: &[u8]) -> bool {
    decode::header(order, bytes, Location::Whole).is_ok_and(Header::is_accurate)
}

/// Returns the state of a node that is about its block, or obsolete.
fn of_block(bytes: &[u8]) -> State {
    use eraseblock_jffs2_format::NodeKind;
    use eraseblock_jffs2_format::scan::header_order;
    match header_order(bytes) {
        Some((_, header)) if !header.is_accurate() => State::Superseded,
        Some((_, header)) => match header.kind() {
            NodeKind::Cleanmarker
            | NodeKind::Summary
            | NodeKind::DamageMarker
            | NodeKind::Unknown(_) => State::Live,
            NodeKind::Padding => State::Padding,
            _ => State::Torn,
        },
        None => State::Garbage,
    }
}

/// Ranges that are covered; they do not touch each other.
#[derive(Default)]
struct Covered {
    /// End by start.
    ranges: BTreeMap<u32, u32>,
}

impl Covered {
    /// Covers a range; returns whether a part of it was not covered yet.
    fn add(&mut self, start: u32, end: u32) -> bool {
        if start >= end {
            return false;
        }
        let (mut low, mut high) = (start, end);
        if let Some((from, to)) = self.ranges.range(..=start).next_back() {
            if *to >= end {
                return false;
            }
            if *to >= start {
                low = *from;
            }
        }
        while let Some((from, to)) = self.ranges.range(low..=high).next().map(|(a, b)| (*a, *b)) {
            high = high.max(to);
            self.ranges.remove(&from);
        }
        self.ranges.insert(low, high);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_covered_once() {
        let mut covered = Covered::default();
        for (start, end, is_new) in [
            (0, 10, true),
            (2, 8, false),
            (10, 20, true),
            (30, 40, true),
            (0, 20, false),
            (15, 35, true),
            (0, 40, false),
            (39, 41, true),
            (5, 5, false),
        ] {
            assert_eq!(covered.add(start, end), is_new, "{start}..{end}");
        }
        assert_eq!(covered.ranges.len(), 1);
    }
}
