//! What differs between two images: nodes, matched by what they are rather than where they are, and
//! blocks.
//!
//! # Invariants
//! 1. At most 64 bytes are kept for a node, and for a block.
//! 2. The changes come in the order of the first image, what only the second has at the end.

pub mod tree;

use crate::segment::{Format, Plan};
use crate::text;
use crate::walk::{Family, Record, Tables, What, walk};
use eraseblock_base::field::Structure;
use eraseblock_mtd::ReadAt;
use eraseblock_ubi_format::fields::{EC, VID};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

/// An image to be compared.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its bytes.
    pub image: &'a dyn ReadAt,
    /// How it is cut.
    pub plan: &'a Plan,
}

/// What happened to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeChange {
    /// Only the second image has it.
    Added {
        /// Its place there.
        to: String,
        /// Its line of text.
        text: String,
    },
    /// Only the first image has it.
    Gone {
        /// Its place there.
        at: String,
        /// Its line of text.
        text: String,
    },
    /// It has other content.
    Changed {
        /// Its place in the first image.
        at: String,
        /// Its place in the second.
        to: String,
        /// Its kind.
        kind: &'static str,
        /// Fields that differ: label, value in the first and in the second image.
        fields: Vec<(String, String, String)>,
    },
    /// It is the same at another place.
    Moved {
        /// Its place in the first image.
        at: String,
        /// Its place in the second.
        to: String,
        /// Its kind.
        kind: &'static str,
    },
}

/// A node, in 48 bytes.
#[derive(Clone, Copy)]
struct Node {
    /// What it is, as a number.
    identity: u64,
    content: u64,
    offset: u64,
    len: u32,
    segment: u32,
    family: Family,
    kind: u8,
    /// Bytes at its end that fill up.
    fill: u8,
    /// Matched, or at the same place with the same content.
    is_done: bool,
}

/// Labels of the fields that say which node of its kind one is: all of them together.
const IDENTITY: [&str; 9] =
    ["sqnum", "key", "pino", "ino", "xid", "version", "xseqno", "cmt_no", "name"];

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// Returns what a node is: for those without a number of their own, that is where they are.
fn identity(plan: &Plan, structure: &Structure, record: &Record<'_>) -> u64 {
    let kind = structure.kind.as_bytes();
    let volume = record.vid.map_or(0, |vid| vid.volume.get()).to_le_bytes();
    if let What::Structure { family: Family::Ubi | Family::Lpt(_), kind: index, .. } = record.what {
        let segment = &plan.segments[record.segment];
        return match record.vid.filter(|_| index != EC) {
            // The same LEB may be in another eraseblock.
            Some(vid) => {
                let size = segment.format.block_size().map_or(1, u64::from);
                let offset = (record.offset - segment.offset) % size;
                hash(&[kind, &volume, &vid.leb.get().to_le_bytes(), &offset.to_le_bytes()])
            }
            None => hash(&[kind, segment.place(record.offset).as_bytes()]),
        };
    }
    let mut parts = vec![kind, &volume];
    for label in IDENTITY {
        if let Some(part) = structure.part(label) {
            let start = part.field.bit as usize / 8;
            let end = start + part.field.bits as usize / 8;
            parts.push(record.bytes.get(start..end).unwrap_or_default());
        }
    }
    // Versions count within a name.
    if structure.kind == "jffs2.dirent" {
        parts.push(record.bytes.get(structure.head_len()..).unwrap_or_default());
    }
    hash(&parts)
}

fn nodes(side: Side<'_>, tables: &Tables) -> io::Result<Vec<Node>> {
    let mut nodes = Vec::new();
    walk(side.image, side.plan, tables, &mut |record| {
        if let Some(structure) = tables.structure(side.plan, record)
            && let What::Structure { family, kind, len } = record.what
        {
            nodes.push(Node {
                identity: identity(side.plan, structure, record),
                content: hash(&[record.bytes]),
                offset: record.offset,
                len: record.bytes.len() as u32,
                segment: record.segment as u32,
                family,
                kind: kind as u8,
                fill: record.bytes.len().saturating_sub(len) as u8,
                is_done: false,
            });
        }
        Ok(())
    })?;
    Ok(nodes)
}

