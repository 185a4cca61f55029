//! Reads content from flash: adjacent data nodes with one device read, and with read-ahead for
//! sequential readers (layer 11; bulk read, spec: ubifs-runtime 21.4).
//!
//! # Invariants
//! 1. Every node is checked as if it had been read alone; if nodes that were read together are
//!    wrong, each is read again alone.

use super::core::Core;
use super::error::{Fault, Step, at};
use super::flash::MAX_DATA_NODE;
use super::pages::PAGE;
use super::tnc::Zbranch;
use crate::codes;
use crate::read::codec_of;
use eraseblock_codec::decompress;
use eraseblock_ubifs_format::Key;
use eraseblock_ubifs_format::constants::BLOCK_SIZE;

/// Maximum size of a device read.
const MAX_SPAN: u32 = 256 << 10;
/// Maximum size of read-ahead.
const MAX_AHEAD: u32 = PAGES_AHEAD as u32 * MAX_DATA_NODE;
pub(super) const BLOCK: u64 = BLOCK_SIZE as u64;
/// Number of blocks to read ahead.
const PAGES_AHEAD: usize = 32;
/// Buffers for reading, reused from one read to the next.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The nodes that were found, and possibly the following ones.
    pub(super) branches: Vec<Zbranch>,
    pub(super) raw: Vec<u8>,
}

/// Returns the keys of the first and the last block of a range that is not empty.
pub(super) fn keys_of(ino: u32, offset: u64, len: usize) -> Option<(Key, Key)> {
    if len == 0 {
        return None;
    }
    let last = (offset + len as u64).checked_sub(1)?;
    Some((Key::data(ino, (offset / BLOCK) as u32), Key::data(ino, (last / BLOCK) as u32)))
}

/// Returns the key of the last block of a range that is not empty.
fn last_key_of(ino: u32, offset: u64, len: usize) -> Key {
    keys_of(ino, offset, len.max(1)).map_or(Key::data(ino, 0), |(_, last)| last)
}

fn corrupt(ino: u32, branch: &Zbranch, message: &str) -> Fault {
    let message = format!("inode {ino} block {}: {message}", branch.key.value());
    Fault::refused(at(branch.leb, branch.offset), codes::DATA_CORRUPT, message)
}

impl Core {
    /// Returns the number of bytes from `offset` to look up for a read of `len` bytes.
    pub(super) fn window(&self, ino: u32, offset: u64, len: usize) -> usize {
        let most = PAGES_AHEAD * PAGE;
        let ahead = self.options.bulk_read && len > 0 && len < most;
        if ahead && self.store.nodes.flash.ahead().is_sequential(ino, offset) { most } else { len }
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
            self.store.nodes.flash.ahead().note_read(ino, offset, buf.len());
        }
        Ok(())
    }

    /// Reads adjacent nodes, and with them the following ones in `ahead`.
    fn fetch(&self, span: &[Zbranch], ahead: &[Zbranch], raw: &mut Vec<u8>) -> Step<()> {
        let (Some(first), Some(last)) = (span.first(), span.last()) else { return Ok(()) };
        raw.resize((last.offset + last.len - first.offset) as usize, 0);
        if self.store.nodes.flash.ahead().copy_to(raw, first.place()) {
            return Ok(());
        }
        if ahead.len() <= span.len() {
            return self.read_together(span, raw);
        }
        let mut bytes = Vec::new();
        self.read_together(ahead, &mut bytes)?;
        let (now, _) = bytes.split_at(raw.len());
        raw.copy_from_slice(now);
        self.store.nodes.flash.ahead().keep(first.place(), bytes);
        Ok(())
    }

    /// Reads adjacent nodes from the device.
    fn read_together(&self, span: &[Zbranch], raw: &mut Vec<u8>) -> Step<()> {
        let (Some(first), Some(last)) = (span.first(), span.last()) else { return Ok(()) };
        raw.resize((last.offset + last.len - first.offset) as usize, 0);
        self.store.nodes.journal.read_node(&self.store.nodes.flash, first.place(), raw)
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
        let data = self.store.nodes.check_leaf(branch, bytes)?.data()?;
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

/// Returns the bytes of a block in a buffer for bytes from `offset` on, if it covers all of them.
fn whole_block(offset: u64, buf: &mut [u8], block: u32) -> Option<&mut [u8; PAGE]> {
    let start = (u64::from(block) * BLOCK).checked_sub(offset)?;
    buf.get_mut(usize::try_from(start).ok()?..)?.first_chunk_mut()
}

/// Copies the part of a block that a buffer for bytes from `offset` on covers.
pub(super) fn copy_block(offset: u64, buf: &mut [u8], block: u32, content: &[u8]) {
    let start = u64::from(block) * BLOCK;
    let skip = usize::try_from(offset.saturating_sub(start)).unwrap_or(PAGE);
    let to = usize::try_from(start.saturating_sub(offset)).unwrap_or(usize::MAX);
    let Some(target) = buf.get_mut(to..) else { return };
    let source = content.get(skip..).unwrap_or_default();
    let len = target.len().min(source.len());
    target[..len].copy_from_slice(&source[..len]);
}
