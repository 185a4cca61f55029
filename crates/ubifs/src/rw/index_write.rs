//! Writes the dirty part of the index (spec: ubifs-runtime 11.7 to 11.9).
//!
//! # Invariants
//! 1. Index nodes are written to LEBs that hold nothing else: after the index head, into empty
//!    LEBs, or, if there are too few of those, into the gaps between nodes that are still needed.
//! 2. A gap holds no node of the committed index and none of the tree.

use super::core::Core;
use super::error::{Fault, Step, at};
use super::flash::align8;
use super::lprops::Category;
use super::tnc::ZnodeId;
use eraseblock_base::align::{align_up, align_up_usize};
use eraseblock_ubifs_format::encode::{self, Seal, index_len};
use eraseblock_ubifs_format::{Branch, constants::PADDING_BYTE};

/// Where index nodes go: bytes for one LEB.
struct Run {
    leb: u32,
    from: u32,
    bytes: Vec<u8>,
}

impl Core {
    /// Writes all dirty znodes.
    pub(super) fn write_index(&mut self) -> Step<()> {
        let order = self.tnc.dirty_in_order();
        let mut left = order.as_slice();
        let mut lebs = Vec::new();
        let mut may_use_gaps = true;
        // Find all space first: the available empty LEBs, then gaps for the rest.
        while self.lebs_for(left) > lebs.len() {
            if let Some(leb) = self.find_index_leb()? {
                lebs.push(leb);
                continue;
            }
            if !may_use_gaps {
                break;
            }
            let placed = self.fill_gaps_of_one(left, &lebs)?;
            may_use_gaps = placed.is_some();
            left = &left[placed.unwrap_or(0)..];
        }
        if self.lebs_for(left) > lebs.len() {
            return Err(Fault::no_space());
        }
        self.write_in_empty_space(left, lebs)
    }

    fn node_len(&self, id: ZnodeId) -> u32 {
        index_len(self.tnc.branches(id).len() as u32)
    }

    /// Returns the number of empty LEBs needed in addition to the space at the index head.
    fn lebs_for(&self, nodes: &[ZnodeId]) -> usize {
        let size = self.flash.leb_size;
        let (mut offset, mut lebs) = (self.master.ihead_offs, 0);
        for id in nodes {
            let len = self.node_len(*id);
            if offset + len > size {
                lebs += 1;
                offset = 0;
            }
            offset = align8(offset + len);
        }
        lebs
    }

    /// Encodes a node after the content of `bytes` for a LEB from `from`, and records its place.
    fn place_node(&mut self, id: ZnodeId, leb: u32, from: u32, bytes: &mut Vec<u8>) -> Step<()> {
        let sqnum = self.next_sqnum()?;
        let (level, branches) = self.tnc.content(id);
        let branches: Vec<Branch> = branches.iter().map(super::tnc::Zbranch::branch).collect();
        let start = encode::start(bytes);
        encode::index(bytes, level as u16, &branches, Seal::single(sqnum));
        let len = (bytes.len() - start) as u32;
        bytes.resize(align_up_usize(bytes.len(), 8), PADDING_BYTE);
        self.tnc.written(id, leb, from + start as u32, len);
        Ok(())
    }

    fn write_in_empty_space(&mut self, nodes: &[ZnodeId], lebs: Vec<u32>) -> Step<()> {
        let mut lebs = lebs.into_iter();
        let (leb, from) = (self.master.ihead_lnum, self.master.ihead_offs);
        let mut run = Run { leb, from, bytes: Vec::new() };
        for id in nodes {
            let end = run.from + run.bytes.len() as u32;
            if end + self.node_len(*id) > self.flash.leb_size {
                self.finish_run(&mut run)?;
                self.lprops.set_taken(&self.flash, run.leb, false)?;
                let Some(leb) = lebs.next() else { return Err(Fault::no_space()) };
                run = Run { leb, from: 0, bytes: Vec::new() };
            }
            self.place_node(*id, run.leb, run.from, &mut run.bytes)?;
        }
        self.finish_run(&mut run)?;
        self.master.ihead_lnum = run.leb;
        self.master.ihead_offs = run.from + run.bytes.len() as u32;
        for unused in lebs {
            self.lprops.set_empty(&self.flash, unused)?;
            self.lprops.set_taken(&self.flash, unused, false)?;
        }
        Ok(())
    }

