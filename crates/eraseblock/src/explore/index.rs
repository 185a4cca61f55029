//! The census in memory: a row for each block, and few bytes for each structure.

use super::dump::Dump;
use super::{ROWS, answered};
use crate::documents::Sum;
use crate::error::Error;
use crate::observe::Observer;
use eraseblock_census::{Census, Entry, Family, State, What, walk};
use eraseblock_explore::{Question, Refusal};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Blocks at most.
const MOST_BLOCKS: u64 = 1 << 20;
/// Structures that are kept at most.
const MOST_NODES: usize = 2 << 20;
/// Blocks that are read between two looks at these limits.
const GROUP: usize = 256;
/// A sequence of bytes that no reference leads to.
const NOBODY: u64 = u64::MAX;

/// A block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) segment: usize,
    /// Its number in the segment.
    pub(super) number: u32,
    pub(super) at: u64,
    pub(super) len: u64,
    /// Bytes by state.
    states: [u64; State::ALL.len()],
    records: u32,
    wrong_sums: u32,
    ec: Option<u64>,
    /// Volume and LEB.
    pub(super) leb: Option<(u32, u32)>,
    sqnums: Option<(u64, u64)>,
    entropy: f32,
}

/// A structure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) kind: &'static str,
    pub(super) state: State,
    pub(super) ino: u32,
    by: u64,
}

/// The census.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) blocks: Vec<Block>,
    pub(super) nodes: Vec<Node>,
    /// Records and bytes by state.
    pub(super) states: BTreeMap<&'static str, Sum>,
    pub(super) kinds: Vec<KindRow>,
    /// Corrected bits of each block of a dump.
    corrected: Vec<u64>,
    bad: Vec<u64>,
}

/// Structures of one kind in one state.
#[derive(Debug, Serialize)]
pub(super) struct KindRow {
    kind: &'static str,
    state: &'static str,
    records: u64,
    bytes: u64,
}

/// A segment of the image.
#[derive(Debug, Serialize)]
pub(super) struct SegmentRow {
    format: &'static str,
    offset: u64,
    len: u64,
    block_size: Option<u32>,
    first_block: usize,
}

