//! What a block consists of, the fields of a structure, and bytes.

use super::index::Node;
use super::{Explorer, ROWS, answered, host};
use crate::text;
use eraseblock_census::text::shortened;
use eraseblock_census::{Census, Entry, Format, shown};
use eraseblock_explore::{Question, Refusal};
use serde::Serialize;

/// Bytes of a question about bytes at most.
const BYTES: u64 = 64 << 10;
/// References that are listed at most.
const REFERENCES: usize = 100;

/// A record of a block.
#[derive(Debug, Serialize)]
struct Row {
    /// Where it begins in the image.
    at: u64,
    len: u64,
    /// The address by which `debug` calls it.
    address: String,
    kind: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ino: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sqnum: Option<String>,
    /// Whether its checksums are right.
    #[serde(skip_serializing_if = "Option::is_none")]
    crc: Option<&'static str>,
    /// Where the node begins that refers to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<u64>,
}

#[derive(Serialize)]
struct BlockDocument {
    block: usize,
    number: u32,
    segment: usize,
    format: &'static str,
    at: u64,
    len: u64,
    volume: Option<u32>,
    leb: Option<u32>,
    /// Where the content of the LEB begins in the block.
    data_offset: u32,
    rows: Vec<Row>,
    from: u64,
    total: u64,
}

#[derive(Serialize)]
struct FieldRow {
    label: String,
    value: String,
    bit: u32,
    bits: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<String>,
}

#[derive(Serialize)]
struct NodeDocument {
    #[serde(flatten)]
    row: Row,
    block: Option<usize>,
    volume: Option<u32>,
    leb: Option<u32>,
    leb_offset: Option<u64>,
    fields: Vec<FieldRow>,
    /// Whether there are more fields.
    has_more: bool,
    refers_to: Vec<Reference>,
    referred_by: Option<Reference>,
}

#[derive(Serialize)]
struct Reference {
    at: u64,
    address: String,
    kind: &'static str,
    state: &'static str,
}

#[derive(Serialize)]
struct BytesDocument {
    at: u64,
    len: u64,
    hex: String,
}

impl Row {
    fn of(census: &Census, entry: &Entry<'_>) -> Self {
        let record = entry.record;
        let sums = |holds: bool| if holds { "ok" } else { "bad" };
        Self {
            at: record.offset,
            len: record.len,
            address: address(census, record.offset),
            kind: entry.kind(),
            state: entry.state.name(),
            key: entry.field(&["key"]),
            ino: entry.field(&["ino", "pino", "inum"]),
            sqnum: entry.field(&["sqnum", "version"]),
            crc: entry.sums_hold.map(sums),
            by: entry.by,
        }
    }
}

/// Returns the address of a byte, as `debug` takes it.
pub(super) fn address(census: &Census, at: u64) -> String {
    let segments = &census.plan().segments;
    let segment = segments.iter().find(|one| (one.offset..one.end()).contains(&at));
    match segment {
        Some(segment) if segment.format.block_size().is_some() && is_only(census) => {
            format!("@{}", segment.place(at))
        }
        _ => format!("byte {at}"),
    }
}

/// Returns whether an address in blocks can only mean one place.
fn is_only(census: &Census) -> bool {
    let has_blocks = |format: &Format| format.block_size().is_some();
    census.plan().segments.iter().filter(|one| has_blocks(&one.format)).count() == 1
}

impl Explorer {
    /// Answers about the records of a block.
    pub(super) fn block(&self, number: &str, question: &Question) -> Result<Vec<u8>, Refusal> {
        let number: usize = parse("the number of a block", number)?;
        let block = self.index.blocks.get(number);
        let block = block.ok_or_else(|| Refusal::missing(format!("there is no block {number}")))?;
        let from = question.number("from", 0)?;
        let (mut rows, mut total) = (Vec::new(), 0);
        let census = &self.census;
        let walked = census.walk_block(block.segment, block.at, &mut |entry| {
            if (from..from.saturating_add(ROWS as u64)).contains(&total) {
                rows.push(Row::of(census, entry));
            }
            total += 1;
            Ok(())
        });
        walked.map_err(|error| host(&error))?;
        let format = census.plan().segments[block.segment].format;
        let data_offset = match format {
            Format::Ubi(layout) => layout.data_offset(),
            _ => 0,
        };
        answered(&BlockDocument {
            block: number,
            number: block.number,
            segment: block.segment,
            format: format.name(),
            at: block.at,
            len: block.len,
            volume: block.leb.map(|leb| leb.0),
            leb: block.leb.map(|leb| leb.1),
            data_offset,
            rows,
            from,
            total,
        })
    }

