//! Changes of file content: writing to the page cache and truncation (layer 13; spec: ubifs-runtime
//! 8.10, 8.11, 9.4, 9.5).
//!
//! # Invariants
//! 1. A write reserves space for all its pages before it changes one, so that it is done completely
//!    or not at all.

use super::budget::Request;
use super::bulk::BLOCK;
use super::core::Core;
use super::error::{Fault, Step};
use super::group::{Durable, Follow, Group, INODE_LEN, TRUNCATION_LEN};
use super::pages::{Blank, PAGE};
use super::wbuf::Head;
use eraseblock_ubifs_format::constants::{MAX_FILE_SIZE, inode_flags};
use eraseblock_ubifs_format::{Compression, Key, Time, Truncation};
use eraseblock_vfs::{FsErrorKind, Timestamp};

/// How the cost of a block that is completely overwritten is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cost {
    /// It counts as new, which saves a lookup.
    Assumed,
    /// It is looked up.
    Exact,
}

/// A block on flash.
struct Stored {
    /// Bytes of content.
    size: usize,
    compression: Compression,
}

impl Core {
    /// Reads a block from flash, if it is not a hole.
    fn stored_block(
        &mut self,
        ino: u32,
        block: u32,
        page: &mut [u8; PAGE],
    ) -> Step<Option<Stored>> {
        let Some(branch) = self.store.nodes.find(Key::data(ino, block))? else { return Ok(None) };
        let mut buf = Vec::new();
        let compression = self.store.nodes.leaf(&branch, &mut buf)?.data()?.compression;
        let size = self.decode_block(ino, &branch, &buf, page)?;
        page[size..].fill(0);
        Ok(Some(Stored { size, compression }))
    }

    /// Returns the cost of making a block dirty; nothing if it is already dirty.
    fn page_cost(
        &mut self,
        ino: u32,
        block: u32,
        is_whole: bool,
        exact: Cost,
    ) -> Step<Option<Request>> {
        if self.pages.get(ino, block).is_some() {
            return Ok(None);
        }
        let is_new = (is_whole && exact == Cost::Assumed)
            || self.store.nodes.find(Key::data(ino, block))?.is_none();
        Ok(Some(if is_new { Request::NEW_PAGE } else { Request::DIRTIED_PAGE }))
    }

    /// Returns the sum of [`Core::page_cost`] over a range of bytes.
    fn range_cost(&mut self, ino: u32, offset: u64, len: u64, exact: Cost) -> Step<Request> {
        let mut sum = Request::default();
        for block in offset / BLOCK..(offset + len).div_ceil(BLOCK) {
            let is_whole = block * BLOCK >= offset && (block + 1) * BLOCK <= offset + len;
            if let Some(cost) = self.page_cost(ino, block as u32, is_whole, exact)? {
                sum.new_pages += cost.new_pages;
                sum.dirtied_pages += cost.dirtied_pages;
            }
        }
        Ok(sum)
    }

    /// Reserves space for all pages of a range and for `inos` together, so that a write is done
    /// completely or not at all. Freeing space may write back pages of the range; then the cost is
    /// computed again. Returns what is reserved for pages.
    fn budget_range(
        &mut self,
        ino: u32,
        (offset, len): (u64, u64),
        exact: Cost,
        inos: &[u32],
    ) -> Step<Request> {
        loop {
            let cost = self.range_cost(ino, offset, len, exact)?;
            self.budget_dirty(&cost, inos)?;
            let now = self.range_cost(ino, offset, len, exact);
            if matches!(&now, Ok(now) if *now == cost) {
                return now;
            }
            self.cancel(&cost);
            now?;
        }
    }

