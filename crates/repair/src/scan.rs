//! Every node of a volume, found without an index.
//!
//! # Invariants
//! 1. A node is listed only if its checksum holds.
//! 2. Memory is bounded by the number of nodes and the bytes of names and index nodes.

use crate::model::Leaf;
use eraseblock_base::align::{align_up, is_erased};
use eraseblock_base::raw::Raw;
use eraseblock_base::{Leb, Location};
use eraseblock_mtd::{LebDevice, MtdError};
use eraseblock_ubifs_format::constants::{
    BLOCK_SIZE, LOG_FIRST, MASTER_LEB, NODE_ALIGN, NODE_MAGIC, NodeType, SQNUM_LIMIT,
};
use eraseblock_ubifs_format::decode::{self, Limits, Node};
use eraseblock_ubifs_format::raw::{DentNode, InodeNode, TruncationNode};
use eraseblock_ubifs_format::scan::{Scanner, Stop};
use eraseblock_ubifs_format::{IndexNode, Key, KeyKind, Master, Superblock};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes from this sequence number on are not counted as the newest: the rest of the range would not
/// last for a session.
pub(crate) const SQNUM_SANE: u64 = SQNUM_LIMIT - (1 << 32);

/// What a node of the main area says.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Inode { nlink: u32, creat_sqnum: u64, size: u64 },
    Data,
    Entry { ino: u64, name: Box<[u8]> },
    Truncation { ino: u32, new_size: u64 },
    Index(Box<IndexNode>),
}

/// A node of the main area.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) leb: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) sqnum: u64,
    /// Of a leaf; for others the smallest.
    pub(crate) key: Key,
    pub(crate) what: What,
}

/// A node whose checksum is wrong, although its header and key can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Torn {
    pub(crate) leb: u32,
    pub(crate) offset: u32,
    pub(crate) key: Key,
    pub(crate) sqnum: u64,
    /// Whether only erased flash follows: a write that a power cut interrupted.
    pub(crate) is_tail: bool,
}

/// A LEB of the main area.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LebState {
    /// Whether a strict scan finds leaves and nothing else.
    pub(crate) is_clean: bool,
    /// Where its nodes end.
    pub(crate) end: u32,
}

/// The result of scanning.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// By ascending sequence number.
    pub(crate) nodes: Vec<Found>,
    pub(crate) torn: Vec<Torn>,
    pub(crate) lebs: BTreeMap<u32, LebState>,
    /// The master nodes, by ascending sequence number.
    pub(crate) masters: Vec<Master>,
    /// Sequence numbers of commit starts, by commit.
    pub(crate) commits: BTreeMap<u64, u64>,
    pub(crate) max_sqnum: u64,
    pub(crate) highest_inum: u32,
    pub(crate) max_commit: u64,
}

/// Scans all LEBs of the file system.
pub(crate) fn scan(device: &dyn LebDevice, sb: &Superblock) -> Scan {
    let limits = Limits::of(sb);
    let mut scan = Scan::default();
    let mut bytes = vec![0; sb.leb_size as usize];
    for leb in 0..sb.leb_cnt.min(device.leb_count()) {
        match read(device, leb, &mut bytes) {
            Ok(false) => {}
            Ok(true) if leb < sb.main_first() => scan.area(leb, &bytes, limits, sb),
            Ok(true) => scan.main(leb, &bytes, limits, sb),
            Err(_) => {
                scan.lebs.insert(leb, LebState::default());
            }
        }
    }
    scan.nodes.sort_by_key(|node| (node.sqnum, node.leb, node.offset));
    scan.masters.sort_by_key(|master| master.sqnum);
    scan
}

/// Reads a LEB; returns whether it holds anything.
fn read(device: &dyn LebDevice, leb: u32, bytes: &mut [u8]) -> Result<bool, MtdError> {
    let leb = Leb::new(leb);
    if !device.is_mapped(leb)? {
        return Ok(false);
    }
    if device.read(leb, 0, bytes)?.uncorrectable {
        // The checksums of the nodes say which of them are damaged.
        return Ok(true);
    }
    Ok(!is_erased(bytes))
}

impl Scan {
    fn count(&mut self, sqnum: u64) {
        if sqnum < SQNUM_SANE {
            self.max_sqnum = self.max_sqnum.max(sqnum);
        }
    }