/// Hands the differences between the nodes of two images to `sink`; returns whether there are none.
/// Bytes that are no node are not compared.
///
/// # Errors
///
/// Fails if an image cannot be read, or with an error of `sink`.
pub fn by_nodes(
    first: Side<'_>,
    second: Side<'_>,
    sink: &mut dyn FnMut(NodeChange) -> io::Result<()>,
) -> io::Result<bool> {
    let tables = Tables::new();
    let (mut old, mut new) = (nodes(first, &tables)?, nodes(second, &tables)?);
    let mut same = true;
    skip_equal(&mut old, &mut new);
    let mut others: HashMap<u64, Vec<usize>> = HashMap::new();
    for (index, node) in new.iter().enumerate().rev().filter(|(_, node)| !node.is_done) {
        others.entry(node.identity).or_default().push(index);
    }
    for node in old.iter().filter(|node| !node.is_done) {
        same = false;
        let partners = others.get_mut(&node.identity).filter(|partners| !partners.is_empty());
        let Some(partners) = partners else {
            let (at, text) = (place(first, node), line(first, &tables, node)?);
            sink(NodeChange::Gone { at, text })?;
            continue;
        };
        let equal = partners.iter().rposition(|other| new[*other].content == node.content);
        let own = equal.unwrap_or(partners.len() - 1);
        let partner = partners.remove(own);
        new[partner].is_done = true;
        let other = new[partner];
        let (at, to) = (place(first, node), place(second, &other));
        let one = fields(first, &tables, node)?;
        let kind = one.0;
        if equal.is_some() {
            sink(NodeChange::Moved { at, to, kind })?;
        } else {
            let fields = differing(one.1, fields(second, &tables, &other)?.1);
            sink(NodeChange::Changed { at, to, kind, fields })?;
        }
    }
    for node in new.iter().filter(|node| !node.is_done) {
        same = false;
        let (to, text) = (place(second, node), line(second, &tables, node)?);
        sink(NodeChange::Added { to, text })?;
    }
    Ok(same)
}

/// Marks nodes that are equal at the same place.
fn skip_equal(old: &mut [Node], new: &mut [Node]) {
    let mut at = 0;
    for node in old {
        while new.get(at).is_some_and(|other| other.offset < node.offset) {
            at += 1;
        }
        if let Some(other) = new.get_mut(at)
            && (other.offset, other.content, other.identity)
                == (node.offset, node.content, node.identity)
        {
            (node.is_done, other.is_done) = (true, true);
        }
    }
}

fn place(side: Side<'_>, node: &Node) -> String {
    format!("@{}", side.plan.segments[node.segment as usize].place(node.offset))
}

/// Reads a node again.
fn bytes(side: Side<'_>, node: &Node) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; node.len as usize];
    side.image.read_exact_at(&mut bytes, node.offset)?;
    Ok(bytes)
}

/// Returns kind, labels and values of a node.
fn fields(
    side: Side<'_>,
    tables: &Tables,
    node: &Node,
) -> io::Result<(&'static str, Vec<(String, String)>)> {
    let bytes = bytes(side, node)?;
    let own = &bytes[..bytes.len() - usize::from(node.fill)];
    let known = tables.of(side.plan, node.segment as usize, node.family);
    Ok(known.map_or(("bytes", Vec::new()), |fields| text::fields_of(fields, node.kind.into(), own)))
}

fn line(side: Side<'_>, tables: &Tables, node: &Node) -> io::Result<String> {
    let (kind, fields) = fields(side, tables, node)?;
    let shown = fields.iter().map(|(label, value)| format!(" {label}={}", text::shortened(value)));
    Ok(format!("{kind}{}", shown.collect::<String>()))
}

/// Returns the fields whose values differ; a field that one node lacks is `-`.
fn differing(
    old: Vec<(String, String)>,
    new: Vec<(String, String)>,
) -> Vec<(String, String, String)> {
    let mut rest: BTreeMap<String, String> = new.into_iter().collect();
    let mut fields = Vec::new();
    for (label, value) in old {
        match rest.remove(&label) {
            Some(other) if other == value => {}
            Some(other) => fields.push((label, value, other)),
            None => fields.push((label, value, "-".to_owned())),
        }
    }
    fields.extend(rest.into_iter().map(|(label, value)| (label, "-".to_owned(), value)));
    fields
}

/// What happened to a block: a LEB of a UBI device, or a block of anything else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockChange {
    /// Only the second image has it.
    Added {
        /// Its name, as in `volume 0 leb 3`.
        block: String,
        /// Its place.
        to: u64,
    },
    /// Only the first image has it.
    Gone {
        /// Its name.
        block: String,
        /// Its place.
        at: u64,
    },
    /// The same content is in another eraseblock.
    Moved {
        /// Its name.
        block: String,
        /// Its place in the first image.
        at: u64,
        /// Its place in the second.
        to: u64,
    },
    /// It has other content.
    Rewritten {
        /// Its name.
        block: String,
        /// Its place in the first image.
        at: u64,
        /// Its place in the second.
        to: u64,
    },
    /// An eraseblock was erased more often, or less, or its counter is lost.
    Erased {
        /// The eraseblock.
        block: String,
        /// The counter in the first image.
        from: Option<u64>,
        /// The counter in the second.
        to: Option<u64>,
    },
}

/// The name of a block: the index of its segment, a volume or nothing, a number.
type Name = (usize, Option<u32>, u64);

/// A block.
#[derive(Clone, Copy)]
struct Block {
    number: u64,
    content: u64,
    sqnum: u64,
}

