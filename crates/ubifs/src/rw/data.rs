//! File content: reading, writing to the page cache, write-back, truncation (spec: ubifs-runtime
//! 8.10, 8.11, 9.4, 9.5, 21).

use super::budget::Request;
use super::core::Core;
use super::error::{Fault, Step, at};
use super::journal::Group;
use super::pages::PAGE;
use super::tnc::Zbranch;
use super::wbuf::{BASE_HEAD, DATA_HEAD};
use crate::codes;
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, MAX_FILE_SIZE, inode_flags};
use eraseblock_ubifs_format::encode;
use eraseblock_ubifs_format::{Compression, Key, Truncation};
use eraseblock_vfs::{FsErrorKind, Timestamp};

const BLOCK: u64 = BLOCK_SIZE as u64;
/// Number of blocks that are compressed and written together.
pub(super) const BATCH: usize = 256;
/// Number of blocks to read ahead.
pub(super) const PAGES_AHEAD: usize = 32;

/// Buffers for reading, reused from one read to the next.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The nodes that were found, and possibly the following ones.
    pub(super) branches: Vec<Zbranch>,
    pub(super) raw: Vec<u8>,
}

/// Returns the keys of the first and the last block of a range that is not empty.
fn keys_of(ino: u32, offset: u64, len: usize) -> Option<(Key, Key)> {
    let last = (offset + len as u64).checked_sub(1).filter(|_| len > 0)?;
    Some((Key::data(ino, (offset / BLOCK) as u32), Key::data(ino, (last / BLOCK) as u32)))
}

/// Returns the key of the last block of a range that is not empty.
pub(super) fn last_key_of(ino: u32, offset: u64, len: usize) -> Key {
    keys_of(ino, offset, len.max(1)).map_or(Key::data(ino, 0), |(_, last)| last)
}

pub(super) fn corrupt(ino: u32, branch: &Zbranch, message: &str) -> Fault {
    let message = format!("inode {ino} block {}: {message}", branch.key.value());
    Fault::refused(at(branch.leb, branch.offset), codes::DATA_CORRUPT, message)
}

impl Core {
    /// Performs the first half of a read: finds the nodes of `len` bytes from `offset` on, which
    /// may load parts of the index. The result is valid until the next change.
    pub(super) fn plan_read(
        &mut self,
        ino: u32,
        offset: u64,
        len: usize,
        reading: &mut Reading,
    ) -> Step<()> {
        reading.branches.clear();
        let len = self.window(ino, offset, len);
        let Some((first, last)) = keys_of(ino, offset, len) else { return Ok(()) };
        self.scan(first, last, &mut |branch| {
            reading.branches.push(*branch);
            true
        })
    }

    /// Like the first half, without loading anything; returns whether that was sufficient.
    pub(super) fn plan_loaded(
        &self,
        ino: u32,
        offset: u64,
        len: usize,
        reading: &mut Reading,
    ) -> bool {
        reading.branches.clear();
        let len = self.window(ino, offset, len);
        let Some((first, last)) = keys_of(ino, offset, len) else { return true };
        self.tnc.scan_loaded(first, last, &mut |branch| {
            reading.branches.push(*branch);
            true
        })
    }

