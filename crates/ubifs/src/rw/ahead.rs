//! Read-ahead data of sequential readers (layer 2; spec: ubifs-runtime 21.4).
//!
//! # Invariants
//! 1. Read-ahead data is discarded before its LEB changes: `flash` does that.

use super::place::Place;

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
    leb: u32,
    offset: u32,
    /// The data from there; empty if there is none.
    bytes: Vec<u8>,
}

impl Ahead {
    /// Returns whether a read of this inode at this offset continues earlier ones.
    pub(super) fn is_sequential(&self, ino: u32, offset: u64) -> bool {
        (self.ino, self.next) == (ino, offset) && self.in_a_row + 1 >= SEQUENTIAL
    }

    pub(super) fn note_read(&mut self, ino: u32, offset: u64, len: usize) {
        let goes_on = (self.ino, self.next) == (ino, offset);
        self.in_a_row = if goes_on { self.in_a_row.saturating_add(1) } else { 0 };
        self.ino = ino;
        self.next = offset + len as u64;
    }

    /// Copies read-ahead data if it covers the whole range.
    pub(super) fn copy_to(&self, buf: &mut [u8], at: Place) -> bool {
        if self.leb != at.leb {
            return false;
        }
        let start = at.offset.checked_sub(self.offset);
        let bytes = start.and_then(|start| self.bytes.get(start as usize..)?.get(..buf.len()));
        bytes.map(|bytes| buf.copy_from_slice(bytes)).is_some()
    }

    pub(super) fn keep(&mut self, at: Place, bytes: Vec<u8>) {
        (self.leb, self.offset, self.bytes) = (at.leb, at.offset, bytes);
    }

    /// Discards data of a LEB that is about to change.
    pub(super) fn forget(&mut self, leb: u32) {
        if self.leb == leb {
            self.bytes.clear();
        }
    }

    /// Returns the bytes of memory taken.
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }
}