    /// Returns whether there are leaves newer than the start of the last commit that are not among these, and
    /// were neither replaced nor deleted: a part of the journal to which no reference leads.
    pub(crate) fn has_more_journal(&self, leaves: &[Leaf]) -> bool {
        let start = self.commits.get(&self.max_commit).copied().unwrap_or(u64::MAX);
        let seen: BTreeSet<_> = leaves.iter().map(|leaf| (leaf.leb, leaf.offset)).collect();
        let mut newest: BTreeMap<(Key, &[u8]), &Found> = BTreeMap::new();
        for node in &self.nodes {
            let name = match &node.what {
                What::Inode { .. } | What::Data => &[],
                What::Entry { name, .. } => &**name,
                What::Truncation { .. } | What::Index(_) => continue,
            };
            newest.insert((node.key, name), node);
        }
        let is_in_use = |node: &Found| {
            let inode = newest.get(&(Key::inode(node.key.ino()), &[][..]));
            match (&node.what, inode.map(|inode| &inode.what)) {
                (What::Entry { ino: 0, .. }, _) | (_, Some(What::Inode { nlink: 0, .. })) => false,
                (What::Data, Some(What::Inode { size, .. })) => {
                    u64::from(node.key.value()) * u64::from(BLOCK_SIZE) < *size
                }
                _ => true,
            }
        };
        newest.values().any(|node| {
            node.sqnum > start && !seen.contains(&(node.leb, node.offset)) && is_in_use(node)
        })
    }

    /// Superblock, masters, log, LPT and orphans.
    fn area(&mut self, leb: u32, bytes: &[u8], limits: Limits, sb: &Superblock) {
        each(leb, bytes, limits, &mut |_, node| {
            self.count(node.header.sqnum);
            match node.header.node_type {
                NodeType::Master if (MASTER_LEB..LOG_FIRST).contains(&leb) => {
                    self.masters.extend(node.master());
                }
                NodeType::CommitStart if leb <= sb.log_last() => {
                    if let Ok(start) = node.commit_start()
                        && start.cmt_no < node.header.sqnum
                    {
                        self.commits.insert(start.cmt_no, node.header.sqnum);
                        self.max_commit = self.max_commit.max(start.cmt_no);
                    }
                }
                _ => {}
            }
        });
        // A commit takes more than one sequence number.
        let sound = self.masters.iter().filter(|master| master.cmt_no < master.sqnum);
        let newest = sound.map(|master| (master.cmt_no, master.highest_inum));
        for (commit, highest) in newest.collect::<Vec<_>>() {
            self.max_commit = self.max_commit.max(commit);
            self.highest_inum = self.highest_inum.max(u32::try_from(highest).unwrap_or(0));
        }
    }

    fn main(&mut self, leb: u32, bytes: &[u8], limits: Limits, sb: &Superblock) {
        let mut holds_leaves_only = true;
        let main = (sb.main_first(), sb.leb_cnt);
        each(leb, bytes, limits, &mut |offset, node| {
            self.count(node.header.sqnum);
            holds_leaves_only &= is_leaf(node.header.node_type);
            let Some((key, what)) = what(node, &limits, main) else { return };
            if let What::Inode { .. } = what {
                self.highest_inum = self.highest_inum.max(key.ino());
            }
            let (len, sqnum) = (node.header.len, node.header.sqnum);
            self.nodes.push(Found { leb, offset, len, sqnum, key, what });
        });
        self.torn_in(leb, bytes, limits, sb);
        let mut scanner = Scanner::new(Leb::new(leb), bytes, 0, limits);
        scanner.by_ref().for_each(drop);
        let is_clean = holds_leaves_only && scanner.strict_error(sb.min_io_size).is_none();
        self.lebs.insert(leb, LebState { is_clean, end: scanner.offset() });
    }

    fn torn_in(&mut self, leb: u32, bytes: &[u8], limits: Limits, sb: &Superblock) {
        let mut offset = 0;
        while let Some(at) = next_magic(bytes, offset) {
            offset = at + NODE_ALIGN;
            let rest = &bytes[at as usize..];
            let Some((torn, len)) = torn(leb, at, rest, &limits, sb) else { continue };
            let place = Location::Leb(Leb::new(leb), at);
            if decode::node(rest, &limits, place).is_ok() {
                offset = at + align_up(len, NODE_ALIGN);
                continue;
            }
            self.torn.push(torn);
        }
    }
}

