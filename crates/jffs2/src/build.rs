//! Builds the tree from nodes in flash order: which names and inodes are live (spec: jffs2 7,
//! 12.7).
//!
//! # Invariants
//! 1. `inodes` is sorted by number; the nodes and the entries of an inode start at its `nodes` and
//!    `entries` and end where those of the next one start. The last one is a sentinel.
//! 2. Entries of a directory have distinct names, in the order of their bytes, and name inodes that
//!    exist.

use crate::codes;
use crate::scan::{EntryRef, Found, PairRef, XrefRef};
use eraseblock_base::{Findings, Location};
use eraseblock_jffs2_format::constants::ROOT_INO;

/// DIRENT file type of directories.
const TYPE_DIRECTORY: u8 = 4;
/// Maximum number of additional names shown for a directory: an interrupted rename leaves one.
const SECOND_NAMES: usize = 4;

/// Stored information about an inode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InodeInfo {
    pub(crate) ino: u32,
    pub(crate) nodes: u32,
    pub(crate) entries: u32,
    /// Names that refer to it.
    pub(crate) links: u32,
}

const _: () = assert!(size_of::<InodeInfo>() == 16 && size_of::<Entry>() == 12);

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
    /// Directories whose times come from an entry: number, version and value of the newest one.
    times: Vec<(u32, u32, u32)>,
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

    /// Returns the information about an inode if it is live.
    pub(crate) fn inode(&self, ino: u32) -> Option<InodeInfo> {
        self.index(ino).map(|index| self.inodes[index]).filter(|info| info.links > 0)
    }

    /// Returns version and value of the newest time that an entry gave a directory; 0 if none did.
    pub(crate) fn mctime(&self, ino: u32) -> (u32, u32) {
        let found = self.times.binary_search_by_key(&ino, |time| time.0);
        found.map_or((0, 0), |index| (self.times[index].1, self.times[index].2))
    }

    /// Returns the places of the nodes of an inode, oldest version first.
    pub(crate) fn nodes(&self, ino: u32) -> &[u32] {
        self.index(ino).map_or(&[], |index| {
            let (this, next) = (self.inodes[index], self.inodes[index + 1]);
            &self.nodes[this.nodes as usize..next.nodes as usize]
        })
    }

    /// Returns the entries of a directory.
    pub(crate) fn entries(&self, ino: u32) -> &[Entry] {
        self.index(ino).map_or(&[], |index| {
            let (this, next) = (self.inodes[index], self.inodes[index + 1]);
            &self.entries[this.entries as usize..next.entries as usize]
        })
    }

    /// Returns the name of an entry.
    pub(crate) fn name(&self, entry: &Entry) -> &[u8] {
        &self.names[entry.name as usize..][..usize::from(entry.name_len)]
    }

    /// Returns the number of directories among the entries of an inode.
    pub(crate) fn subdirectories(&self, ino: u32) -> u32 {
        self.entries(ino).iter().filter(|entry| entry.file_type == TYPE_DIRECTORY).count() as u32
    }

    /// Returns the number of live inodes.
    pub(crate) fn live_inodes(&self) -> usize {
        self.inodes.iter().filter(|info| info.links > 0).count()
    }
}

/// Decides what is live. Frees tables as soon as they are not needed, because a full flash has many
/// nodes.
pub(crate) fn build(mut found: Found, findings: &mut Findings) -> Tables {
    findings.append(std::mem::take(&mut found.findings));
    found.nodes.sort_unstable();
    keep_winning_names(&mut found.entries, &found.names);
    let inodes = inode_table(&found);
    let nodes = std::mem::take(&mut found.nodes).iter().map(|node| node.place).collect();
    let mut tables = Tables {
        nodes,
        inodes,
        times: newest_times(&found.entries),
        entries: Vec::new(),
        names: found.names,
        pairs: found.pairs,
        xrefs: found.xrefs,
    };
    tables.pairs.sort_unstable();
    tables.xrefs.sort_unstable();
    add_entries(&mut tables, found.entries, findings);
    count_links(&mut tables, findings);
    limit_directory_names(&mut tables, findings);
    tables
}