    /// Writes to the page cache.
    pub(super) fn write_content(
        &mut self,
        ino: u32,
        offset: u64,
        data: &[u8],
        now: Timestamp,
    ) -> Step<()> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= MAX_FILE_SIZE);
        let Some(end) = end else {
            return Err(Fault::fs(FsErrorKind::TooBig, format!("inode {ino}: file too big")));
        };
        if data.is_empty() {
            return Ok(());
        }
        let now = self.time(now);
        let inode = self.inode(ino)?;
        let is_changed = end > inode.size || inode.mtime != now || inode.ctime != now;
        let changed: &[u32] = if is_changed { &[ino] } else { &[] };
        let mut exact = Cost::Assumed;
        let range = (offset, data.len() as u64);
        let mut promised = match self.budget_range(ino, range, exact, changed) {
            Err(fault) if fault.is_no_space() => {
                exact = Cost::Exact;
                self.budget_range(ino, range, exact, changed)?
            }
            result => result?,
        };
        let filled = self.fill_pages(ino, offset, data, exact, &mut promised);
        if filled.is_err() {
            self.cancel(&promised);
        }
        filled?;
        let inode = self.inode(ino)?;
        inode.size = inode.size.max(end);
        inode.mtime = now;
        inode.ctime = now;
        let sync = inode.is_sync() || self.options.sync;
        if sync {
            self.sync_inode(ino)?;
        } else if self.pages.len() > self.options.dirty_pages_most() {
            let excess = self.pages.len() - self.options.dirty_pages_most() / 2;
            self.write_back_oldest(excess)?;
        }
        Ok(())
    }

    /// Copies data into pages with reserved space, which they take from `promised`.
    fn fill_pages(
        &mut self,
        ino: u32,
        offset: u64,
        data: &[u8],
        exact: Cost,
        promised: &mut Request,
    ) -> Step<()> {
        let end = offset + data.len() as u64;
        let old_size = self.inode(ino)?.size;
        let mut done = 0;
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            let from = offset.max(block * BLOCK);
            let to = end.min((block + 1) * BLOCK);
            let within = (from - block * BLOCK) as usize..(to - block * BLOCK) as usize;
            let part = &data[done..done + within.len()];
            done += within.len();
            let number = block as u32;
            let is_whole = within.len() == PAGE;
            if let Some(promise) = self.page_cost(ino, number, is_whole, exact)? {
                let covers = is_whole || block * BLOCK >= old_size;
                let mut bytes = self.pages.blank(if is_whole { Blank::Any } else { Blank::Zeroed });
                if !covers {
                    let mut page = [0; PAGE];
                    if self.stored_block(ino, number, &mut page)?.is_some() {
                        bytes.copy_from_slice(&page);
                    }
                }
                promised.new_pages -= promise.new_pages;
                promised.dirtied_pages -= promise.dirtied_pages;
                self.pages.insert(ino, number, bytes, promise);
            }
            if let Some(page) = self.pages.get_mut(ino, number) {
                page[within].copy_from_slice(part);
            }
        }
        Ok(())
    }

    /// Changes the length of a file in memory and, if it shrinks, in the journal (spec:
    /// ubifs-runtime 8.11).
    pub(super) fn set_size(&mut self, ino: u32, new_size: u64, now: Timestamp) -> Step<()> {
        if new_size > MAX_FILE_SIZE {
            return Err(Fault::fs(FsErrorKind::TooBig, format!("inode {ino}: file too big")));
        }
        let old_size = self.inode(ino)?.size;
        let time = self.time(now);
        if new_size >= old_size {
            self.dirty_inode(ino)?;
            let inode = self.inode(ino)?;
            inode.size = new_size;
            inode.mtime = time;
            inode.ctime = time;
            return Ok(());
        }
        self.truncate(ino, old_size, new_size, time)
    }

    fn truncate(&mut self, ino: u32, old_size: u64, new_size: u64, time: Time) -> Step<()> {
        let is_partial = !new_size.is_multiple_of(BLOCK);
        let mut request = Request::dirty_inode(TRUNCATION_LEN as usize);
        request.dirtied_pages = u32::from(is_partial);
        let is_promised = match self.budget(&request) {
            Ok(()) => true,
            // Truncation to 0 is always possible (8.8).
            Err(fault) if fault.is_no_space() && new_size == 0 => false,
            Err(fault) => return Err(fault),
        };
        let result = self.truncate_promised(ino, old_size, new_size, time);
        match &result {
            _ if !is_promised => {}
            Ok(()) => self.release(&request),
            Err(_) => self.cancel(&request),
        }
        result
    }

    fn truncate_promised(
        &mut self,
        ino: u32,
        old_size: u64,
        new_size: u64,
        time: Time,
    ) -> Step<()> {
        let last_block = (new_size / BLOCK) as u32;
        let within = (new_size % BLOCK) as usize;
        // Truncate the last block, from memory or flash.
        let mut cut = None;
        let dirty_last = within > 0 && self.pages.get(ino, last_block).is_some();
        if within > 0 && !dirty_last {
            let mut page = [0; PAGE];
            if let Some(Stored { size, compression }) =
                self.stored_block(ino, last_block, &mut page)?
                && size > within
            {
                let key = Key::data(ino, last_block);
                cut = Some(self.pages.frame_one(key, &page[..within], compression));
            }
        }
        if dirty_last {
            cut = self.cut_dirty_page(ino, last_block, within)?;
        }
        let data_len = cut.as_ref().map_or(0, Vec::len) as u32;
        self.store.reserve_in(Head::Base, INODE_LEN + TRUNCATION_LEN + data_len)?;
        // From here on nothing can be refused; dropped pages release their reservations.
        let first_gone = new_size.div_ceil(BLOCK) as u32;
        let gone: Vec<u32> = self.pages.blocks(ino, first_gone).collect();
        for block in gone {
            if let Some(promise) = self.pages.remove(ino, block) {
                self.cancel(&promise);
            }
        }
        let inode = self.inode(ino)?;
        inode.size = new_size;
        inode.mtime = time;
        inode.ctime = time;
        let durable = Durable::now_if(inode.is_sync());
        let inode = inode.clone();
        let durable = self.durable(durable);
        let mut group = Group::default();
        group.add_inode(self.nodes(), &inode.node(), Follow::More)?;
        let node = Truncation { ino, old_size, new_size };
        group.add_truncation(
            self.nodes(),
            &node,
            if cut.is_none() { Follow::Last } else { Follow::More },
        )?;
        if let Some(node) = &cut {
            group.add_last_data(self.nodes(), node)?;
        }
        let result = group.write(self.nodes(), &[ino], durable);
        let result = result.and_then(|written| {
            if let Some(data) = written.get(2) {
                self.store.nodes.add_leaf(Key::data(ino, last_block), *data)?;
            }
            self.store.nodes.add_leaf(Key::inode(ino), written[0])?;
            self.store.nodes.waste(&written[1])?;
            let behind = old_size.div_ceil(BLOCK);
            if u64::from(first_gone) < behind {
                let last = Key::data(ino, (behind - 1) as u32);
                self.store.nodes.remove_range(Key::data(ino, first_gone), last)?;
            }
            Ok(())
        });
        self.must(result, "truncation")?;
        if dirty_last && let Some(promise) = self.pages.remove(ino, last_block) {
            self.release(&promise);
        }
        self.inode_written(ino);
        Ok(())
    }

    /// Returns the data node of a truncated dirty page. It is written in the truncation's group,
    /// because no node of the block may extend beyond the file.
    fn cut_dirty_page(&mut self, ino: u32, block: u32, within: usize) -> Step<Option<Vec<u8>>> {
        let inode = self.inode(ino)?;
        let is_compressed = inode.has(inode_flags::COMPRESS);
        let how = if is_compressed { inode.compr_type } else { Compression::None };
        let Some(page) = self.pages.get(ino, block) else { return Ok(None) };
        let content = page[..within].to_vec();
        Ok(Some(self.pages.frame_one(Key::data(ino, block), &content, how)))
    }
}