/// Returns the leaf that begins here according to its header, and its length. Its checksum is not
/// looked at: other nodes may be as long as a LEB, and a hostile LEB may seem to be full of them.
fn torn(leb: u32, at: u32, rest: &[u8], limits: &Limits, sb: &Superblock) -> Option<(Torn, u32)> {
    let header = decode::header(rest, limits, Location::Leb(Leb::new(leb), at)).ok()?;
    let key = Key::from_bytes(*rest.get(24..32)?.first_chunk()?);
    let kind = match header.node_type {
        NodeType::Inode => KeyKind::Inode,
        NodeType::Data => KeyKind::Data,
        NodeType::Dent => KeyKind::Dent,
        NodeType::Xent => KeyKind::Xent,
        _ => return None,
    };
    let end = align_up(header.len, sb.min_io_size.max(NODE_ALIGN)) as usize;
    let is_tail = is_erased(rest.get(end..).unwrap_or_default());
    let is_sane = key.kind() == Some(kind) && header.sqnum < SQNUM_SANE;
    let torn = Torn { leb, offset: at, key, sqnum: header.sqnum, is_tail };
    is_sane.then_some((torn, header.len))
}

/// Returns whether nodes of this type belong into a LEB of leaves.
fn is_leaf(node_type: NodeType) -> bool {
    matches!(
        node_type,
        NodeType::Inode
            | NodeType::Data
            | NodeType::Dent
            | NodeType::Xent
            | NodeType::Truncation
            | NodeType::Auth
    )
}

fn what(node: &Node<'_>, limits: &Limits, main: (u32, u32)) -> Option<(Key, What)> {
    let bytes = node.bytes();
    Some(match node.header.node_type {
        NodeType::Inode => {
            let (raw, _) = InodeNode::split(bytes)?;
            let (nlink, size) = (raw.nlink.get(), raw.size.get());
            (node.key()?, What::Inode { nlink, creat_sqnum: raw.creat_sqnum.get(), size })
        }
        NodeType::Data => (node.key()?, What::Data),
        NodeType::Dent | NodeType::Xent => {
            let (raw, tail) = DentNode::split(bytes)?;
            let name = tail.split_last().map_or(&[][..], |(_, name)| name);
            (node.key()?, What::Entry { ino: raw.inum.get(), name: name.into() })
        }
        NodeType::Truncation => {
            let (raw, _) = TruncationNode::split(bytes)?;
            let (ino, new_size) = (raw.inum.get(), raw.new_size.get());
            (Key::inode(ino), What::Truncation { ino, new_size })
        }
        NodeType::Index => {
            (Key::MIN, What::Index(Box::new(node.index(limits, main.0, main.1).ok()?)))
        }
        _ => return None,
    })
}

/// How many times the size of a LEB is checksummed without success before the rest of it is given
/// up: only a LEB made to be slow needs more.
const MAX_WASTE: usize = 8;

/// Calls `sink` for each valid node of a LEB; goes on after damage where a node could start.
fn each(leb: u32, bytes: &[u8], limits: Limits, sink: &mut dyn FnMut(u32, &Node<'_>)) {
    let (mut offset, mut wasted) = (0, 0);
    while (offset as usize) < bytes.len() && wasted < bytes.len() * MAX_WASTE {
        let mut scanner = Scanner::new(Leb::new(leb), bytes, offset, limits);
        for (at, node) in scanner.by_ref() {
            sink(at, &node);
        }
        let stopped = bytes.get(scanner.offset() as usize..).unwrap_or_default();
        if scanner.stop() == Some(&Stop::End) && is_erased(stopped) {
            return;
        }
        let header = decode::header(stopped, &limits, Location::leb(Leb::new(leb)));
        wasted += header.map_or(0, |header| header.len as usize);
        let behind = (scanner.offset() + 1).next_multiple_of(NODE_ALIGN);
        let Some(next) = next_magic(bytes, behind) else { return };
        offset = next;
    }
}

/// Returns the next multiple of 8 from `from` at which a node could start.
fn next_magic(bytes: &[u8], from: u32) -> Option<u32> {
    let magic = NODE_MAGIC.to_le_bytes();
    let mut words = bytes.get(from as usize..)?.chunks(NODE_ALIGN as usize);
    let index = words.position(|word| word.starts_with(&magic))?;
    Some(from + index as u32 * NODE_ALIGN)
}
