//! Eraseblocks, filled with consecutive nodes.
//!
//! # Invariants
//! 1. `block` begins with the cleanmarker, if there are any, and never holds more than a block.
//! 2. With summaries, the free space in `block` is sufficient for the list of the nodes in it.

use super::error::MkfsError;
use super::options::Padding;
use eraseblock_base::Location;
use eraseblock_jffs2_format::constants::HEADER_LEN;
use eraseblock_jffs2_format::summary::{self, Record, Summary};
use eraseblock_jffs2_format::{ByteOrder, decode, encode};
use std::io::Write;

/// Bytes of records and filler that Linux accepts in a summary (spec: jffs2 16).
const MAX_SUMMARY: u32 = 65536;

/// The form of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockShape {
    pub(super) order: ByteOrder,
    pub(super) size: u32,
    pub(super) cleanmarker: u32,
    pub(super) summary: bool,
    pub(super) limit: Option<u64>,
}

/// The blocks of an image being written.
pub(super) struct Blocks<'a> {
    shape: BlockShape,
    out: &'a mut (dyn Write + Send),
    block: Vec<u8>,
    records: Vec<Record>,
    record_bytes: u32,
    /// Whether everything in the block can be listed.
    listable: bool,
    written: u64,
    count: u32,
    summaries: u64,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(shape: BlockShape, out: &'a mut (dyn Write + Send)) -> Self {
        let block = Vec::with_capacity(shape.size as usize);
        let mut blocks = Self {
            shape,
            out,
            block,
            records: Vec::new(),
            record_bytes: 0,
            listable: true,
            written: 0,
            count: 0,
            summaries: 0,
        };
        blocks.begin();
        blocks
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn summaries(&self) -> u64 {
        self.summaries
    }

    fn begin(&mut self) {
        self.block.clear();
        self.records.clear();
        self.record_bytes = 0;
        self.listable = true;
        if self.shape.cleanmarker > 0 {
            encode::cleanmarker(self.shape.order, self.shape.cleanmarker, &mut self.block);
        }
    }

    /// Returns whether the block holds nothing but its cleanmarker.
    fn is_fresh(&self) -> bool {
        self.block.len() <= (self.shape.cleanmarker as usize).next_multiple_of(4)
    }

    /// Returns the number of bytes of the block that a node may take whose record has this length.
    pub(super) fn room(&self, record: u32) -> u32 {
        let used = self.block.len() as u32;
        let listed = self.record_bytes + record;
        let kept = if self.shape.summary { summary::needed(listed) } else { 0 };
        (self.shape.size - used).saturating_sub(kept)
    }

    /// Like [`Self::room`], for an empty block.
    pub(super) fn fresh_room(shape: &BlockShape, record: u32) -> u32 {
        let kept = if shape.summary { summary::needed(record) } else { 0 };
        shape.size.saturating_sub(shape.cleanmarker.next_multiple_of(4)).saturating_sub(kept)
    }

    /// Appends a node, aligned and checked, or puts it into the next block if necessary. Returns
    /// false if it fits into no block.
    pub(super) fn place(&mut self, node: &[u8]) -> Result<bool, MkfsError> {
        let record = if self.shape.summary { self.record(node) } else { None };
        let listed = record.as_ref().map_or(0, Record::len);
        while (node.len() as u32) > self.room(listed) {
            if self.is_fresh() {
                return Ok(false);
            }
            self.next()?;
        }
        if let Some(record) = record {
            self.record_bytes += record.len();
            self.records.push(Record { offset: self.block.len() as u32, ..record });
        } else {
            self.listable = false;
        }
        self.block.extend_from_slice(node);
        Ok(true)
    }

    fn record(&self, node: &[u8]) -> Option<Record> {
        let order = self.shape.order;
        let header = decode::header(order, node, Location::Whole).ok()?;
        let bytes = node.get(..header.totlen as usize)?;
        Record::of(order, header.kind(), bytes, 0).ok()?
    }

    /// Closes the block, with a summary if there are any, and begins the next one.
    pub(super) fn next(&mut self) -> Result<(), MkfsError> {
        let Self { shape, block, records, .. } = self;
        let offset = block.len() as u32;
        let free = shape.size - offset;
        let fits = free >= summary::needed(self.record_bytes) && free - HEADER_LEN <= MAX_SUMMARY;
        if shape.summary && self.listable && fits && !records.is_empty() {
            let cleanmarker = shape.cleanmarker;
            let records = std::mem::take(records);
            let list = Summary { offset, cleanmarker, records };
            summary::encode(shape.order, &list, shape.size, block);
            self.summaries += 1;
        }
        block.resize(shape.size as usize, 0xFF);
        self.write_out()?;
        self.begin();
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), MkfsError> {
        self.written += self.block.len() as u64;
        self.count += u32::from(!self.block.is_empty());
        match self.shape.limit {
            Some(limit) if self.written > limit => Err(MkfsError::TooLarge { limit }),
            _ => self.out.write_all(&self.block).map_err(MkfsError::Output),
        }
    }

    /// Writes the last block and what follows it.
    pub(super) fn finish(&mut self, padding: Padding) -> Result<(), MkfsError> {
        if self.is_fresh() && self.written > 0 && padding == Padding::Block {
            return self.flush();
        }
        let block_size = u64::from(self.shape.size);
        let size = match padding {
            Padding::None => 0,
            Padding::Block => self.written + block_size,
            Padding::Size(size) => size.saturating_add(block_size - 1) / block_size * block_size,
        };
        while self.written + block_size <= size {
            self.block.resize(self.shape.size as usize, 0xFF);
            self.write_out()?;
            self.begin();
        }
        if !self.is_fresh() || self.written == 0 {
            self.write_out()?;
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), MkfsError> {
        self.out.flush().map_err(MkfsError::Output)
    }
}
