//! The past of a JFFS2, which has no commits: each node of an inode has a version, and the nodes up to one
//! version are a state of the file. What garbage collection erased leaves a gap in the numbers.
//!
//! # Invariants
//! 1. A state is *proven* if all versions up to its own are there, so that nothing can have been in between,
//!    and the next one is of another second, so that it is the end of a write.
//! 2. A state is *consistent* if it is the end of a write, and if each of its bytes is in a node after the
//!    last version that is missing.
//! 3. Nothing is taken from a node with a higher version.

use crate::history::{Deleted, History};
use crate::versions::{Attributes, Class, Seen, Version};
use eraseblock_base::Findings;
use eraseblock_jffs2::{Jffs2, Jffs2Error, PastContent, PastNode};
use eraseblock_jffs2_format::Inode;
use eraseblock_jffs2_format::constants::{ROOT_INO, compression};
use eraseblock_ubifs_format::Time;
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::node::file_type;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names above a file that are followed at most: more are a circle.
const DEEPEST: usize = 512;
/// Stretches of a file that are kept apart at most; more are counted as missing.
const STRETCHES: usize = 4096;

/// A node of an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) inode: Inode,
    /// Its place, counted from the first eraseblock.
    pub(crate) place: u32,
    pub(crate) len: u32,
    is_accurate: bool,
}

impl Part {
    /// Returns the bytes of the file that it holds.
    pub(crate) fn range(&self) -> (u32, u32) {
        let Inode { offset, dsize, .. } = self.inode;
        (offset, offset.saturating_add(dsize))
    }

    fn is_file(&self) -> bool {
        self.inode.mode & file_type::MASK == file_type::REGULAR
    }
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
struct Entry {
    version: u32,
    ino: u32,
    time: u32,
}

/// All nodes of a JFFS2 that are there.
#[derive(Debug)]
pub struct FlashNodes {
    pub(crate) fs: Arc<Jffs2>,
    /// The nodes of each inode, in ascending order of their versions; one for each version.
    pub(crate) parts: BTreeMap<u32, Vec<Part>>,
    /// Inodes with different nodes of one version: numbers were used again.
    mixed: BTreeSet<u32>,
    /// What happened to each name, in ascending order of versions.
    names: BTreeMap<(u32, Box<[u8]>), Vec<Entry>>,
}

impl FlashNodes {
    /// Returns the file system.
    pub fn fs(&self) -> &Arc<Jffs2> {
        &self.fs
    }

    fn read(fs: Arc<Jffs2>) -> Result<Self, Jffs2Error> {
        let (mut parts, mut names): (BTreeMap<u32, Vec<Part>>, BTreeMap<_, Vec<Entry>>) =
            Default::default();
        fs.visit_nodes(&mut |node| {
            let PastNode { place, len, is_accurate, content } = *node;
            match content {
                PastContent::Inode(inode) => {
                    let part = Part { inode, place, len, is_accurate };
                    parts.entry(inode.ino).or_default().push(part);
                }
                PastContent::Dirent(it) => {
                    let entry = Entry { version: it.version, ino: it.ino, time: it.mctime };
                    names.entry((it.pino, it.name.into())).or_default().push(entry);
                }
            }
        })?;
        let mut mixed = BTreeSet::new();
        for (ino, list) in &mut parts {
            // Of one version, the node counts that a mount sees.
            list.sort_by_key(|part| (part.inode.version, !part.is_accurate, part.place));
            let differ = |pair: &[Part]| {
                let [one, two] = pair else { return false };
                one.inode.version == two.inode.version && one.inode != two.inode
            };
            // Times go back only where an inode number was given to another file.
            let goes_back = |pair: &[Part]| {
                let [one, two] = pair else { return false };
                one.inode.ctime > two.inode.ctime
            };
            let is_mixed = list.windows(2).any(|pair| differ(pair) || goes_back(pair));
            list.dedup_by_key(|part| part.inode.version);
            // The newest node of a file is never obsolete.
            let newest = last_accurate(list);
            if is_mixed || newest.is_some_and(|newest| newest + 1 < list.len()) {
                mixed.insert(*ino);
            }
        }
        for list in names.values_mut() {
            list.sort_by_key(|entry| (entry.version, entry.ino));
            list.dedup_by_key(|entry| (entry.version, entry.ino));
        }
        Ok(Self { fs, parts, mixed, names })
    }

