//! Write buffers, one for each journal head (spec: ubifs-runtime 4).
//!
//! # Invariants
//! 1. `offset` is a multiple of the minimum I/O unit; everything before it is on flash, `buf` comes
//!    next, and after it the LEB is erased.
//! 2. `inos` names the inodes whose durability depends on the content of `buf`.

use super::error::{Fault, Step, at};
use super::flash::{Flash, align8};
use super::lprops::Lprops;
use eraseblock_base::align::align_up;
use eraseblock_ubifs_format::encode;
use std::collections::BTreeSet;

/// The head of garbage collection.
pub(super) const GC_HEAD: usize = 0;
/// The head of everything but content.
pub(super) const BASE_HEAD: usize = 1;
/// The head of content.
pub(super) const DATA_HEAD: usize = 2;

/// A write-buffer.
#[derive(Debug, Default)]
pub(super) struct Wbuf {
    /// The LEB, 0 for none.
    pub(super) leb: u32,
    pub(super) offset: u32,
    buf: Vec<u8>,
    pub(super) inos: BTreeSet<u32>,
}

impl Wbuf {
    /// Moves the empty buffer to another place.
    pub(super) fn seek(&mut self, leb: u32, offset: u32) {
        debug_assert!(self.buf.is_empty(), "a head moves only when it is synced");
        self.leb = leb;
        self.offset = offset;
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.buf.capacity() + self.inos.len() * size_of::<u32>()
    }

    /// Returns the number of used bytes of the LEB, including those in the buffer.
    pub(super) fn end(&self) -> u32 {
        self.offset + self.buf.len() as u32
    }

    /// Returns the free space of the LEB.
    pub(super) fn room(&self, flash: &Flash) -> u32 {
        if self.leb == 0 { 0 } else { flash.leb_size - self.end() }
    }

    /// Returns the number of bytes written together from the current offset (spec: ubifs-runtime
    /// 4.2).
    fn chunk(&self, flash: &Flash) -> usize {
        let rest = flash.leb_size - self.offset;
        let size = if rest < flash.max_write {
            rest
        } else if self.offset.is_multiple_of(flash.max_write) {
            flash.max_write
        } else {
            (align_up(self.offset, flash.max_write) - self.offset).min(rest)
        };
        size as usize
    }

    /// Appends nodes that are aligned to 8 and fit; returns their offset.
    pub(super) fn append(
        &mut self,
        flash: &mut Flash,
        lprops: &mut Lprops,
        nodes: &[u8],
    ) -> Step<(u32, u32)> {
        flash.check_writable()?;
        let start = self.end();
        let len = align8(nodes.len() as u32);
        if len > self.room(flash) {
            let message = format!("{len} bytes do not fit the journal head");
            return Err(Fault::refused(at(self.leb, start), "journal-overrun", message));
        }
        self.buf.extend_from_slice(nodes);
        self.buf.resize((start + len - self.offset) as usize, 0xFF);
        self.flush_chunks(flash)?;
        let free = flash.leb_size - self.end();
        lprops.update(flash, self.leb, |lp| lp.free = free)?;
        Ok((self.leb, start))
    }

    /// Writes the whole chunks of the buffer.
    fn flush_chunks(&mut self, flash: &mut Flash) -> Step<()> {
        let first = self.chunk(flash);
        if self.buf.len() < first || first == 0 {
            return Ok(());
        }
        let unit = flash.max_write as usize;
        let ends_leb = self.end() == flash.leb_size;
        let len =
            if ends_leb { self.buf.len() } else { first + (self.buf.len() - first) / unit * unit };
        flash.write(self.leb, self.offset, &self.buf[..len])?;
        self.offset += len as u32;
        self.buf.drain(..len);
        if self.buf.is_empty() {
            self.inos.clear();
        }
        Ok(())
    }

    /// Writes everything, padded to the minimum I/O unit (spec: ubifs-runtime 4.4).
    pub(super) fn sync(&mut self, flash: &mut Flash, lprops: &mut Lprops) -> Step<()> {
        self.inos.clear();
        if self.leb == 0 || self.buf.is_empty() {
            return Ok(());
        }
        let used = self.buf.len();
        encode::pad(&mut self.buf, flash.min_io);
        let padding = (self.buf.len() - used) as u32;
        flash.write(self.leb, self.offset, &self.buf)?;
        self.offset += self.buf.len() as u32;
        self.buf.clear();
        let free = flash.leb_size - self.offset;
        lprops.update(flash, self.leb, |lp| {
            lp.free = free;
            lp.dirty += padding;
        })?;
        Ok(())
    }

    /// Replaces `bytes`, a range of the LEB read from flash, by those in the buffer where they
    /// overlap.
    pub(super) fn overlay(&self, leb: u32, offset: u32, bytes: &mut [u8]) {
        if leb != self.leb || self.buf.is_empty() {
            return;
        }
        let skip = self.offset.saturating_sub(offset) as usize;
        let from = offset.saturating_sub(self.offset) as usize;
        let Some(target) = bytes.get_mut(skip..) else { return };
        let source = self.buf.get(from..).unwrap_or_default();
        let len = target.len().min(source.len());
        target[..len].copy_from_slice(&source[..len]);
    }

    /// Returns whether a range of a LEB is completely in the buffer.
    pub(super) fn holds(&self, leb: u32, offset: u32) -> bool {
        leb == self.leb && offset >= self.offset && !self.buf.is_empty()
    }
}