    fn finish_run(&mut self, run: &mut Run) -> Step<()> {
        if run.bytes.is_empty() {
            return Ok(());
        }
        let used = run.bytes.len();
        encode::pad(&mut run.bytes, self.flash.min_io);
        let padding = (run.bytes.len() - used) as u32;
        self.flash.write(run.leb, run.from, &run.bytes)?;
        let free = self.flash.leb_size - run.from - run.bytes.len() as u32;
        self.lprops.update(&self.flash, run.leb, |lp| {
            lp.free = free;
            lp.dirty += padding;
            lp.index = true;
        })?;
        Ok(())
    }

    /// Writes as many of the nodes as fit into the gaps of one index LEB. Returns their number, or
    /// nothing if no LEB has a gap.
    fn fill_gaps_of_one(&mut self, nodes: &[ZnodeId], mine: &[u32]) -> Step<Option<usize>> {
        for leb in self.index_lebs_by_dirt()? {
            if leb == self.master.ihead_lnum || mine.contains(&leb) {
                continue;
            }
            let placed = self.fill_gaps(leb, nodes)?;
            if placed > 0 {
                return Ok(Some(placed));
            }
        }
        // A LEB that was collected since the last commit still holds nodes of the committed
        // index; its gaps can be used as well.
        let size = self.flash.leb_size;
        for slot in 0..self.gc.queued.len() {
            let leb = self.gc.queued[slot].0;
            self.lprops.update(&self.flash, leb, |lp| {
                lp.free = 0;
                lp.dirty = size;
                lp.index = true;
            })?;
            let placed = self.fill_gaps(leb, nodes)?;
            if placed > 0 {
                self.gc.queued.remove(slot);
                self.lprops.set_taken(&self.flash, leb, false)?;
                return Ok(Some(placed));
            }
            self.lprops.set_empty(&self.flash, leb)?;
        }
        Ok(None)
    }

    /// Returns the index LEBs with space, the dirtiest first.
    fn index_lebs_by_dirt(&mut self) -> Step<Vec<u32>> {
        self.lprops.load_all(&self.flash)?;
        let set = self.lprops.set(Category::DirtyIndex);
        Ok(set.iter().rev().map(|(_, leb)| *leb).collect())
    }

    /// Writes nodes into the gaps of a LEB by rewriting it; returns their number.
    fn fill_gaps(&mut self, leb: u32, nodes: &[ZnodeId]) -> Step<usize> {
        let mut bytes = Vec::new();
        self.flash.read_leb(leb, &mut bytes)?;
        let size = self.flash.leb_size;
        let mut kept = Vec::new();
        for (offset, level, key) in self.index_nodes(leb, &bytes)? {
            let Self { tnc, flash, .. } = self;
            let is_old = tnc.old.contains(&(leb, offset));
            let is_live = !is_old && tnc.find_clean(flash, level, key, (leb, offset))?.is_some();
            if is_old || is_live {
                let len = node_len_at(&bytes, offset);
                kept.push((offset, len, is_live));
            }
        }
        let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
        let mut placed = 0;
        let mut live_bytes = 0;
        let bounds = kept.iter().copied().chain([(size, 0, false)]);
        for (offset, len, is_live) in bounds {
            while let Some(id) = nodes.get(placed) {
                let node = self.node_len(*id);
                if out.len() as u32 + align8(node) > offset {
                    break;
                }
                self.place_node(*id, leb, 0, &mut out)?;
                live_bytes += align8(node);
                placed += 1;
            }
            if offset == size {
                break;
            }
            let gap = offset as usize - out.len();
            encode::pad_by(&mut out, gap);
            let end = align8(offset + len).min(size);
            out.extend_from_slice(&bytes[offset as usize..end as usize]);
            live_bytes += if is_live { align8(len) } else { 0 };
        }
        if placed == 0 {
            return Ok(0);
        }
        encode::pad(&mut out, self.flash.min_io);
        let end = align_up(out.len() as u32, self.flash.min_io);
        if end > size {
            return Err(Fault::refused(at(leb, size), "gap-overrun", "a gap was overfilled"));
        }
        self.flash.change(leb, &out)?;
        self.flash.activity.gaps_filled += 1;
        let free = size - end;
        self.lprops.update(&self.flash, leb, |lp| {
            lp.free = free;
            lp.dirty = end - live_bytes;
            lp.index = true;
        })?;
        Ok(placed)
    }
}

fn node_len_at(bytes: &[u8], offset: u32) -> u32 {
    let start = offset as usize + 16;
    bytes
        .get(start..start + 4)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |len| u32::from_le_bytes(*len))
}