type Kinds = BTreeMap<(&'static str, State), (u64, u64)>;

/// What one block consists of.
struct Part {
    block: Block,
    nodes: Vec<Node>,
    kinds: Kinds,
}

impl Index {
    /// Reads the whole image.
    pub(super) fn take(
        census: &Census,
        dump: Option<&Dump>,
        observer: &dyn Observer,
    ) -> Result<Self, Error> {
        let places = places(census)?;
        let meter = observer.progress(places.len() as u64, "census");
        let mut index = Self {
            blocks: Vec::with_capacity(places.len()),
            nodes: Vec::new(),
            states: BTreeMap::new(),
            kinds: Vec::new(),
            corrected: dump.map(|dump| dump.corrected.clone()).unwrap_or_default(),
            bad: dump.map(|dump| dump.bad.clone()).unwrap_or_default(),
        };
        let mut kinds = Kinds::new();
        for group in places.chunks(GROUP) {
            let parts: Result<Vec<Part>, std::io::Error> =
                group.par_iter().map(|block| part(census, block)).collect();
            for part in parts? {
                index.blocks.push(part.block);
                let room = MOST_NODES - index.nodes.len();
                index.nodes.extend(part.nodes.into_iter().take(room));
                for (key, (records, bytes)) in part.kinds {
                    let sum = kinds.entry(key).or_default();
                    *sum = (sum.0 + records, sum.1 + bytes);
                }
            }
            meter.advance(group.len() as u64);
        }
        for ((kind, state), (records, bytes)) in kinds {
            let sum = index.states.entry(state.name()).or_default();
            (sum.records, sum.bytes) = (sum.records + records, sum.bytes + bytes);
            index.kinds.push(KindRow { kind, state: state.name(), records, bytes });
        }
        Ok(index)
    }

    pub(super) fn segments(&self, census: &Census) -> Vec<SegmentRow> {
        let segments = census.plan().segments.iter().enumerate();
        let row = |(number, segment): (usize, &eraseblock_census::Segment)| SegmentRow {
            format: segment.format.name(),
            offset: segment.offset,
            len: segment.len,
            block_size: segment.format.block_size(),
            first_block: self.blocks.partition_point(|block| block.segment < number),
        };
        segments.map(row).collect()
    }

    /// Returns the number of the block that a byte is in.
    pub(super) fn block_at(&self, at: u64) -> Option<usize> {
        let after = self.blocks.partition_point(|block| block.at <= at);
        let number = after.checked_sub(1)?;
        (at < self.blocks[number].at + self.blocks[number].len).then_some(number)
    }

    /// Returns the structures that lie in a range of bytes.
    pub(super) fn nodes_in(&self, at: u64, len: u64) -> &[Node] {
        let first = self.nodes.partition_point(|node| node.at < at);
        let end = self.nodes.partition_point(|node| node.at < at + len);
        &self.nodes[first..end]
    }

    /// Returns the structures that the one at `at` refers to.
    pub(super) fn below(&self, at: u64) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.by == at && at != NOBODY)
    }

    /// Returns the structures of an inode of a volume.
    pub(super) fn of_inode(&self, volume: u32, ino: u32) -> impl Iterator<Item = &Node> {
        let is_own = move |node: &&Node| node.ino == ino && self.volume_of(node.at) == volume;
        self.nodes.iter().filter(is_own)
    }

    /// Returns the volume of a byte; 0 outside of volumes.
    pub(super) fn volume_of(&self, at: u64) -> u32 {
        let block = self.block_at(at).map(|number| &self.blocks[number]);
        block.and_then(|block| block.leb).map_or(0, |(volume, _)| volume)
    }

    /// Returns rows of blocks as columns; with `by` only that one.
    pub(super) fn blocks_document(&self, question: &Question) -> Result<Vec<u8>, Refusal> {
        let total = self.blocks.len();
        let from = usize::try_from(question.number("from", 0)?).unwrap_or(usize::MAX).min(total);
        let count = (total - from).min(ROWS);
        let rows = &self.blocks[from..from + count];
        let mut columns = serde_json::Map::new();
        for (name, column) in COLUMNS {
            if question.text("by").is_none_or(|by| by == name) {
                columns.insert(name.to_owned(), rows.iter().map(column).collect());
            }
        }
        for (number, state) in State::ALL.into_iter().enumerate() {
            let is_wanted = question.text("by").is_none_or(|by| by == state.name());
            if is_wanted && self.states.contains_key(state.name()) {
                let column = rows.iter().map(|block| Value::from(block.states[number])).collect();
                columns.insert(state.name().to_owned(), column);
            }
        }
        self.add_dump(question, from, count, &mut columns);
        if columns.is_empty() {
            return Err(Refusal::bad("by: there is no such column"));
        }
        let head = [("from", from), ("count", count), ("total", total)];
        columns.extend(head.map(|(name, number)| (name.to_owned(), number.into())));
        answered(&columns)
    }

    fn add_dump(
        &self,
        question: &Question,
        from: usize,
        count: usize,
        columns: &mut serde_json::Map<String, Value>,
    ) {
        if self.corrected.is_empty() {
            return;
        }
        let bits = |number: usize| self.corrected.get(number).copied().unwrap_or(0);
        let is_bad = |number: usize| self.bad.contains(&(number as u64));
        if question.text("by").is_none_or(|by| by == "corrected_bits") {
            let column = (from..from + count).map(|number| Value::from(bits(number))).collect();
            columns.insert("corrected_bits".to_owned(), column);
        }
        if question.text("by").is_none_or(|by| by == "is_bad") {
            let column = (from..from + count).map(|number| Value::from(is_bad(number))).collect();
            columns.insert("is_bad".to_owned(), column);
        }
    }
}

type Column = fn(&Block) -> Value;

/// The columns of blocks, beside those of states.
const COLUMNS: [(&str, Column); 13] = [
    ("number", |block| block.number.into()),
    ("segment", |block| block.segment.into()),
    ("at", |block| block.at.into()),
    ("len", |block| block.len.into()),
    ("state", |block| block.most().name().into()),
    ("records", |block| block.records.into()),
    ("wrong_sums", |block| block.wrong_sums.into()),
    ("ec", |block| block.ec.into()),
    ("volume", |block| block.leb.map(|leb| leb.0).into()),
    ("leb", |block| block.leb.map(|leb| leb.1).into()),
    ("sqnum_min", |block| block.sqnums.map(|range| range.0).into()),
    ("sqnum_max", |block| block.sqnums.map(|range| range.1).into()),
    ("entropy", |block| block.entropy.into()),
];

impl Block {
    /// Returns the state of most of its bytes; headers and erased bytes count only if there is nothing
    /// else.
    fn most(&self) -> State {
        let of = |state: State| self.states[state as usize];
        let telling = State::ALL
            .into_iter()
            .filter(|state| !matches!(state, State::Free | State::Padding | State::Live))
            .max_by_key(|state| of(*state))
            .filter(|state| of(*state) > of(State::Live));
        match telling {
            Some(state) => state,
            None if of(State::Live) > u64::from(HEADERS) => State::Live,
            None if of(State::Free) > 0 => State::Free,
            None => State::Live,
        }
    }
}

