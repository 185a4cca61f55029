//! Reads content from flash: adjacent data nodes with one device read, and with read-ahead for
//! sequential readers (bulk read, spec: ubifs-runtime 21.4).
//!
//! # Invariants
//! 1. Read-ahead data is discarded before its LEB changes.
//! 2. Every node is checked as if it had been read alone; if nodes that were read together are
//!    wrong, each is read again alone.

use super::core::Core;
use super::data::{PAGES_AHEAD, Reading, copy_block, corrupt, last_key_of, whole_block};
use super::error::Step;
use super::flash::Flash;
use super::pages::PAGE;
use super::tnc::Zbranch;
use crate::read::codec_of;
use eraseblock_codec::decompress;
use std::sync::PoisonError;

/// Maximum size of a device read.
const MAX_SPAN: u32 = 256 << 10;
/// Maximum size of read-ahead.
const MAX_AHEAD: u32 = PAGES_AHEAD as u32 * 4144;
/// Number of consecutive reads of an inode before read-ahead starts.
const SEQUENTIAL: u32 = 3;

/// Read-ahead data, and its reader.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The inode that was read last.
    ino: u32,
    /// The end of that read.
    next: u64,
    /// Number of consecutive reads before it.
    in_a_row: u32,
    pub(super) leb: u32,
    offset: u32,
    /// The data from there; empty if there is none.
    pub(super) bytes: Vec<u8>,
}

impl Flash {
    /// Returns whether a read of this inode at this offset continues earlier ones.
    fn is_sequential(&self, ino: u32, offset: u64) -> bool {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        (ahead.ino, ahead.next) == (ino, offset) && ahead.in_a_row + 1 >= SEQUENTIAL
    }

    fn note_read(&self, ino: u32, offset: u64, len: usize) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = (ahead.ino, ahead.next) == (ino, offset);
        ahead.in_a_row = if goes_on { ahead.in_a_row.saturating_add(1) } else { 0 };
        ahead.ino = ino;
        ahead.next = offset + len as u64;
    }

    /// Copies read-ahead data if it covers the whole range.
    fn take_ahead(&self, leb: u32, offset: u32, buf: &mut [u8]) -> bool {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let start = offset.checked_sub(ahead.offset).filter(|_| ahead.leb == leb);
        let bytes = start.and_then(|start| ahead.bytes.get(start as usize..)?.get(..buf.len()));
        bytes.map(|bytes| buf.copy_from_slice(bytes)).is_some()
    }

    fn keep_ahead(&self, leb: u32, offset: u32, bytes: Vec<u8>) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        (ahead.leb, ahead.offset, ahead.bytes) = (leb, offset, bytes);
    }
}

impl Core {
    /// Returns the number of bytes from `offset` to look up for a read of `len` bytes.
    pub(super) fn window(&self, ino: u32, offset: u64, len: usize) -> usize {
        let most = PAGES_AHEAD * PAGE;
        let ahead = self.options.bulk_read && len > 0 && len < most;
        if ahead && self.flash.is_sequential(ino, offset) { most } else { len }
    }

    /// Reads the nodes found for a range of bytes that is not empty.
    pub(super) fn read_nodes(
        &self,
        ino: u32,
        offset: u64,
        buf: &mut [u8],
        reading: &mut Reading,
    ) -> Step<()> {
        let Reading { branches, raw } = reading;
        let last = last_key_of(ino, offset, buf.len());
        let mut wanted = branches.partition_point(|branch| branch.key <= last);
        let mut rest = branches.as_slice();
        while wanted > 0 {
            let together = if self.options.bulk_read { span_len(rest, MAX_SPAN) } else { 1 };
            let (span, behind) = rest.split_at(together.min(wanted));
            let ahead = if together > wanted { &rest[..span_len(rest, MAX_AHEAD)] } else { span };
            let read = self.fetch(span, ahead, raw);
            if read.and_then(|()| self.show_span(ino, offset, buf, span, raw)).is_err() {
                for node in span.chunks(1) {
                    self.read_together(node, raw)?;
                    self.show_span(ino, offset, buf, node, raw)?;
                }
            }
            wanted -= span.len();
            rest = behind;
        }
        if self.options.bulk_read {
            self.flash.note_read(ino, offset, buf.len());
        }
        Ok(())
    }

    /// Reads adjacent nodes, and with them the following ones in `ahead`.
    fn fetch(&self, span: &[Zbranch], ahead: &[Zbranch], raw: &mut Vec<u8>) -> Step<()> {
        let (Some(first), Some(last)) = (span.first(), span.last()) else { return Ok(()) };
        raw.resize((last.offset + last.len - first.offset) as usize, 0);
        if self.flash.take_ahead(first.leb, first.offset, raw) {
            return Ok(());
        }
        if ahead.len() <= span.len() {
            return self.read_together(span, raw);
        }
        let mut bytes = Vec::new();
        self.read_together(ahead, &mut bytes)?;
        let (now, _) = bytes.split_at(raw.len());
        raw.copy_from_slice(now);
        self.flash.keep_ahead(first.leb, first.offset, bytes);
        Ok(())
    }

    /// Reads adjacent nodes from the device.
    fn read_together(&self, span: &[Zbranch], raw: &mut Vec<u8>) -> Step<()> {
        let (Some(first), Some(last)) = (span.first(), span.last()) else { return Ok(()) };
        raw.resize((last.offset + last.len - first.offset) as usize, 0);
        self.read_node(first.leb, first.offset, raw)
    }

    /// Checks and unpacks nodes that were read together.
    fn show_span(
        &self,
        ino: u32,
        offset: u64,
        buf: &mut [u8],
        span: &[Zbranch],
        raw: &[u8],
    ) -> Step<()> {
        let start = span.first().map_or(0, |branch| branch.offset);
        let mut cut = None;
        for branch in span {
            let from = (branch.offset - start) as usize;
            let bytes = raw.get(from..from + branch.len as usize).unwrap_or_default();
            if let Some(block) = whole_block(offset, buf, branch.key.value()) {
                let size = self.decode_block(ino, branch, bytes, block)?;
                block[size..].fill(0);
                continue;
            }
            let block = cut.get_or_insert([0; PAGE]);
            let size = self.decode_block(ino, branch, bytes, block)?;
            block[size..].fill(0);
            copy_block(offset, buf, branch.key.value(), block);
        }
        Ok(())
    }

    /// Decompresses a data node; returns its length.
    pub(super) fn decode_block(
        &self,
        ino: u32,
        branch: &Zbranch,
        bytes: &[u8],
        block: &mut [u8; PAGE],
    ) -> Step<usize> {
        let data = self.check_leaf(branch, bytes)?.data()?;
        let size = data.size as usize;
        decompress(codec_of(data.compression), data.payload, &mut block[..size])
            .map_err(|error| corrupt(ino, branch, &error.to_string()))?;
        Ok(size)
    }
}

/// Returns the length of the longest prefix of `branches` (never empty) that is contiguous on flash
/// within `most` bytes.
fn span_len(branches: &[Zbranch], most: u32) -> usize {
    let joins = |pair: &[Zbranch]| {
        let [one, two] = pair else { return false };
        let end = one.offset.saturating_add(one.len).next_multiple_of(8);
        one.leb == two.leb && two.offset == end
    };
    let first = branches.first().map_or(0, |branch| branch.offset);
    let fits = |pair: &[Zbranch]| {
        pair.last().is_some_and(|last| last.offset.saturating_add(last.len) - first <= most)
    };
    1 + branches.windows(2).take_while(|pair| joins(pair) && fits(pair)).count()
}