    /// Returns directories and names of each inode: those of now, and those that are gone.
    fn places(&self) -> (Places<'_>, Places<'_>) {
        let (mut now, mut gone): (Places<'_>, Places<'_>) = Default::default();
        for ((pino, name), entries) in &self.names {
            let last = entries.last().map(|entry| entry.ino);
            let mut seen = BTreeSet::new();
            for entry in entries.iter().rev().filter(|entry| entry.ino != 0) {
                if seen.insert(entry.ino) {
                    let list = if Some(entry.ino) == last { &mut now } else { &mut gone };
                    list.entry(entry.ino).or_default().push((*pino, name));
                }
            }
        }
        (now, gone)
    }
}

/// Returns whether what `next` writes is a part of the same write as what is there: within one second, and
/// nothing is replaced.
fn continues(this: &Inode, next: &Part, covered: &Covered) -> bool {
    let owner = |inode: &Inode| (inode.mode, inode.uid, inode.gid);
    let (start, end) = next.range();
    this.ctime == next.inode.ctime
        && owner(this) == owner(&next.inode)
        && next.inode.isize >= this.isize
        && !covered.overlaps(start, end)
}

/// Returns the newest node that a mount sees.
fn last_accurate(parts: &[Part]) -> Option<usize> {
    parts.iter().rposition(|part| part.is_accurate)
}

/// Directories and names of inodes.
type Places<'a> = BTreeMap<u32, Vec<(u32, &'a [u8])>>;

/// Parts of a file that are there.
#[derive(Debug, Default)]
struct Covered(BTreeMap<u32, u32>);

impl Covered {
    fn add(&mut self, mut start: u32, mut end: u32) {
        if start >= end {
            return;
        }
        while let Some((&from, &to)) =
            self.0.range(..=end).next_back().filter(|(_, to)| **to >= start)
        {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    fn overlaps(&self, start: u32, end: u32) -> bool {
        let last = self.0.range(..end).next_back();
        start < end && last.is_some_and(|(_, to)| *to > start)
    }

    /// Returns how many of the first `size` bytes are not there.
    fn missing(&self, size: u32) -> u32 {
        let parts = self.0.range(..size).take(STRETCHES);
        size - parts.map(|(from, to)| (*to).min(size) - from).sum::<u32>()
    }
}

impl History {
    /// Reads the past of a JFFS2, which opening found `findings` about.
    ///
    /// # Errors
    ///
    /// Fails if the medium cannot be read.
    pub fn read_flash(
        fs: Arc<Jffs2>,
        findings: Findings,
    ) -> Result<(Self, Arc<FlashNodes>), Jffs2Error> {
        let nodes = FlashNodes::read(fs)?;
        let (now, gone) = nodes.places();
        let live = reachable(&now);
        let mut files = BTreeMap::new();
        for (ino, parts) in &nodes.parts {
            let is_live = live.contains(ino);
            let of_now = if is_live { paths(*ino, &now, &now, &gone) } else { Vec::new() };
            let is_named = *ino == ROOT_INO || !of_now.is_empty();
            let named = if is_named { of_now } else { all_paths(*ino, &now, &gone) };
            let list = versions(&nodes, *ino, parts, is_live, &named, is_named);
            files.insert(*ino, list);
        }
        let deleted = deleted(&nodes, &now, &gone, &live, &files);
        Ok((Self::of_parts(files, deleted, live, findings), Arc::new(nodes)))
    }
}

/// Returns the inodes that the root leads to.
fn reachable(now: &Places<'_>) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (ino, places) in now {
        for (pino, _) in places {
            children.entry(*pino).or_default().push(*ino);
        }
    }
    let (mut live, mut open) = (BTreeSet::from([ROOT_INO]), vec![ROOT_INO]);
    while let Some(ino) = open.pop() {
        let below = children.get(&ino).into_iter().flatten();
        open.extend(below.filter(|child| live.insert(**child)));
    }
    live
}

/// Returns the path of a directory without a slash at the start, or `?` where it does not lead to the root.
fn path_of(mut ino: u32, now: &Places<'_>, gone: &Places<'_>) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    while ino != ROOT_INO {
        let places = now.get(&ino).or_else(|| gone.get(&ino));
        let first = places.and_then(|places| places.first());
        let Some((pino, name)) = first.filter(|_| parts.len() < DEEPEST) else {
            parts.push(b"?");
            break;
        };
        parts.push(name);
        ino = *pino;
    }
    parts.reverse();
    parts.join(&b"/"[..])
}

