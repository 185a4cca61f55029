//! Replays the journal in memory (spec: ubifs-runtime 16.5 to 16.10, 17.9).

use crate::codes;
use crate::error::UbifsError;
use crate::log::{HEADS, Log};
use crate::recovery::{self, Nodes};
use crate::report::{Report, leb_start};
use crate::tnc::Tnc;
use crate::volume::Volume;
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, NodeType, SQNUM_LIMIT};
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::{Branch, FormatError, Key, Reference, Truncation};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

/// One node of the journal and its change.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) sqnum: u64,
    pub(crate) branch: Branch,
    pub(crate) change: Change,
}

/// The change described by a journal node.
#[derive(Debug)]
pub(crate) enum Change {
    Inode { size: u64 },
    Deletion,
    Data { end: u64 },
    Name { name: Box<[u8]> },
    NoName { name: Box<[u8]> },
    Truncation { old_size: u64, new_size: u64 },
}

/// All entries of the journal, and statistics.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    entries: Vec<Entry>,
    /// Bytes of all nodes after the bud starts.
    pub(crate) bytes: u64,
    /// Highest inode number found.
    pub(crate) highest_inum: u32,
}

/// The result of replay.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Nodes applied.
    pub(crate) nodes: u64,
    /// Sizes that are larger than those in the inode nodes.
    pub(crate) sizes: HashMap<u32, u64>,
}

/// Reads all buds of a log.
pub(crate) fn read_buds(
    volume: &Volume,
    log: &Log,
    need_recovery: bool,
    report: &mut Report,
) -> Result<Journal, UbifsError> {
    let mut journal = Journal::default();
    let mut bytes = Vec::new();
    for (index, bud) in log.buds.iter().enumerate() {
        if let Err(error) = volume.read_leb(bud.leb, &mut bytes) {
            report.refuse_read(Location::leb(bud.leb), "journal-unreadable", error)?;
            continue;
        }
        let recover = need_recovery && is_last(volume, &log.buds, index);
        let nodes = if recover {
            let head = Some(bud.head);
            recovery::recover(volume, bud.leb, &bytes, bud.offset, head, report)?
        } else {
            recovery::strict(volume, bud.leb, &bytes, bud.offset, report)?
        };
        journal.take(bud.leb, &nodes, report)?;
    }
    Ok(journal)
}

/// Returns whether a bud is the last one written of its head (16.5): the last in the list, or
/// followed by a single one that is still empty.
pub(crate) fn is_last(volume: &Volume, buds: &[Reference], index: usize) -> bool {
    debug_assert!(buds[index].head < HEADS, "the log checks heads");
    let mut later = buds[index + 1..].iter().filter(|bud| bud.head == buds[index].head);
    match (later.next(), later.next()) {
        (None, _) => true,
        (Some(next), None) => {
            let mut word = [0; 4];
            let room = volume.leb_size().saturating_sub(next.offset) >= 4;
            room && volume.read(next.leb, next.offset, &mut word).is_ok() && word == [0xFF; 4]
        }
        _ => false,
    }
}

impl Journal {
    /// Adds the nodes of one LEB.
    pub(crate) fn take(
        &mut self,
        leb: Leb,
        nodes: &Nodes<'_>,
        report: &mut Report,
    ) -> Result<(), UbifsError> {
        for (offset, node) in nodes {
            self.bytes += u64::from(node.header.len);
            if node.header.sqnum >= SQNUM_LIMIT {
                let message = format!("sequence number {} is at its end", node.header.sqnum);
                report.refuse(node.at, "journal-corrupt", message)?;
                continue;
            }
            match change_of(node) {
                Ok(Some((key, change))) => self.push(leb, *offset, node, key, change),
                Ok(None) => {}
                Err(error) => report.refuse_node("journal-corrupt", error)?,
            }
        }
        Ok(())
    }

    /// Adds a node found outside a known journal, if its kind changes something.
    pub(crate) fn take_any(&mut self, leb: Leb, offset: u32, node: &Node<'_>) {
        if let Ok(Some((key, change))) = change_of(node) {
            self.push(leb, offset, node, key, change);
        }
    }

    fn push(&mut self, leb: Leb, offset: u32, node: &Node<'_>, key: Key, change: Change) {
        self.highest_inum = self.highest_inum.max(key.ino());
        let branch = Branch { key, leb, offset, len: node.header.len };
        self.entries.push(Entry { sqnum: node.header.sqnum, branch, change });
    }