    /// Answers about the block that holds a LEB: the one that the volume uses.
    pub(super) fn leb(
        &self,
        volume: &str,
        number: &str,
        question: &Question,
    ) -> Result<Vec<u8>, Refusal> {
        let wanted =
            (parse("the number of a volume", volume)?, parse("the number of a LEB", number)?);
        let is_bare = |it: &&eraseblock_census::Segment| matches!(it.format, Format::Ubifs { .. });
        let blocks = self.index.blocks.iter().enumerate();
        let all: Vec<usize> =
            blocks.filter(|(_, block)| block.leb == Some(wanted)).map(|(at, _)| at).collect();
        let current = all.iter().copied().find(|at| {
            let block = &self.index.blocks[*at];
            let nodes = self.index.nodes_in(block.at, block.len);
            nodes.iter().any(|node| node.kind == "ubi.vid" && node.state.name() == "live")
        });
        let bare = || {
            let segments = &self.census.plan().segments;
            let segment = segments.iter().position(|it| is_bare(&it))?;
            let is_it = |block: &super::index::Block| {
                block.segment == segment && (0, block.number) == wanted
            };
            self.index.blocks.iter().position(is_it)
        };
        let found = current.or_else(|| all.first().copied()).or_else(bare);
        let found = found.ok_or_else(|| Refusal::missing("no block holds this LEB"))?;
        self.block(&found.to_string(), question)
    }

    /// Answers about the structure at a byte.
    pub(super) fn node(&self, question: &Question) -> Result<Vec<u8>, Refusal> {
        let at = question.number("at", 0)?;
        let number = self.index.block_at(at);
        let number =
            number.ok_or_else(|| Refusal::bad(format!("byte {at} is not in the image")))?;
        let block = &self.index.blocks[number];
        let census = &self.census;
        let mut found = None;
        let walked = census.walk_block(block.segment, block.at, &mut |entry| {
            let record = entry.record;
            if (record.offset..record.offset + record.len).contains(&at) {
                let fields = shown::fields(census.plan(), census.tables(), record);
                found = Some((Row::of(census, entry), fields));
            }
            Ok(())
        });
        walked.map_err(|error| host(&error))?;
        let (row, fields) = found.ok_or_else(|| Refusal::missing("there is no record"))?;
        let has_more = fields.len() > ROWS;
        let fields = fields.into_iter().take(ROWS).map(|it| FieldRow {
            label: it.label,
            value: shortened(&it.value),
            bit: it.bit,
            bits: it.bits,
            expected: it.expected,
        });
        let data_offset = match census.plan().segments[block.segment].format {
            Format::Ubi(layout) => u64::from(layout.data_offset()),
            _ => 0,
        };
        let by = row
            .by
            .and_then(|by| self.index.nodes_in(by, 1).first().map(|node| self.reference(node)));
        let refers_to = self.index.below(row.at).take(REFERENCES);
        let refers_to = refers_to.map(|node| self.reference(node)).collect();
        answered(&NodeDocument {
            block: Some(number),
            volume: block.leb.map(|leb| leb.0),
            leb: block.leb.map(|leb| leb.1),
            leb_offset: (row.at - block.at).checked_sub(data_offset),
            fields: fields.collect(),
            has_more,
            refers_to,
            referred_by: by,
            row,
        })
    }

    fn reference(&self, node: &Node) -> Reference {
        let address = address(&self.census, node.at);
        Reference { at: node.at, address, kind: node.kind, state: node.state.name() }
    }

    /// Answers with bytes of the image.
    pub(super) fn bytes(&self, question: &Question) -> Result<Vec<u8>, Refusal> {
        let (at, len) = (question.number("at", 0)?, question.number("len", 256)?);
        if len > BYTES {
            return Err(Refusal::bad(format!("len: at most {BYTES} bytes at once")));
        }
        let size = self.census.plan().size;
        if at > size {
            return Err(Refusal::bad(format!("at: the image has {size} bytes")));
        }
        let len = len.min(size - at);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        let read = self.census.image().read_exact_at(&mut bytes, at);
        read.map_err(|error| host(&error))?;
        answered(&BytesDocument { at, len, hex: text::hex(&bytes) })
    }

    /// Returns place and length of the records of a block.
    pub(super) fn records_of(&self, number: usize) -> Vec<(u64, u64)> {
        let mut records = Vec::new();
        if let Some(block) = self.index.blocks.get(number) {
            // What cannot be read is left out of the report.
            let _ = self.census.walk_block(block.segment, block.at, &mut |entry| {
                records.push((entry.record.offset, entry.record.len));
                Ok(())
            });
        }
        records.truncate(ROWS);
        records
    }
}

pub(super) fn parse<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_| Refusal::bad(format!("expected {what}")))
}
