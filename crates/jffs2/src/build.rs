//! From nodes in flash order to a tree: which names and inodes live (spec: jffs2 7, 12.7).
//!
//! # Invariants
//! 1. `inodes` is sorted by number; the nodes and the entries of an inode start at its `nodes` and
//!    `entries` and end where those of the next one start. The last one is a sentinel.
//! 2. Entries of a directory have distinct names, in the order of their bytes, and name inodes
//!    that exist.

use crate::scan::{EntryRef, Found, PairRef, XrefRef};
use eraseblock_base::{Findings, Location};
use eraseblock_jffs2_format::constants::ROOT_INO;

/// DIRENT file type of directories.
const TYPE_DIRECTORY: u8 = 4;
/// Second names of directories that are shown: an interrupted rename leaves one.
const SECOND_NAMES: usize = 4;

/// What is kept of an inode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InodeInfo {
    pub(crate) ino: u32,
    pub(crate) nodes: u32,
    pub(crate) entries: u32,
    /// Names that refer to it.
    pub(crate) links: u32,
    /// Version and value of the newest time that an entry gave its directory.
    pub(crate) mctime: (u32, u32),
}

/// A live name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) ino: u32,
    name: u32,
    name_len: u8,
    pub(crate) file_type: u8,
}

/// The tree.
#[derive(Debug)]
pub(crate) struct Tables {
    nodes: Vec<u32>,
    inodes: Vec<InodeInfo>,
    entries: Vec<Entry>,
    names: Vec<u8>,
    pub(crate) pairs: Vec<PairRef>,
    pub(crate) xrefs: Vec<XrefRef>,
}

impl Tables {
    fn index(&self, ino: u32) -> Option<usize> {
        let real = &self.inodes[..self.inodes.len() - 1];
        real.binary_search_by_key(&ino, |info| info.ino).ok()
    }

    /// What is kept of an inode, if it lives.
    pub(crate) fn inode(&self, ino: u32) -> Option<InodeInfo> {
        self.index(ino).map(|index| self.inodes[index]).filter(|info| info.links > 0)
    }

    /// Places of the nodes of an inode, oldest version first.
    pub(crate) fn nodes(&self, ino: u32) -> &[u32] {
        self.index(ino).map_or(&[], |index| {
            let (this, next) = (self.inodes[index], self.inodes[index + 1]);
            &self.nodes[this.nodes as usize..next.nodes as usize]
        })
    }

    /// The entries of a directory.
    pub(crate) fn entries(&self, ino: u32) -> &[Entry] {
        self.index(ino).map_or(&[], |index| {
            let (this, next) = (self.inodes[index], self.inodes[index + 1]);
            &self.entries[this.entries as usize..next.entries as usize]
        })
    }

    /// The name of an entry.
    pub(crate) fn name(&self, entry: &Entry) -> &[u8] {
        &self.names[entry.name as usize..][..usize::from(entry.name_len)]
    }

    /// Directories among the entries of an inode.
    pub(crate) fn subdirectories(&self, ino: u32) -> u32 {
        self.entries(ino).iter().filter(|entry| entry.file_type == TYPE_DIRECTORY).count() as u32
    }

    /// How many inodes live.
    pub(crate) fn live_inodes(&self) -> usize {
        self.inodes.iter().filter(|info| info.links > 0).count()
    }
}

/// Decides what lives.
pub(crate) fn build(mut found: Found, findings: &mut Findings) -> Tables {
    findings.append(std::mem::take(&mut found.findings));
    found.nodes.sort_unstable();
    let winners = winning_names(&mut found.entries, &found.names);
    let mut tables = Tables {
        inodes: inode_table(&found, &winners),
        nodes: found.nodes.iter().map(|node| node.place).collect(),
        entries: Vec::new(),
        names: Vec::new(),
        pairs: found.pairs,
        xrefs: found.xrefs,
    };
    tables.pairs.sort_unstable();
    tables.xrefs.sort_unstable();
    add_entries(&mut tables, &winners, &found.names, findings);
    count_links(&mut tables, findings);
    limit_directory_names(&mut tables, findings);
    tables
}

/// One entry for each directory and name: the highest version, of equal ones the last
/// (spec: jffs2 7). Deletions are among them.
fn winning_names(entries: &mut Vec<EntryRef>, names: &[u8]) -> Vec<EntryRef> {
    let name = |entry: &EntryRef| &names[entry.name as usize..][..usize::from(entry.name_len)];
    // The sort is stable, so that entries of one version stay in flash order.
    entries.sort_by(|a, b| (a.pino, name(a), a.version).cmp(&(b.pino, name(b), b.version)));
    let entries = std::mem::take(entries);
    let is_last = |index: usize| {
        entries.get(index + 1).is_none_or(|next| {
            (next.pino, name(next)) != (entries[index].pino, name(&entries[index]))
        })
    };
    (0..entries.len()).filter(|index| is_last(*index)).map(|index| entries[index]).collect()
}

