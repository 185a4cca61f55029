//! Write buffers, one for each journal head (layer 4; spec: ubifs-runtime 4).
//!
//! # Invariants
//! 1. The offset of `place` is a multiple of the minimum I/O unit; everything before it is on
//!    flash, `buf` comes next, and after it the LEB is erased.
//! 2. `inos` names the inodes whose durability depends on the content of `buf`.

use super::error::{Fault, Step, at};
use super::flash::{Flash, HEADS, align8};
use super::lprops::Lprops;
use super::place::Place;
use eraseblock_base::align::align_up;
use eraseblock_ubifs_format::encode;
use std::collections::BTreeSet;

/// A head of the journal; its number is part of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Head {
    /// Nodes moved by garbage collection.
    Gc = 0,
    /// Everything but content.
    Base = 1,
    /// Content.
    Data = 2,
}

impl Head {
    /// All heads, by number.
    pub(super) const ALL: [Self; HEADS as usize] = [Self::Gc, Self::Base, Self::Data];

    /// Returns the head of this number; the log was checked to name no other.
    pub(super) fn of(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// A write-buffer.
#[derive(Debug, Default)]
pub(super) struct Wbuf {
    /// Where `buf` goes; nothing if the head has no LEB.
    place: Option<Place>,
    buf: Vec<u8>,
    pub(super) inos: BTreeSet<u32>,
}

impl Wbuf {
    /// Moves the empty buffer to another place.
    pub(super) fn seek(&mut self, place: Place) {
        debug_assert!(self.buf.is_empty(), "a head moves only when it is synced");
        self.place = Some(place);
    }

    /// Gives up the full LEB of the empty buffer.
    pub(super) fn leave(&mut self) {
        debug_assert!(self.buf.is_empty(), "a head moves only when it is synced");
        self.place = None;
    }

    /// Returns the place up to which everything is on flash.
    pub(super) fn place(&self) -> Option<Place> {
        self.place
    }

    /// Returns whether everything is on flash.
    pub(super) fn is_synced(&self) -> bool {
        self.buf.is_empty()
    }

    pub(super) fn leb(&self) -> Option<u32> {
        self.place.map(|place| place.leb)
    }

    /// Returns the place if something can still be written there.
    pub(super) fn open_place(&self, flash: &Flash) -> Option<Place> {
        self.place.filter(|place| place.offset < flash.leb_size)
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.buf.capacity() + self.inos.len() * size_of::<u32>()
    }

    /// Returns the number of used bytes of the LEB, including those in the buffer.
    pub(super) fn end(&self) -> u32 {
        self.place.map_or(0, |place| self.end_from(place))
    }

    fn end_from(&self, place: Place) -> u32 {
        place.offset + self.buf.len() as u32
    }

    /// Returns the free space of the LEB.
    pub(super) fn room(&self, flash: &Flash) -> u32 {
        self.place.map_or(0, |place| flash.leb_size - self.end_from(place))
    }

    /// Returns the number of bytes written together from `offset` on (spec: ubifs-runtime 4.2).
    fn chunk(flash: &Flash, offset: u32) -> usize {
        let rest = flash.leb_size - offset;
        let size = if rest < flash.max_write {
            rest
        } else if offset.is_multiple_of(flash.max_write) {
            flash.max_write
        } else {
            (align_up(offset, flash.max_write) - offset).min(rest)
        };
        size as usize
    }

    /// Appends nodes that are aligned to 8 and fit; returns the place of the first.
    pub(super) fn append(
        &mut self,
        flash: &mut Flash,
        lprops: &mut Lprops,
        nodes: &[u8],
    ) -> Step<Place> {
        flash.check_writable()?;
        let len = align8(nodes.len() as u32);
        let place = match self.place {
            Some(place) if len <= self.room(flash) => place,
            _ => {
                let message = format!("{len} bytes do not fit the journal head");
                let at = at(self.leb().unwrap_or(0), self.end());
                return Err(Fault::refused(at, "journal-overrun", message));
            }
        };
        let start = Place { offset: self.end_from(place), ..place };
        self.buf.extend_from_slice(nodes);
        self.buf.resize((start.offset + len - place.offset) as usize, 0xFF);
        self.flush_chunks(flash, place)?;
        let free = self.room(flash);
        lprops.update(flash, start.leb, |lp| lp.free = free)?;
        Ok(start)
    }

    /// Writes the whole chunks of the buffer.
    fn flush_chunks(&mut self, flash: &mut Flash, place: Place) -> Step<()> {
        let first = Self::chunk(flash, place.offset);
        if self.buf.len() < first || first == 0 {
            return Ok(());
        }
        let unit = flash.max_write as usize;
        let ends_leb = self.end_from(place) == flash.leb_size;
        let len =
            if ends_leb { self.buf.len() } else { first + (self.buf.len() - first) / unit * unit };
        flash.write(place.leb, place.offset, &self.buf[..len])?;
        self.place = Some(place.after(len as u32));
        self.buf.drain(..len);
        if self.buf.is_empty() {
            self.inos.clear();
        }
        Ok(())
    }

    /// Writes everything, padded to the minimum I/O unit (spec: ubifs-runtime 4.4).
    pub(super) fn sync(&mut self, flash: &mut Flash, lprops: &mut Lprops) -> Step<()> {
        self.inos.clear();
        let Some(place) = self.place else { return Ok(()) };
        if self.buf.is_empty() {
            return Ok(());
        }
        let used = self.buf.len();
        encode::pad(&mut self.buf, flash.min_io);
        let padding = (self.buf.len() - used) as u32;
        flash.write(place.leb, place.offset, &self.buf)?;
        let end = place.after(self.buf.len() as u32);
        debug_assert!(end.offset.is_multiple_of(flash.min_io), "a head ends within a unit");
        self.place = Some(end);
        self.buf.clear();
        let free = flash.leb_size - end.offset;
        lprops.update(flash, place.leb, |lp| {
            lp.free = free;
            lp.dirty += padding;
        })?;
        Ok(())
    }

    /// Replaces `bytes`, a range of a LEB read from flash, by those in the buffer where they
    /// overlap.
    pub(super) fn overlay(&self, at: Place, bytes: &mut [u8]) {
        let Some(place) = self.place.filter(|place| place.leb == at.leb) else { return };
        let skip = place.offset.saturating_sub(at.offset) as usize;
        let from = at.offset.saturating_sub(place.offset) as usize;
        let Some(target) = bytes.get_mut(skip..) else { return };
        let source = self.buf.get(from..).unwrap_or_default();
        let len = target.len().min(source.len());
        target[..len].copy_from_slice(&source[..len]);
    }

    /// Returns whether everything from a place on is in the buffer.
    pub(super) fn holds(&self, at: Place) -> bool {
        let is_after = |place: Place| at.leb == place.leb && at.offset >= place.offset;
        self.place.is_some_and(is_after) && !self.buf.is_empty()
    }
}
