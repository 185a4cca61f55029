//! Reads file content: looks up the blocks of a range in one walk over the index, reads adjacent
//! nodes with one device read, and decompresses directly into the caller's buffer (spec:
//! ubifs-format 6.3, 7; ubifs-runtime 21).

use crate::fs::leaf_error;
use crate::inode::lost;
use crate::mount::Ubifs;
use eraseblock_codec::{Codec, decompress};
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::{Branch, Compression, Key};
use eraseblock_vfs::{FsError, FsErrorKind};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

const BLOCK: usize = BLOCK_SIZE as usize;
/// Number of blocks looked up at once.
const WINDOW: u64 = 256;
/// Maximum size of a device read.
const MAX_SPAN: u32 = 256 << 10;
/// Maximum gap between two nodes that are read together.
const MAX_GAP: u32 = 512;
/// Scratch buffers kept for the next read.
const POOL: usize = 8;

/// Buffers of one read.
#[derive(Debug, Default)]
struct Scratch {
    branches: Vec<Branch>,
    raw: Vec<u8>,
    block: Vec<u8>,
}

/// Buffers that are reused by later reads.
#[derive(Debug, Default)]
pub(crate) struct ScratchPool {
    free: Mutex<Vec<Scratch>>,
}

impl ScratchPool {
    fn take(&self) -> Scratch {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give(&self, scratch: Scratch) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < POOL {
            free.push(scratch);
        }
    }
}

impl Ubifs {
    /// Fills `buf` with the content of inode `ino` from `offset`; the range must end at or before
    /// the file's size.
    pub(crate) fn read_content(
        &self,
        ino: u32,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), FsError> {
        let mut scratch = self.scratch.take();
        let result = self.read_windows(ino, offset, buf, &mut scratch);
        self.scratch.give(scratch);
        result
    }

    fn read_windows(
        &self,
        ino: u32,
        offset: u64,
        buf: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), FsError> {
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let end = (at / u64::from(BLOCK_SIZE) + WINDOW) * u64::from(BLOCK_SIZE);
            let len = rest.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at_mut(len);
            self.read_window(ino, at, now, scratch)?;
            at = end;
            rest = later;
        }
        Ok(())
    }

    /// Reads at most [`WINDOW`] blocks.
    fn read_window(
        &self,
        ino: u32,
        offset: u64,
        buf: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), FsError> {
        let first = offset / u64::from(BLOCK_SIZE);
        let last = (offset + buf.len() as u64 - 1) / u64::from(BLOCK_SIZE);
        // Files end at 2^41, so blocks have 29 bits.
        let [from, to] = [first, last].map(|block| Key::data(ino, block as u32));
        let mut branches = std::mem::take(&mut scratch.branches);
        branches.clear();
        self.tnc.scan(from, to, &mut |branch| {
            branches.push(*branch);
            ControlFlow::Continue(())
        });
        if self.tnc.is_lost(from, to) {
            return Err(lost(ino.into(), &format!("blocks {first} to {last}")));
        }
        let mut window = Window { fs: self, ino, offset, buf, filled: 0 };
        let mut rest = branches.as_slice();
        let mut result = Ok(());
        while !rest.is_empty() && result.is_ok() {
            let (span, later) = rest.split_at(span_len(rest));
            result = window.span(span, scratch);
            rest = later;
        }
        let filled = window.filled;
        scratch.branches = branches;
        result?;
        buf[filled..].fill(0);
        Ok(())
    }
}

/// Returns the number of branches that can be read from the device at once.
fn span_len(branches: &[Branch]) -> usize {
    let joins = |pair: &[Branch]| {
        let [one, two] = pair else { return false };
        let end = one.offset.saturating_add(one.len);
        one.leb == two.leb && two.offset >= end && two.offset - end <= MAX_GAP
    };
    let first = branches.first().map_or(0, |branch| branch.offset);
    let fits = |pair: &[Branch]| {
        pair.last().is_some_and(|last| last.offset.saturating_add(last.len) - first <= MAX_SPAN)
    };
    1 + branches.windows(2).take_while(|pair| joins(pair) && fits(pair)).count()
}

/// The part of a read that one index walk covers.
struct Window<'a> {
    fs: &'a Ubifs,
    ino: u32,
    offset: u64,
    buf: &'a mut [u8],
    /// Bytes of `buf` that are complete.
    filled: usize,
}

impl Window<'_> {
    /// Reads nodes that lie close together.
    fn span(&mut self, span: &[Branch], scratch: &mut Scratch) -> Result<(), FsError> {
        let (Some(first), Some(last)) = (span.first(), span.last()) else { return Ok(()) };
        let len = (last.offset + last.len - first.offset) as usize;
        if scratch.raw.len() < len {
            scratch.raw.resize(len, 0);
        }
        let volume = &self.fs.tnc.volume;
        let raw = scratch.raw.get_mut(..len).unwrap_or_default();
        volume.read(first.leb, first.offset, raw).map_err(|error| {
            leaf_error(&format!("inode {} block {}", self.ino, first.key.value()), error.into())
        })?;
        for branch in span {
            let start = (branch.offset - first.offset) as usize;
            let node = raw.get(start..start + branch.len as usize).unwrap_or_default();
            self.block(branch, node, &mut scratch.block)?;
        }
        Ok(())
    }

    /// Copies one block to its place.
    fn block(&mut self, branch: &Branch, bytes: &[u8], spare: &mut Vec<u8>) -> Result<(), FsError> {
        let what = || format!("inode {} block {}", self.ino, branch.key.value());
        let volume = &self.fs.tnc.volume;
        let data = volume
            .leaf(branch, bytes)
            .and_then(|node| node.data())
            .map_err(|error| leaf_error(&what(), error.into()))?;
        let failed = |error: String| {
            let (leb, offset) = (branch.leb, branch.offset);
            let message = format!("{}: leb {leb}:{offset}: data node: {error}", what());
            FsError::new(FsErrorKind::Corrupted, message)
        };
        let block_start = u64::from(branch.key.value()) * u64::from(BLOCK_SIZE);
        // The start of the block in the buffer, or the length of its part before the buffer.
        let before = usize::try_from(self.offset.saturating_sub(block_start)).unwrap_or(BLOCK);
        let start = usize::try_from(block_start.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let len = (BLOCK - before.min(BLOCK)).min(self.buf.len().saturating_sub(start));
        let size = data.size as usize;
        if start < self.filled {
            return Err(failed("block occurs twice".to_owned()));
        }
        self.buf[self.filled..start].fill(0);
        let target = &mut self.buf[start..start + len];
        let codec = codec_of(data.compression);
        if before == 0 && size <= len {
            let (content, tail) = target.split_at_mut(size);
            decompress(codec, data.payload, content).map_err(|error| failed(error.to_string()))?;
            tail.fill(0);
        } else {
            spare.clear();
            spare.resize(BLOCK, 0);
            decompress(codec, data.payload, &mut spare[..size])
                .map_err(|error| failed(error.to_string()))?;
            target.copy_from_slice(&spare[before..before + len]);
        }
        self.filled = start + len;
        Ok(())
    }
}

/// Returns the codec of a compression.
pub(crate) fn codec_of(compression: Compression) -> Codec {
    match compression {
        Compression::None => Codec::None,
        Compression::Lzo => Codec::Lzo,
        Compression::Zlib => Codec::Zlib,
        Compression::Zstd => Codec::Zstd,
    }
}