fn path_in(pino: u32, name: &[u8], now: &Places<'_>, gone: &Places<'_>) -> Vec<u8> {
    let above = path_of(pino, now, gone);
    if above.is_empty() { name.to_vec() } else { [&above, &b"/"[..], name].concat() }
}

/// Returns the paths of an inode by the names in `of`.
fn paths(ino: u32, of: &Places<'_>, now: &Places<'_>, gone: &Places<'_>) -> Vec<Vec<u8>> {
    if ino == ROOT_INO {
        return vec![Vec::new()];
    }
    let places = of.get(&ino).into_iter().flatten();
    places.map(|(pino, name)| path_in(*pino, name, now, gone)).collect()
}

fn all_paths(ino: u32, now: &Places<'_>, gone: &Places<'_>) -> Vec<Vec<u8>> {
    let mut all = paths(ino, now, now, gone);
    all.extend(paths(ino, gone, now, gone));
    all
}

/// Returns the versions of an inode, the newest first.
fn versions(
    nodes: &FlashNodes,
    ino: u32,
    parts: &[Part],
    is_live: bool,
    paths: &[Vec<u8>],
    is_named: bool,
) -> Vec<Version> {
    let mut list = Vec::new();
    let mut covered = Covered::default();
    // Directories give versions to their names, too.
    let of_names: BTreeSet<u32> = nodes
        .names
        .range((ino, Box::default())..)
        .take_while(|((pino, _), _)| *pino == ino)
        .flat_map(|(_, entries)| entries.iter().map(|entry| entry.version))
        .collect();
    let present = last_accurate(parts);
    // What the nodes since the last gap in the versions cover: what is lost from before is under them.
    let (mut since_gap, mut expected) = (Covered::default(), 0);
    for (state, part) in parts.iter().enumerate() {
        let inode = &part.inode;
        let (start, end) = part.range();
        covered.add(start, end);
        if inode.version != expected {
            since_gap = Covered::default();
        }
        since_gap.add(start, end);
        expected = inode.version.wrapping_add(1);
        let next = parts.get(state + 1).filter(|_| present != Some(state));
        if next.is_some_and(|next| continues(inode, next, &covered)) {
            continue;
        }
        let missing = if part.is_file() { covered.missing(inode.isize) } else { 0 };
        let names_before = of_names.range(..inode.version).count();
        let is_gapless = (state + 1 + names_before) as u64 == u64::from(inode.version);
        // A write may consist of several nodes: within a second, nothing says where it ends. After the last
        // node that is left, there may have been others.
        let is_end = parts.get(state + 1).is_some_and(|next| {
            let is_next = next.inode.version == inode.version + 1 || !part.is_file();
            is_next && next.inode.ctime != inode.ctime
        });
        let is_now = is_live && Some(state) == present;
        let is_sure = is_end && !nodes.mixed.contains(&ino);
        let class = match (is_now, missing) {
            (true, _) => Class::Live,
            (false, 0) if is_gapless && is_sure => Class::Proven,
            (false, 0) if part.is_file() && is_sure && since_gap.missing(inode.isize) == 0 => {
                Class::Consistent
            }
            (false, 0) => Class::Likely,
            (false, _) => Class::Partial,
        };
        let block = BLOCK_SIZE;
        list.push(Version {
            ino,
            class,
            seen: if is_now { Seen::Now { since: None } } else { Seen::Nodes },
            inode_sqnum: Some(inode.version.into()),
            newest: inode.version.into(),
            attributes: Some(attributes(inode, paths.len())),
            blocks: if part.is_file() { inode.isize.div_ceil(block).into() } else { 0 },
            missing: missing.div_ceil(block).into(),
            paths: paths.to_vec(),
            is_named_by_another: !is_named,
            gone: Vec::new(),
            nodes: Vec::new(),
        });
    }
    list.reverse();
    list
}

