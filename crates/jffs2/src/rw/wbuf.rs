//! Reads and writes bytes on flash, with a write buffer for media that are programmed page by page
//! (spec: jffs2 16).
//!
//! # Invariants
//! 1. The buffer holds less than a page; it ends where the free space of the open block starts.
//! 2. A page is programmed once between two erasures of its block, in ascending order.
//! 3. When a page cannot be programmed, everything alive in it is written elsewhere, or the file
//!    system turns read-only.

use super::flash::Flash;
use super::nodelist::{List, NodeRef, RefKind};
use super::nodemgmt::Alloc;
use super::state::{Closed, State, io};
use super::write::NewNode;
use crate::codes;
use eraseblock_base::{Location, Peb};
use eraseblock_jffs2_format::constants::HEADER_LEN;
use eraseblock_jffs2_format::encode;
use eraseblock_mtd::MtdError;
use eraseblock_vfs::{FsError, FsErrorKind};

/// Number of attempts to move the nodes of a page that cannot be programmed to another block.
const ATTEMPTS: u32 = 4;

/// Bytes that wait for the rest of their page.
#[derive(Debug, Default)]
pub(crate) struct Wbuf {
    /// Where the page starts.
    start: u32,
    bytes: Vec<u8>,
    /// Blocks that are being left because of failures: guards against endless recovery.
    depth: u32,
}