/// All inodes that have a node or an entry, and the root.
fn inode_table(found: &Found, winners: &[EntryRef]) -> Vec<InodeInfo> {
    let mut numbers: Vec<u32> = found.nodes.iter().map(|node| node.ino).collect();
    numbers.extend(winners.iter().map(|entry| entry.pino));
    numbers.push(ROOT_INO);
    numbers.sort_unstable();
    numbers.dedup();
    let (mut node, mut entry) = (0, 0);
    let mut table = Vec::with_capacity(numbers.len() + 1);
    for ino in numbers {
        let mut info = InodeInfo { ino, nodes: node as u32, ..InodeInfo::default() };
        while found.nodes.get(node).is_some_and(|node| node.ino == ino) {
            node += 1;
        }
        while let Some(winner) = winners.get(entry).filter(|winner| winner.pino == ino) {
            if winner.mctime != 0 {
                info.mctime = info.mctime.max((winner.version, winner.mctime));
            }
            entry += 1;
        }
        table.push(info);
    }
    table.push(InodeInfo { nodes: node as u32, ..InodeInfo::default() });
    table
}

fn add_entries(tables: &mut Tables, winners: &[EntryRef], names: &[u8], findings: &mut Findings) {
    let mut next = 0;
    for index in 0..tables.inodes.len() {
        let pino = tables.inodes[index].ino;
        tables.inodes[index].entries = tables.entries.len() as u32;
        let is_real = index + 1 < tables.inodes.len();
        while let Some(winner) = winners.get(next).filter(|winner| is_real && winner.pino == pino) {
            next += 1;
            let name = &names[winner.name as usize..][..usize::from(winner.name_len)];
            if winner.ino == 0 {
                continue;
            }
            let at = Location::Inode(pino.into());
            let shown = name.escape_ascii();
            if matches!(name, b"." | b"..") || name.contains(&b'/') {
                findings.error(at, "name-not-allowed", format!("name `{shown}` left out"));
            } else if tables.index(winner.ino).is_none() {
                let message = format!("name `{shown}` of inode {}, which has no node", winner.ino);
                findings.warn(at, "dangling-name", message);
            } else {
                let start = tables.names.len() as u32;
                tables.names.extend_from_slice(name);
                tables.entries.push(Entry {
                    ino: winner.ino,
                    name: start,
                    name_len: winner.name_len,
                    file_type: winner.file_type,
                });
            }
        }
    }
}

/// Counts the names that can be reached from the root: what none of them leads to is gone
/// (spec: jffs2 12.7, passes 1 and 2). Directories that were deleted may still name each other in a
/// circle, since the deletions of their names are the first to go.
fn count_links(tables: &mut Tables, findings: &mut Findings) {
    let mut queue: Vec<usize> = tables.index(ROOT_INO).into_iter().collect();
    for root in &queue {
        tables.inodes[*root].links = 1;
    }
    while let Some(index) = queue.pop() {
        for number in tables.inodes[index].entries..tables.inodes[index + 1].entries {
            let Some(child) = tables.index(tables.entries[number as usize].ino) else { continue };
            tables.inodes[child].links += 1;
            if tables.inodes[child].links == 1 {
                queue.push(child);
            }
        }
    }
    let is_orphan = |pair: &&[InodeInfo]| pair[0].links == 0 && pair[0].nodes < pair[1].nodes;
    let count = tables.inodes.windows(2).filter(is_orphan).count();
    if count > 0 {
        let message = format!("{count} inodes without a name left out");
        findings.note(Location::Whole, "orphans", message);
    }
}

/// A directory with several names would make a tree without end of a damaged image: a few are
/// shown, as an interrupted rename leaves them and Linux shows them, the rest is not.
fn limit_directory_names(tables: &mut Tables, findings: &mut Findings) {
    let mut targets: Vec<(u32, u32)> = tables
        .entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.file_type == TYPE_DIRECTORY)
        .map(|(number, entry)| (entry.ino, number as u32))
        .collect();
    targets.sort_unstable();
    let surplus: Vec<u32> =
        targets.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).collect();
    let mut hidden = Vec::new();
    for number in surplus {
        let entry = tables.entries[number as usize];
        let at = Location::Inode(entry.ino.into());
        let name = tables.name(&entry).escape_ascii().to_string();
        if hidden.is_empty() && findings_shown(findings) < SECOND_NAMES {
            findings.warn(at, "directory-named-twice", format!("second name `{name}`"));
        } else {
            findings.error(at, "directory-name-hidden", format!("name `{name}` left out"));
            hidden.push(number);
        }
    }
    hidden.sort_unstable();
    remove_entries(tables, &hidden);
}

fn findings_shown(findings: &Findings) -> usize {
    findings.iter().filter(|finding| finding.code == "directory-named-twice").count()
}

fn remove_entries(tables: &mut Tables, numbers: &[u32]) {
    if numbers.is_empty() {
        return;
    }
    for info in &mut tables.inodes {
        info.entries -= numbers.partition_point(|number| *number < info.entries) as u32;
    }
    let mut number = 0_u32;
    tables.entries.retain(|_| {
        let keep = numbers.binary_search(&number).is_err();
        number += 1;
        keep
    });
}