/// Keeps one entry for each directory and name: the highest version, of equal ones the last (spec:
/// jffs2 7). This includes deletions.
fn keep_winning_names(entries: &mut Vec<EntryRef>, names: &[u8]) {
    let name = |entry: &EntryRef| &names[entry.name as usize..][..usize::from(entry.name_len)];
    // Names lie in flash order: of equal versions, the one whose name lies last is the last.
    entries.sort_unstable_by(|a, b| {
        let newest_first = (b.version, b.name).cmp(&(a.version, a.name));
        (a.pino, name(a)).cmp(&(b.pino, name(b))).then(newest_first)
    });
    entries.dedup_by(|next, first| (next.pino, name(next)) == (first.pino, name(first)));
}

/// Returns all inodes that have a node or an entry, and the root.
fn inode_table(found: &Found) -> Vec<InodeInfo> {
    let (mut node, mut entry, mut is_root_in) = (0, 0, false);
    let with_nodes = found.nodes.chunk_by(|a, b| a.ino == b.ino).count();
    let with_entries = found.entries.chunk_by(|a, b| a.pino == b.pino).count();
    let mut table = Vec::with_capacity(with_nodes + with_entries + 2);
    loop {
        let with_node = found.nodes.get(node).map(|node| node.ino);
        let with_entry = found.entries.get(entry).map(|entry| entry.pino);
        let root = (!is_root_in).then_some(ROOT_INO);
        let Some(ino) = [with_node, with_entry, root].into_iter().flatten().min() else { break };
        is_root_in |= ino == ROOT_INO;
        table.push(InodeInfo { ino, nodes: node as u32, ..InodeInfo::default() });
        while found.nodes.get(node).is_some_and(|node| node.ino == ino) {
            node += 1;
        }
        while found.entries.get(entry).is_some_and(|winner| winner.pino == ino) {
            entry += 1;
        }
    }
    table.push(InodeInfo { nodes: node as u32, ..InodeInfo::default() });
    table.shrink_to_fit();
    table
}

fn newest_times(winners: &[EntryRef]) -> Vec<(u32, u32, u32)> {
    let of_directory = |entries: &[EntryRef]| {
        let with_time = entries.iter().filter(|entry| entry.mctime != 0);
        let newest = with_time.map(|entry| (entry.version, entry.mctime)).max()?;
        Some((entries.first()?.pino, newest.0, newest.1))
    };
    winners.chunk_by(|a, b| a.pino == b.pino).filter_map(of_directory).collect()
}

fn add_entries(tables: &mut Tables, winners: Vec<EntryRef>, findings: &mut Findings) {
    let mut winners = winners.into_iter().peekable();
    tables.entries.reserve_exact(winners.len());
    for index in 0..tables.inodes.len() {
        let pino = tables.inodes[index].ino;
        tables.inodes[index].entries = tables.entries.len() as u32;
        let is_real = index + 1 < tables.inodes.len();
        while let Some(winner) = winners.next_if(|winner| is_real && winner.pino == pino) {
            if winner.ino == 0 {
                continue;
            }
            let (ino, file_type) = (winner.ino, winner.file_type);
            let entry = Entry { ino, name: winner.name, name_len: winner.name_len, file_type };
            let name = tables.name(&entry);
            let at = Location::Inode(pino.into());
            let shown = name.escape_ascii();
            if matches!(name, b"." | b"..") || name.contains(&b'/') {
                findings.error(at, "name-not-allowed", format!("name `{shown}` left out"));
            } else if tables.index(ino).is_none() {
                let message = format!("name `{shown}` of inode {ino}, which has no node");
                findings.warn(at, codes::DANGLING_NAME, message);
            } else {
                tables.entries.push(entry);
            }
        }
    }
}

/// Counts the names that can be reached from the root; unreachable inodes are deleted (spec: jffs2
/// 12.7, passes 1 and 2). Deleted directories may still contain each other in a cycle, because the
/// deletions of their names are collected first.
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
        findings.note(Location::Whole, "orphans", deleted_inodes(count));
    }
}

/// Returns the message about inodes without a name.
pub(crate) fn deleted_inodes(count: usize) -> String {
    format!(
        "inodes without a name: {count}; this is normal: what is deleted stays on the flash until \
         its blocks are collected"
    )
}

/// In a damaged image, directories with several names could form an endless tree. A few names are
/// shown, because an interrupted rename leaves them and Linux shows them; others are not.
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
