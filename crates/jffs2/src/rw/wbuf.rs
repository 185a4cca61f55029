//! The write buffer of media that are programmed page by page (spec: jffs2 16).
//!
//! Layer: data. Programs only whole pages; `log` decides what a failure means.
//!
//! # Invariants
//! 1. The buffer holds less than a page; it ends where the free space of the open block starts.
//! 2. A page is programmed once between two erasures of its block, in ascending order.

use super::flash::Flash;
use super::suspect::{Page, overlay};
use eraseblock_jffs2_format::constants::HEADER_LEN;
use eraseblock_jffs2_format::encode;
use eraseblock_mtd::MtdError;

/// Bytes that wait for the rest of their page.
#[derive(Debug, Default)]
pub(crate) struct Wbuf {
    /// Where the page starts.
    start: u32,
    bytes: Vec<u8>,
}

impl Wbuf {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends bytes for `place` and programs whole pages. After a failure, bytes that are not on
    /// flash stay in the buffer.
    pub(crate) fn append(
        &mut self,
        flash: &Flash,
        place: u32,
        mut data: &[u8],
    ) -> Result<(), MtdError> {
        let page = flash.page as usize;
        if self.bytes.is_empty() {
            self.start = place;
        }
        debug_assert_eq!(self.end(), place, "the buffer ends where the free space starts");
        debug_assert!(self.start.is_multiple_of(flash.page), "the buffer starts with a page");
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

    /// Fills the page with padding and programs it; returns the number of bytes added.
    pub(crate) fn pad(&mut self, flash: &Flash) -> Result<u32, MtdError> {
        let rest = flash.page - self.bytes.len() as u32;
        let mut filler = Vec::with_capacity(rest as usize);
        if rest > HEADER_LEN {
            encode::padding(flash.order, rest, &mut filler);
        }
        filler.resize(rest as usize, 0);
        self.append(flash, self.end(), &filler)?;
        Ok(rest)
    }

    /// Empties the buffer after a failure; returns the page that is not on flash.
    pub(crate) fn give_up(&mut self) -> Page {
        Page { place: self.start, bytes: std::mem::take(&mut self.bytes).into() }
    }

    /// Replaces bytes read from `place` by those that are still in the buffer.
    pub(crate) fn overlay(&self, place: u32, buf: &mut [u8]) {
        overlay(self.start, &self.bytes, place, buf);
    }

    fn end(&self) -> u32 {
        self.start + self.bytes.len() as u32
    }
}