    /// Performs the second half of a read, which may run in parallel. The range ends at or before
    /// the file's size.
    pub(super) fn read_planned(
        &self,
        ino: u32,
        offset: u64,
        buf: &mut [u8],
        reading: &mut Reading,
    ) -> Step<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let (first, behind) = ((offset / BLOCK) as u32, offset + buf.len() as u64);
        let blocks = behind.div_ceil(BLOCK) - u64::from(first);
        let last = ((behind - 1) / BLOCK) as u32;
        let is_within = |branch: &&Zbranch| branch.key.value() <= last;
        let found = reading.branches.iter().take_while(is_within).count();
        if (found as u64) < blocks {
            buf.fill(0);
        }
        self.read_nodes(ino, offset, buf, reading)?;
        for block in self.pages.blocks(ino, first).take_while(|block| *block <= last) {
            let Some(page) = self.pages.get(ino, block) else { continue };
            copy_block(offset, buf, block, page);
        }
        Ok(())
    }

    /// Reads a block from flash, if it is not a hole; returns its compression and its length in
    /// bytes.
    fn stored_block(
        &mut self,
        ino: u32,
        block: u32,
        page: &mut [u8; PAGE],
    ) -> Step<Option<(usize, Compression)>> {
        let Some(branch) = self.find(Key::data(ino, block))? else { return Ok(None) };
        let mut buf = Vec::new();
        let how = self.leaf(&branch, &mut buf)?.data()?.compression;
        let size = self.decode_block(ino, &branch, &buf, page)?;
        page[size..].fill(0);
        Ok(Some((size, how)))
    }

    /// Returns the cost of making a block dirty; nothing if it is already dirty. Without `exact`, a
    /// block that is completely overwritten counts as new, which saves a lookup.
    fn page_cost(
        &mut self,
        ino: u32,
        block: u32,
        is_whole: bool,
        exact: bool,
    ) -> Step<Option<Request>> {
        if self.pages.get(ino, block).is_some() {
            return Ok(None);
        }
        let is_new = (is_whole && !exact) || self.find(Key::data(ino, block))?.is_none();
        Ok(Some(if is_new { Request::NEW_PAGE } else { Request::DIRTIED_PAGE }))
    }

    /// Returns the sum of [`Core::page_cost`] over a range of bytes.
    fn range_cost(&mut self, ino: u32, offset: u64, len: u64, exact: bool) -> Step<Request> {
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
    /// computed again.
    fn budget_range(
        &mut self,
        ino: u32,
        (offset, len): (u64, u64),
        exact: bool,
        inos: &[u32],
    ) -> Step<()> {
        loop {
            let cost = self.range_cost(ino, offset, len, exact)?;
            self.budget_dirty(&cost, inos)?;
            if self.range_cost(ino, offset, len, exact)? == cost {
                return Ok(());
            }
            self.cancel(&cost);
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
        let mut exact = false;
        let range = (offset, data.len() as u64);
        match self.budget_range(ino, range, exact, changed) {
            Err(fault) if fault.is_no_space() => {
                exact = true;
                self.budget_range(ino, range, exact, changed)?;
            }
            result => result?,
        }
        self.fill_pages(ino, offset, data, exact)?;
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

    /// Copies data into pages with reserved space.
    fn fill_pages(&mut self, ino: u32, offset: u64, data: &[u8], exact: bool) -> Step<()> {
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
                let mut bytes = self.pages.blank(!is_whole);
                if !covers {
                    let mut page = [0; PAGE];
                    if self.stored_block(ino, number, &mut page)?.is_some() {
                        bytes.copy_from_slice(&page);
                    }
                }
                self.pages.insert(ino, number, bytes, promise);
            }
            if let Some(page) = self.pages.get_mut(ino, number) {
                page[within].copy_from_slice(part);
            }
        }
        Ok(())
    }

    /// Writes pages back, starting with the inode that has been dirty longest.
    pub(super) fn write_back_oldest(&mut self, pages: usize) -> Step<()> {
        let target = self.pages.len().saturating_sub(pages);
        while self.pages.len() > target {
            let Some(ino) = self.pages.oldest() else { break };
            self.write_back(ino)?;
        }
        Ok(())
    }

    /// Writes everything back.
    pub(super) fn write_back_all(&mut self) -> Step<()> {
        self.write_back_oldest(usize::MAX)
    }

    /// Writes the pages of an inode back, after its size (spec: ubifs-runtime 9.4).
    pub(super) fn write_back(&mut self, ino: u32) -> Step<()> {
        let blocks: Vec<u32> = self.pages.blocks(ino, 0).collect();
        let Some(last) = blocks.last() else { return Ok(()) };
        let inode = self.inode(ino)?;
        let size = inode.size;
        if size > inode.synced_size && (u64::from(*last) + 1) * BLOCK > inode.synced_size {
            self.write_inode(ino, false)?;
        }
        let inode = self.inode(ino)?;
        let is_compressed = inode.has(inode_flags::COMPRESS);
        let how = if is_compressed { inode.compr_type } else { Compression::None };
        let mut framed = Vec::new();
        for batch in blocks.chunks(BATCH) {
            let inside = batch.partition_point(|block| u64::from(*block) * BLOCK < size);
            let (inside, outside) = batch.split_at(inside);
            self.pages.frame(ino, size, inside, how, &mut framed);
            for framed in &mut framed {
                self.write_block(ino, framed.block, &mut framed.node)?;
            }
            for block in outside {
                if let Some(promise) = self.pages.remove(ino, *block) {
                    self.cancel(&promise);
                }
            }
        }
        Ok(())
    }

    fn write_block(&mut self, ino: u32, block: u32, node: &mut [u8]) -> Step<()> {
        self.reserve(DATA_HEAD, node.len() as u32)?;
        let sqnum = self.next_sqnum()?;
        encode::seal(node, sqnum);
        let (leb, offset) = self.append(DATA_HEAD, node)?;
        self.heads[DATA_HEAD].inos.insert(ino);
        let written = super::journal::Written { leb, offset, len: node.len() as u32 };
        let result = self.add_leaf(Key::data(ino, block), written);
        self.must(result, "write-back")?;
        if let Some(promise) = self.pages.remove(ino, block) {
            self.release(&promise);
        }
        Ok(())
    }

    /// Makes one inode durable (spec: ubifs-runtime 9.7).
    pub(super) fn sync_inode(&mut self, ino: u32) -> Step<()> {
        self.write_back(ino)?;
        self.write_inode(ino, false)?;
        for head in [BASE_HEAD, DATA_HEAD] {
            if self.heads[head].inos.contains(&ino) {
                self.sync_head(head)?;
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

    fn truncate(
        &mut self,
        ino: u32,
        old_size: u64,
        new_size: u64,
        time: eraseblock_ubifs_format::Time,
    ) -> Step<()> {
        let is_partial = !new_size.is_multiple_of(BLOCK);
        let mut request = Request::dirty_inode(56);
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
        time: eraseblock_ubifs_format::Time,
    ) -> Step<()> {
        let last_block = (new_size / BLOCK) as u32;
        let within = (new_size % BLOCK) as usize;
        // Truncate the last block, from memory or flash.
        let mut cut = None;
        let dirty_last = within > 0 && self.pages.get(ino, last_block).is_some();
        if within > 0 && !dirty_last {
            let mut page = [0; PAGE];
            if let Some((size, how)) = self.stored_block(ino, last_block, &mut page)?
                && size > within
            {
                let key = Key::data(ino, last_block);
                cut = Some(self.pages.frame_one(key, &page[..within], how));
            }
        }
        if dirty_last {
            cut = self.cut_dirty_page(ino, last_block, within)?;
        }
        let data_len = cut.as_ref().map_or(0, Vec::len) as u32;
        self.reserve(BASE_HEAD, 160 + 56 + data_len)?;
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
        let sync = inode.is_sync();
        let inode = inode.clone();
        let mut group = Group::default();
        group.inode(self, &inode.node(), false)?;
        let node = Truncation { ino, old_size, new_size };
        group.truncation(self, &node, cut.is_none())?;
        if let Some(node) = &cut {
            group.last_data(self, node)?;
        }
        let result = self.write_group(&group, &[ino], sync);
        let result = result.and_then(|written| {
            if let Some(data) = written.get(2) {
                self.add_leaf(Key::data(ino, last_block), *data)?;
            }
            self.add_leaf(Key::inode(ino), written[0])?;
            self.waste(&written[1])?;
            let behind = old_size.div_ceil(BLOCK);
            if u64::from(first_gone) < behind {
                let last = Key::data(ino, (behind - 1) as u32);
                self.remove_range(Key::data(ino, first_gone), last)?;
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

/// Returns the bytes of a block in a buffer for bytes from `offset` on, if it covers all of them.
pub(super) fn whole_block(offset: u64, buf: &mut [u8], block: u32) -> Option<&mut [u8; PAGE]> {
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