fn attributes(inode: &Inode, names: usize) -> Attributes {
    let time = |seconds: u32| Time { seconds: seconds.into(), nanoseconds: 0 };
    Attributes {
        size: inode.isize.into(),
        mode: inode.mode,
        nlink: u32::try_from(names).unwrap_or(u32::MAX),
        uid: inode.uid.into(),
        gid: inode.gid.into(),
        atime: time(inode.atime),
        mtime: time(inode.mtime),
        ctime: time(inode.ctime),
        is_encrypted: false,
    }
}

/// Returns the names that are gone, the latest first.
fn deleted(
    nodes: &FlashNodes,
    now: &Places<'_>,
    gone: &Places<'_>,
    live: &BTreeSet<u32>,
    files: &BTreeMap<u32, Vec<Version>>,
) -> Vec<Deleted> {
    let mut found = Vec::new();
    for ((pino, name), entries) in &nodes.names {
        let is_there = live.contains(pino);
        let last = entries.last().map(|entry| entry.ino).filter(|_| is_there);
        let mut seen = BTreeSet::new();
        for (index, entry) in entries.iter().enumerate().rev() {
            if entry.ino == 0 || Some(entry.ino) == last || !seen.insert(entry.ino) {
                continue;
            }
            let remover = entries.get(index + 1);
            let best = files.get(&entry.ino).and_then(|list| list.iter().map(|it| it.class).min());
            let order = remover.unwrap_or(entry);
            let it = Deleted {
                path: path_in(*pino, name, now, gone),
                ino: entry.ino,
                last_commit: None,
                removed_by: remover.map(|remover| remover.version.into()),
                is_elsewhere: live.contains(&entry.ino),
                class: best.unwrap_or(Class::NameOnly),
            };
            found.push((std::cmp::Reverse((order.time, order.version)), it));
        }
    }
    found.sort_by(|one, other| (one.0, &one.1.path).cmp(&(other.0, &other.1.path)));
    found.into_iter().map(|(_, it)| it).collect()
}

/// A part of a version: which node holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Where it begins and ends in the file.
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) part: Part,
}

impl FlashNodes {
    /// Returns which nodes hold the parts of a version, in the order of the file; what is in none of them is
    /// zeros.
    pub(crate) fn pieces(&self, version: &Version) -> Vec<Piece> {
        let parts = self.parts.get(&version.ino).map(Vec::as_slice).unwrap_or_default();
        let last = u32::try_from(version.newest).unwrap_or(u32::MAX);
        let end = parts.partition_point(|part| part.inode.version <= last);
        let parts = parts.get(..end).unwrap_or_default();
        let size = parts.last().map_or(0, |part| part.inode.isize);
        let mut pieces = Vec::new();
        let mut covered = Covered::default();
        // The newest first: what is covered is not taken from an older one.
        for part in parts.iter().rev() {
            let (mut at, end) = part.range();
            let end = end.min(size);
            while at < end {
                let before = covered.0.range(..=at).next_back().filter(|(_, to)| **to > at);
                if let Some((_, to)) = before {
                    at = *to;
                    continue;
                }
                let next = covered.0.range(at..).next().map_or(end, |(from, _)| (*from).min(end));
                pieces.push(Piece { start: at, end: next, part: *part });
                at = next;
            }
            let (start, _) = part.range();
            covered.add(start, end);
        }
        pieces.sort_by_key(|piece| piece.start);
        pieces
    }
}

impl Piece {
    /// Returns whether its bytes are zeros that no node stores.
    pub(crate) fn is_hole(&self) -> bool {
        self.part.inode.compression == compression::ZERO
    }
}
