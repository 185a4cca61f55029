//! Writes the dirty part of the index (layer 8; spec: ubifs-runtime 11.7 to 11.9).
//!
//! # Invariants
//! 1. Index nodes are written to LEBs that hold nothing else: after the index head, into empty
//!    LEBs, or, if there are too few of those, into the gaps between nodes that are still needed.
//! 2. Children are written before their parents, because a parent holds the places of its children.
//! 3. A gap holds no node of the committed index and none of the tree.

use super::error::{Fault, Step, at};
use super::flash::align8;
use super::gc::Gc;
use super::lprops::{Category, Use};
use super::nodes::Nodes;
use super::place::{Place, Written};
use super::tnc::{self, Zbranch, ZnodeId};
use eraseblock_base::align::{align_up, align_up_usize};
use eraseblock_ubifs_format::encode::{self, Seal, index_len};
use eraseblock_ubifs_format::{Branch, constants::PADDING_BYTE};

/// Bytes for one LEB from `start` on.
struct Run {
    start: Place,
    bytes: Vec<u8>,
}

impl Run {
    fn new(start: Place) -> Self {
        Self { start, bytes: Vec::new() }
    }

    fn end(&self) -> Place {
        self.start.after(self.bytes.len() as u32)
    }
}

/// A node in a LEB whose gaps are filled.
#[derive(Clone, Copy, Debug)]
struct Kept {
    offset: u32,
    len: u32,
    /// Whether it is part of the tree, and not only of the committed index.
    is_live: bool,
}

/// Writes all dirty znodes, the first to `head`, the end of the index; returns the new end.
pub(super) fn write_index(nodes: &mut Nodes, gc: &mut Gc, head: Place) -> Step<Place> {
    IndexWriter { nodes, gc, head }.write()
}

/// An index being written.
struct IndexWriter<'a> {
    nodes: &'a mut Nodes,
    gc: &'a mut Gc,
    head: Place,
}