#[derive(Default)]
struct Blocks {
    /// The newest one of each name.
    content: BTreeMap<Name, Block>,
    /// Erase counters.
    counters: BTreeMap<(usize, u64), u64>,
}

/// A block while it is read.
struct Open {
    name: Name,
    number: u64,
    sqnum: u64,
    hasher: DefaultHasher,
    is_empty: bool,
}

impl Blocks {
    fn of(side: Side<'_>, tables: &Tables) -> io::Result<Self> {
        let mut blocks = Self::default();
        let mut open: Option<Open> = None;
        walk(side.image, side.plan, tables, &mut |record| {
            blocks.add(side.plan, record, &mut open);
            Ok(())
        })?;
        blocks.close(open);
        Ok(blocks)
    }

    fn add(&mut self, plan: &Plan, record: &Record<'_>, open: &mut Option<Open>) {
        let segment = &plan.segments[record.segment];
        let size = segment.format.block_size().map_or(1 << 20, u64::from);
        let number = (record.offset - segment.offset) / size;
        let data_offset = match segment.format {
            Format::Ubi(layout) => Some(u64::from(layout.data_offset())),
            _ => None,
        };
        let (is_ubi, data_offset) = (data_offset.is_some(), data_offset.unwrap_or(0));
        let is_same = |open: &Open| open.name.0 == record.segment && open.number == number;
        if !open.as_ref().is_some_and(is_same) {
            let name = (record.segment, None, number);
            let hasher = DefaultHasher::new();
            let fresh = Open { name, number, sqnum: 0, hasher, is_empty: true };
            self.close(open.replace(fresh));
        }
        let Some(open) = open else { return };
        match record.what {
            What::Structure { family: Family::Ubi, kind: EC, .. } if is_ubi => {
                let counter = eraseblock_base::field::number_at(
                    record.bytes,
                    64,
                    64,
                    eraseblock_base::field::Repr::Big,
                );
                self.counters.insert((record.segment, number), counter);
            }
            What::Structure { family: Family::Ubi, kind: VID, .. } if is_ubi => {
                if let Some(vid) = record.vid {
                    open.name = (record.segment, Some(vid.volume.get()), vid.leb.get().into());
                    open.sqnum = vid.sqnum.get();
                    open.is_empty = false;
                }
            }
            // What fills up between the headers is no content.
            _ if is_ubi && record.vid.is_none() => {}
            What::Run(_) if is_ubi && (record.offset - segment.offset) % size < data_offset => {}
            What::Run(0xFF) => {
                // Erased flash is the same in pieces of any length.
                (record.offset % size, record.len).hash(&mut open.hasher);
            }
            What::Run(byte) => {
                (byte, record.len).hash(&mut open.hasher);
                open.is_empty = false;
            }
            _ => {
                record.bytes.hash(&mut open.hasher);
                open.is_empty = false;
            }
        }
    }

    fn close(&mut self, open: Option<Open>) {
        let Some(open) = open.filter(|open| !open.is_empty) else { return };
        let Open { name, number, sqnum, hasher, .. } = open;
        let block = Block { number, content: hasher.finish(), sqnum };
        let known = self.content.entry(name).or_insert(block);
        if sqnum >= known.sqnum {
            *known = block;
        }
    }
}

fn called((_, volume, number): Name) -> String {
    match volume {
        Some(volume) => format!("volume {volume} leb {number}"),
        None => format!("block {number}"),
    }
}

/// Returns the differences between the blocks of two images. Erased blocks are none.
///
/// # Errors
///
/// Fails if an image cannot be read.
pub fn by_blocks(first: Side<'_>, second: Side<'_>) -> io::Result<Vec<BlockChange>> {
    let tables = Tables::new();
    let (old, mut new) = (Blocks::of(first, &tables)?, Blocks::of(second, &tables)?);
    let mut changes = Vec::new();
    for (name, block) in old.content {
        let at = block.number;
        let Some(other) = new.content.remove(&name) else {
            changes.push(BlockChange::Gone { block: called(name), at });
            continue;
        };
        let to = other.number;
        if other.content != block.content {
            changes.push(BlockChange::Rewritten { block: called(name), at, to });
        } else if to != at {
            changes.push(BlockChange::Moved { block: called(name), at, to });
        }
    }
    for (name, block) in new.content {
        changes.push(BlockChange::Added { block: called(name), to: block.number });
    }
    let mut counters = old.counters;
    for (place, to) in new.counters {
        let from = counters.remove(&place);
        if from != Some(to) {
            let block = format!("peb {}", place.1);
            changes.push(BlockChange::Erased { block, from, to: Some(to) });
        }
    }
    for (place, from) in counters {
        let block = format!("peb {}", place.1);
        changes.push(BlockChange::Erased { block, from: Some(from), to: None });
    }
    Ok(changes)
}