    /// Drops what was written before the commit, but for copies that garbage collection made of nodes
    /// that the index has: another eraseblock in the place of a bud has nodes of the past.
    pub(crate) fn drop_outdated(&mut self, tnc: &Tnc, commit: u64) {
        let mut buf = Vec::new();
        self.entries.retain(|entry| {
            if entry.sqnum >= commit {
                return true;
            }
            let name = match &entry.change {
                Change::Inode { .. } | Change::Data { .. } => None,
                Change::Name { name } => Some(name),
                Change::Deletion | Change::NoName { .. } | Change::Truncation { .. } => {
                    return false;
                }
            };
            let (mut is_known, mut is_newer) = (false, false);
            tnc.scan(entry.branch.key, entry.branch.key, &mut |branch| {
                is_known = true;
                if let Ok(node) = tnc.leaf(branch, &mut buf) {
                    let is_it =
                        name.is_none_or(|name| node.dent().is_ok_and(|dent| *dent.name == **name));
                    is_newer |= is_it && node.header.sqnum > entry.sqnum;
                }
                ControlFlow::Continue(())
            });
            is_known && !is_newer
        });
    }

    /// Applies all changes in the order in which they were written.
    pub(crate) fn apply(self, tnc: &mut Tnc, report: &mut Report) -> Outcome {
        self.apply_all(tnc, report).0
    }

    /// The same; then raises sizes that are smaller than the data and removes data without an inode
    /// (17.9).
    pub(crate) fn apply_and_fix(self, tnc: &mut Tnc, report: &mut Report) -> Outcome {
        let (mut outcome, sizes) = self.apply_all(tnc, report);
        outcome.sizes = sizes.fix(tnc, report);
        outcome
    }

    fn apply_all(mut self, tnc: &mut Tnc, report: &mut Report) -> (Outcome, Sizes) {
        let kept = self.put_in_order(report);
        let mut sizes = Sizes::default();
        let outcome = Outcome { nodes: self.entries.len() as u64, ..Outcome::default() };
        let mut dead = Vec::new();
        for (index, entry) in self.entries.into_iter().enumerate() {
            sizes.take(&entry);
            apply_one(tnc, entry, index, &kept, &mut dead);
        }
        // An xattr of an unlinked, open file may have been written after its deletion.
        for ino in dead {
            tnc.remove_inode(ino);
        }
        (outcome, sizes)
    }

    /// Sorts the entries into the order in which they were written. Returns for each inode the
    /// index of its newest inode entry: a deletion that is not the newest does not count (16.7).
    pub(crate) fn put_in_order(&mut self, report: &mut Report) -> HashMap<u32, usize> {
        self.entries.sort_by_key(|entry| entry.sqnum);
        self.warn_of_duplicates(report);
        self.inodes_that_live()
    }

    /// Returns all entries.
    #[cfg(feature = "write")]
    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    fn warn_of_duplicates(&self, report: &mut Report) {
        for pair in self.entries.windows(2) {
            let [one, two] = pair else { continue };
            if one.sqnum == two.sqnum && one.branch.key != two.branch.key {
                let at = Location::Leb(two.branch.leb, two.branch.offset);
                let message = format!("sequence number {} occurs twice", two.sqnum);
                report.findings.warn(at, "sqnum-twice", message);
            }
        }
    }

    fn inodes_that_live(&self) -> HashMap<u32, usize> {
        let mut newest = HashMap::new();
        for (index, entry) in self.entries.iter().enumerate() {
            if matches!(entry.change, Change::Inode { .. }) {
                newest.insert(entry.branch.key.ino(), index);
            }
        }
        newest
    }
}

fn apply_one(
    tnc: &mut Tnc,
    entry: Entry,
    index: usize,
    newest: &HashMap<u32, usize>,
    dead: &mut Vec<u32>,
) {
    let ino = entry.branch.key.ino();
    match entry.change {
        Change::Inode { .. } | Change::Data { .. } => tnc.add(entry.branch),
        Change::Deletion => {
            if newest.get(&ino).is_none_or(|live| *live < index) {
                dead.extend(tnc.remove_inode(ino));
            }
        }
        Change::Name { name } => tnc.add_name(entry.branch, &name),
        Change::NoName { name } => tnc.remove_name(entry.branch.key, &name),
        Change::Truncation { old_size, new_size } => tnc.truncate(ino, old_size, new_size),
    }
}