/// Bytes of the headers of an erased block.
const HEADERS: u32 = 128;

/// Cuts all segments into blocks.
fn places(census: &Census) -> Result<Vec<Block>, Error> {
    let mut places = Vec::new();
    for (segment, it) in census.plan().segments.iter().enumerate() {
        let size = it.format.block_size().map_or(walk::WINDOW, u64::from).max(1);
        let count = it.len.div_ceil(size);
        if places.len() as u64 + count > MOST_BLOCKS {
            return Err(Error::new(format!(
                "more than {MOST_BLOCKS} blocks: too many for the page"
            )));
        }
        for number in 0..count {
            let at = it.offset + number * size;
            places.push(Block {
                segment,
                // Their number is bounded.
                number: u32::try_from(number).unwrap_or(u32::MAX),
                at,
                len: size.min(it.end() - at),
                states: [0; State::ALL.len()],
                records: 0,
                wrong_sums: 0,
                ec: None,
                leb: None,
                sqnums: None,
                entropy: 0.0,
            });
        }
    }
    Ok(places)
}

/// Looks at one block.
fn part(census: &Census, block: &Block) -> std::io::Result<Part> {
    let mut part = Part { block: block.clone(), nodes: Vec::new(), kinds: Kinds::new() };
    let mut bytes = [0_u64; 256];
    census.walk_block(block.segment, block.at, &mut |entry| {
        part.take(entry);
        match entry.record.what {
            What::Run(byte) => bytes[usize::from(byte)] += entry.record.len,
            _ => entry.record.bytes.iter().for_each(|byte| bytes[usize::from(*byte)] += 1),
        }
        Ok(())
    })?;
    part.block.entropy = entropy(&bytes);
    Ok(part)
}

impl Part {
    fn take(&mut self, entry: &Entry<'_>) {
        let (record, block) = (entry.record, &mut self.block);
        block.states[entry.state as usize] += record.len;
        block.records += 1;
        block.wrong_sums += u32::from(entry.sums_hold == Some(false));
        block.leb = record.vid.map(|vid| (vid.volume.get(), vid.leb.get())).or(block.leb);
        let kind = entry.kind();
        let sum = self.kinds.entry((kind, entry.state)).or_default();
        *sum = (sum.0 + 1, sum.1 + record.len);
        let (Some(structure), What::Structure { family, .. }) = (entry.structure, record.what)
        else {
            return;
        };
        let number =
            |label: &str| structure.part(label).map(|_| structure.number(label, record.bytes));
        if kind == "ubi.ec" {
            block.ec = number("ec");
        }
        if let Some(sqnum) =
            number("sqnum").or_else(|| number("version")).filter(|_| entry.sums_hold != Some(false))
        {
            let (least, most) = block.sqnums.unwrap_or((sqnum, sqnum));
            block.sqnums = Some((least.min(sqnum), most.max(sqnum)));
        }
        let ino = match family {
            Family::Ubifs => structure.part("key").map(|part| {
                let start = part.field.bit as usize / 8;
                let own = record.bytes.get(start..start + 4).unwrap_or(&[0; 4]);
                own.iter().rev().fold(0, |ino, byte| ino << 8 | u64::from(*byte))
            }),
            Family::Jffs2 => number("ino").filter(|_| kind == "jffs2.inode"),
            Family::Ubi | Family::Lpt(_) => None,
        };
        self.nodes.push(Node {
            at: record.offset,
            len: u32::try_from(record.len).unwrap_or(u32::MAX),
            kind,
            state: entry.state,
            ino: ino.and_then(|ino| u32::try_from(ino).ok()).unwrap_or(0),
            by: entry.by.unwrap_or(NOBODY),
        });
    }
}

/// Returns the entropy in bits a byte, in tenths.
fn entropy(counts: &[u64; 256]) -> f32 {
    let total: u64 = counts.iter().sum();
    let part = |count: &u64| {
        #[allow(clippy::cast_precision_loss)] // a block has less than 2^53 bytes
        let share = *count as f64 / total.max(1) as f64;
        if share > 0.0 { -share * share.log2() } else { 0.0 }
    };
    let bits: f64 = counts.iter().map(part).sum();
    #[allow(clippy::cast_possible_truncation)] // between 0 and 8
    let tenths = (bits * 10.0).round() as f32;
    tenths / 10.0
}