impl Wbuf {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends bytes for `place` and programs whole pages. After a failure, bytes that are not on
    /// flash stay in the buffer.
    fn write(&mut self, flash: &Flash, place: u32, mut data: &[u8]) -> Result<(), MtdError> {
        let page = flash.page as usize;
        if self.bytes.is_empty() {
            self.start = place;
        }
        while self.bytes.len() + data.len() >= page {
            let (now, rest) = data.split_at(page - self.bytes.len());
            self.bytes.extend_from_slice(now);
            flash.mtd.program(self.start.into(), &self.bytes)?;
            self.start += flash.page;
            self.bytes.clear();
            data = rest;
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Replaces bytes read from `place` by those that are still in the buffer.
    fn overlay(&self, place: u32, buf: &mut [u8]) {
        let first = self.start.max(place);
        let last = (self.start + self.bytes.len() as u32).min(place + buf.len() as u32);
        if first < last {
            buf[(first - place) as usize..(last - place) as usize].copy_from_slice(
                &self.bytes[(first - self.start) as usize..(last - self.start) as usize],
            );
        }
    }
}

impl State {
    /// Reads bytes as they would be on flash if nothing were buffered.
    pub(crate) fn read_flash(&self, place: u32, buf: &mut [u8]) -> Result<(), MtdError> {
        self.flash.read(place, buf)?;
        self.suspects.overlay(place, buf);
        if !self.wbuf.is_empty() {
            self.wbuf.overlay(place, buf);
        }
        Ok(())
    }

    /// Returns the bytes of a node, with alignment.
    pub(crate) fn read_node(&self, node: NodeRef) -> Result<Vec<u8>, FsError> {
        let mut bytes = vec![0; node.len() as usize];
        self.read_flash(node.place(), &mut bytes).map_err(io)?;
        Ok(bytes)
    }

    /// Writes to the start of the free space of the open block.
    pub(crate) fn write_flash(&mut self, place: u32, data: &[u8]) -> Result<(), MtdError> {
        if self.flash.has_buffer() {
            self.wbuf.write(&self.flash, place, data)
        } else {
            self.flash.mtd.program(place.into(), data)
        }
    }

    /// Writes the buffer to flash and fills the page with padding.
    pub(crate) fn flush(&mut self) -> Result<(), FsError> {
        let mut cause = String::new();
        for _ in 0..ATTEMPTS {
            let Some(block) = self.blocks.next().filter(|_| !self.wbuf.is_empty()) else {
                self.release_pending();
                return Ok(());
            };
            match self.pad(block) {
                Ok(()) => {}
                Err(error) => {
                    cause = placed(block, &error);
                    self.write_failed(block, error)?;
                }
            }
        }
        Err(self.lose("nodes of the write buffer cannot be brought to flash", &cause))
    }

    /// Fills the page with padding (spec: jffs2 16).
    fn pad(&mut self, block: u32) -> Result<(), MtdError> {
        let rest = self.flash.page - self.wbuf.bytes.len() as u32;
        let place = self.wbuf.start + self.wbuf.bytes.len() as u32;
        let mut filler = Vec::with_capacity(rest as usize);
        if rest > HEADER_LEN {
            encode::padding(self.flash.order, rest, &mut filler);
        }
        filler.resize(rest as usize, 0);
        self.wbuf.write(&self.flash, place, &filler)?;
        self.blocks.resize(block, |sizes| {
            sizes.free -= rest;
            sizes.wasted += rest;
        });
        Ok(())
    }

    /// Releases blocks whose nodes have replacements that are now on flash.
    fn release_pending(&mut self) {
        while let Some(block) = self.blocks.first(List::PendingWbuf) {
            self.blocks.file_dead(block, List::ErasePending);
        }
    }

    /// Handles a failed program in the open block: gives up its free space and, with a buffer,
    /// moves the live nodes of the failed page to another block.
    pub(crate) fn write_failed(&mut self, block: u32, error: MtdError) -> Result<(), FsError> {
        if !matches!(error, MtdError::Failed { .. } | MtdError::Io { .. }) {
            return Err(io(error));
        }
        let at = Location::peb(Peb::new(block));
        let cause = placed(block, &error);
        self.late.warn(at, codes::PROGRAM_FAILED, error.to_string());
        if !self.flash.has_buffer() {
            return Ok(());
        }
        self.wbuf.depth += 1;
        let result = if self.wbuf.depth <= ATTEMPTS {
            self.leave_block(block)
        } else {
            Err(FsError::new(FsErrorKind::Io, "too many blocks in a row cannot be programmed"))
        };
        self.wbuf.depth -= 1;
        result.map_err(|_| self.lose("nodes of the write buffer are lost", &cause))
    }

    fn leave_block(&mut self, block: u32) -> Result<(), FsError> {
        let failed = self.wbuf.start;
        let buffered = std::mem::take(&mut self.wbuf.bytes);
        let result = self.carry_page(block, failed, &buffered);
        if result.is_err() {
            // Data that is not on flash, or only in blocks without references, stays readable from
            // memory.
            self.suspects.keep(failed, buffered);
        }
        result
    }

    /// Moves the live nodes of a page that could not be programmed.
    fn carry_page(&mut self, block: u32, failed: u32, buffered: &[u8]) -> Result<(), FsError> {
        let mut carried = Vec::new();
        for node in &self.blocks.get(block).refs {
            if node.is_live()
                && node.place() + node.len() > failed
                && node.kind() != RefKind::Filler
            {
                let mut bytes = vec![0; node.len() as usize];
                let before = failed.saturating_sub(node.place()).min(node.len()) as usize;
                self.read_flash(node.place(), &mut bytes[..before]).map_err(io)?;
                let from = (node.place() + before as u32 - failed) as usize;
                bytes[before..]
                    .copy_from_slice(&buffered[from..from + node.len() as usize - before]);
                carried.push((*node, bytes));
            }
        }
        self.blocks.resize(block, |sizes| {
            sizes.dirty += std::mem::take(&mut sizes.free) + std::mem::take(&mut sizes.wasted);
        });
        let entry = self.blocks.get_mut(block);
        entry.failures = entry.failures.saturating_add(1);
        self.blocks.file(block, List::BadUsed);
        self.summary.stop();
        for (node, bytes) in carried {
            self.carry(node, &bytes)?;
        }
        if self.blocks.get(block).live() == 0 {
            self.blocks.file_dead(block, List::ErasePending);
        }
        Ok(())
    }

    /// Writes an unchanged copy of a node.
    pub(crate) fn carry(&mut self, node: NodeRef, bytes: &[u8]) -> Result<u32, FsError> {
        self.reserve(node.len(), Alloc::Collection, 0)?;
        self.end_summary();
        let place = self.put(&NewNode {
            kind: node.kind(),
            owner: node.owner,
            state: node.state(),
            record: None,
            bytes,
        })?;
        self.relocate(node, place, None);
        Ok(place)
    }

    /// Writes a node that no summary can list to the open block.
    pub(crate) fn end_summary(&mut self) {
        if let Some(block) = self.blocks.next() {
            self.blocks.get_mut(block).without_summary = true;
            self.summary.stop();
        }
    }

    /// Ends writing, because accepted data cannot be written.
    fn lose(&mut self, what: &str, cause: &str) -> FsError {
        let reason = format!("{cause}: {what}");
        self.late.error(Location::Whole, "turned-read-only", reason.as_str());
        self.closed.get_or_insert_with(|| Closed::Because(reason.clone()));
        FsError::new(FsErrorKind::Io, reason)
    }
}

/// Returns the error for a failure in a block, with its place.
fn placed(block: u32, error: &MtdError) -> String {
    let said = error.to_string();
    let is_placed = said.starts_with("peb ");
    if is_placed { said } else { format!("{}: {said}", Location::peb(Peb::new(block))) }
}