/// Returns the change described by a journal node; `None` for nodes that change nothing.
fn change_of(node: &Node<'_>) -> Result<Option<(Key, Change)>, FormatError> {
    Ok(Some(match node.header.node_type {
        NodeType::Inode => {
            let inode = node.inode()?;
            let change = match inode.nlink {
                0 => Change::Deletion,
                _ => Change::Inode { size: inode.size },
            };
            (Key::inode(inode.ino), change)
        }
        NodeType::Data => {
            let data = node.data()?;
            let start = u64::from(data.key.value()) * u64::from(BLOCK_SIZE);
            (data.key, Change::Data { end: start + u64::from(data.size) })
        }
        NodeType::Dent | NodeType::Xent => {
            let dent = node.dent()?;
            let name = dent.name.into();
            let change =
                if dent.ino == 0 { Change::NoName { name } } else { Change::Name { name } };
            (dent.key, change)
        }
        NodeType::Truncation => {
            let Truncation { ino, old_size, new_size } = node.truncation()?;
            (Key::inode(ino), Change::Truncation { old_size, new_size })
        }
        NodeType::Auth => return Ok(None),
        other => {
            return Err(FormatError::Type {
                at: node.at,
                found: other.number(),
                expected: "a node of the journal",
            });
        }
    }))
}

/// Sizes derived from inode nodes and data nodes of the journal (17.9).
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) of: BTreeMap<u32, SizeEntry>,
}

/// Of one inode.
#[derive(Debug, Default)]
pub(crate) struct SizeEntry {
    /// Of the last inode node.
    pub(crate) inode: Option<u64>,
    /// The end of the last data node.
    pub(crate) data: u64,
}

impl Sizes {
    pub(crate) fn take(&mut self, entry: &Entry) {
        let ino = entry.branch.key.ino();
        match entry.change {
            Change::Inode { size } => self.of.entry(ino).or_default().inode = Some(size),
            Change::Data { end } => {
                let known = self.of.entry(ino).or_default();
                known.data = known.data.max(end);
            }
            Change::Truncation { new_size, .. } => {
                if let Some(known) = self.of.get_mut(&ino) {
                    known.data = new_size;
                }
            }
            Change::Deletion => drop(self.of.remove(&ino)),
            Change::Name { .. } | Change::NoName { .. } => {}
        }
    }

    fn fix(self, tnc: &mut Tnc, report: &mut Report) -> HashMap<u32, u64> {
        let mut raised = HashMap::new();
        for (ino, known) in self.of {
            let Some(branch) = tnc.find(Key::inode(ino)) else {
                if known.inode.is_none() {
                    let message = "content of an inode that is not there is dropped";
                    report.findings.note(Location::Inode(ino.into()), codes::INODE_UNBORN, message);
                    tnc.remove_inode(ino);
                }
                continue;
            };
            let size = known.inode.or_else(|| committed_size(tnc, &branch));
            if size.is_some_and(|size| size < known.data) {
                let message = format!("size raised to {}, where its content ends", known.data);
                report.findings.note(Location::Inode(ino.into()), codes::SIZE_FIXED, message);
                raised.insert(ino, known.data);
            }
        }
        raised
    }
}

fn committed_size(tnc: &Tnc, branch: &Branch) -> Option<u64> {
    let mut buf = Vec::new();
    Some(tnc.leaf(branch, &mut buf).ok()?.inode().ok()?.size)
}

/// Returns the journal without a log: every node of the main area that is newer than the committed
/// index.
pub(crate) fn read_newer_than(volume: &Volume, sqnum: u64, report: &mut Report) -> Journal {
    let mut journal = Journal::default();
    let mut bytes = Vec::new();
    for leb in volume.sb.main_first()..volume.main_end() {
        let leb = Leb::new(leb);
        if volume.read_leb(leb, &mut bytes).is_err() {
            report.findings.error(Location::leb(leb), "leb-unreadable", "cannot be read");
            continue;
        }
        for (offset, node) in recovery::all_nodes(leb, &bytes, 0, volume.limits) {
            if node.header.sqnum > sqnum && node.header.sqnum < SQNUM_LIMIT {
                journal.take_any(leb, offset, &node);
            }
        }
    }
    let message = format!("{} nodes newer than the last commit found", journal.entries.len());
    report.findings.warn(leb_start(volume.sb.main_first()), codes::JOURNAL_SEARCHED, message);
    journal
}