impl IndexWriter<'_> {
    fn write(&mut self) -> Step<Place> {
        let order = self.nodes.tnc.dirty_in_order();
        let mut left = order.as_slice();
        let mut lebs = Vec::new();
        let mut may_use_gaps = true;
        // Find all space first: the available empty LEBs, then gaps for the rest.
        while self.lebs_for(left) > lebs.len() {
            if let Some(leb) = self.nodes.lprops.find_index_leb(&mut self.nodes.flash)? {
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
        index_len(self.nodes.tnc.branches(id).len() as u32)
    }

    /// Returns the number of empty LEBs needed in addition to the space at the index head.
    fn lebs_for(&self, nodes: &[ZnodeId]) -> usize {
        let size = self.nodes.flash.leb_size;
        let (mut offset, mut lebs) = (self.head.offset, 0);
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

    /// Encodes a node after the content of a run, and records its place.
    fn place_node(&mut self, id: ZnodeId, run: &mut Run) -> Step<()> {
        let sqnum = self.nodes.next_sqnum()?;
        let (level, branches) = self.nodes.tnc.content(id);
        let branches: Vec<Branch> = branches.iter().map(Zbranch::branch).collect();
        let start = encode::start(&mut run.bytes);
        encode::index(&mut run.bytes, level as u16, &branches, Seal::single(sqnum));
        let len = (run.bytes.len() - start) as u32;
        run.bytes.resize(align_up_usize(run.bytes.len(), 8), PADDING_BYTE);
        let place = run.start.after(start as u32);
        self.nodes.tnc.written(id, Written { place, len });
        Ok(())
    }

    /// Returns the new end of the index.
    fn write_in_empty_space(&mut self, order: &[ZnodeId], lebs: Vec<u32>) -> Step<Place> {
        let mut lebs = lebs.into_iter();
        let mut run = Run::new(self.head);
        for id in order {
            if run.end().offset + self.node_len(*id) > self.nodes.flash.leb_size {
                self.finish_run(&mut run)?;
                self.set_use(run.start.leb, Use::Available)?;
                let Some(leb) = lebs.next() else { return Err(Fault::no_space()) };
                run = Run::new(Place::start_of(leb));
            }
            self.place_node(*id, &mut run)?;
        }
        self.finish_run(&mut run)?;
        for unused in lebs {
            self.nodes.lprops.set_empty(&self.nodes.flash, unused)?;
            self.set_use(unused, Use::Available)?;
        }
        Ok(run.end())
    }

    fn set_use(&mut self, leb: u32, wanted: Use) -> Step<()> {
        self.nodes.lprops.set_use(&self.nodes.flash, leb, wanted)
    }

    fn finish_run(&mut self, run: &mut Run) -> Step<()> {
        if run.bytes.is_empty() {
            return Ok(());
        }
        let Nodes { flash, lprops, .. } = &mut *self.nodes;
        let used = run.bytes.len();
        encode::pad(&mut run.bytes, flash.min_io);
        let padding = (run.bytes.len() - used) as u32;
        flash.write(run.start.leb, run.start.offset, &run.bytes)?;
        let free = flash.leb_size - run.end().offset;
        lprops.update(flash, run.start.leb, |lp| {
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
            if leb == self.head.leb || mine.contains(&leb) {
                continue;
            }
            let placed = self.fill_gaps(leb, nodes)?;
            if placed > 0 {
                return Ok(Some(placed));
            }
        }
        self.fill_gaps_of_queued(nodes)
    }

    /// Like [`Self::fill_gaps_of_one`], for the LEBs that were collected since the last commit: they
    /// still hold nodes of the committed index, but not only those.
    fn fill_gaps_of_queued(&mut self, nodes: &[ZnodeId]) -> Step<Option<usize>> {
        let size = self.nodes.flash.leb_size;
        for slot in 0..self.gc.queued().len() {
            let leb = self.gc.queued()[slot].leb;
            self.nodes.lprops.update(&self.nodes.flash, leb, |lp| {
                lp.free = 0;
                lp.dirty = size;
                lp.index = true;
            })?;
            let placed = self.fill_gaps(leb, nodes)?;
            if placed > 0 {
                self.gc.unqueue(leb);
                self.set_use(leb, Use::Available)?;
                return Ok(Some(placed));
            }
            self.nodes.lprops.set_empty(&self.nodes.flash, leb)?;
        }
        Ok(None)
    }

    /// Returns the index LEBs with space, the dirtiest first.
    fn index_lebs_by_dirt(&mut self) -> Step<Vec<u32>> {
        let Nodes { flash, lprops, .. } = &mut *self.nodes;
        lprops.load_all(flash)?;
        Ok(lprops.set(Category::DirtyIndex).iter().rev().map(|listed| listed.leb).collect())
    }

    /// Returns the nodes of an index LEB that must not be overwritten. Those of the committed index
    /// belong to them: a cut before the master is on flash leads back to them.
    fn kept_nodes(&mut self, leb: u32, bytes: &[u8]) -> Step<Vec<Kept>> {
        let Nodes { tnc, flash, .. } = &mut *self.nodes;
        let mut kept = Vec::new();
        for node in tnc::scan_leb(flash, leb, bytes)? {
            let is_old = tnc.old.contains(&Place { leb, offset: node.offset });
            let is_live = !is_old && tnc.find_clean(flash, leb, &node)?.is_some();
            if is_old || is_live {
                kept.push(Kept { offset: node.offset, len: node.len, is_live });
            }
        }
        Ok(kept)
    }

    /// Writes nodes into the gaps of a LEB by rewriting it; returns their number.
    fn fill_gaps(&mut self, leb: u32, nodes: &[ZnodeId]) -> Step<usize> {
        let mut bytes = Vec::new();
        self.nodes.flash.read_leb(leb, &mut bytes)?;
        let size = self.nodes.flash.leb_size;
        let kept = self.kept_nodes(leb, &bytes)?;
        let mut run = Run::new(Place::start_of(leb));
        let (mut placed, mut live_bytes) = (0, 0);
        let rest = Kept { offset: size, len: 0, is_live: false };
        for next in kept.into_iter().chain([rest]) {
            while let Some(id) = nodes.get(placed) {
                let len = align8(self.node_len(*id));
                if run.end().offset + len > next.offset {
                    break;
                }
                self.place_node(*id, &mut run)?;
                live_bytes += len;
                placed += 1;
            }
            if next.offset == size {
                break;
            }
            let gap = next.offset as usize - run.bytes.len();
            encode::pad_by(&mut run.bytes, gap);
            let end = align8(next.offset + next.len).min(size);
            run.bytes.extend_from_slice(&bytes[next.offset as usize..end as usize]);
            live_bytes += if next.is_live { align8(next.len) } else { 0 };
        }
        if placed > 0 {
            self.rewrite_filled(run, live_bytes)?;
        }
        Ok(placed)
    }

    /// Replaces a LEB by its nodes and those in its gaps, atomically: after a cut it holds either
    /// content, and both hold every node of the committed index.
    fn rewrite_filled(&mut self, run: Run, live_bytes: u32) -> Step<()> {
        let Nodes { flash, lprops, .. } = &mut *self.nodes;
        let Run { start: Place { leb, .. }, bytes: mut out } = run;
        let size = flash.leb_size;
        encode::pad(&mut out, flash.min_io);
        let end = align_up(out.len() as u32, flash.min_io);
        if end > size {
            return Err(Fault::refused(at(leb, size), "gap-overrun", "a gap was overfilled"));
        }
        flash.change(leb, &out)?;
        flash.activity.gaps_filled += 1;
        lprops.update(flash, leb, |lp| {
            lp.free = size - end;
            lp.dirty = end - live_bytes;
            lp.index = true;
        })?;
        Ok(())
    }
}
