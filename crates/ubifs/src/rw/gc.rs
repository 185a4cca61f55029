//! Garbage collection (layer 8; spec: ubifs-runtime 14).
//!
//! A collection never commits. It returns [`Fault::CommitFirst`] if only a commit can free more,
//! and the driver (`make_room`) repeats it.
//!
//! # Invariants
//! 1. One LEB is reserved and empty so that collecting can begin on a full volume. None is between
//!    the moment it becomes the GC head and the moment a victim takes its place.
//! 2. Nothing is erased before every write buffer is on flash, because a buffer may hold the node
//!    that made another one obsolete.
//! 3. LEBs that held index nodes are `queued`: the committed index may need them, so they are
//!    erased after the next commit.
//! 4. LEBs that are reserved, queued or pinned are taken, and in no journal head.

use super::error::{Fault, Step};
use super::find::{Empties, Wanted};
use super::flash::align8;
use super::lprops::{BySpace, Category, Use};
use super::nodes::Nodes;
use super::place::Place;
use super::supply::Supply;
use super::tnc::{self, Zbranch};
use super::wbuf::Head;
use eraseblock_base::Leb;
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::{Key, KeyKind};
use std::collections::BTreeSet;

/// Rounds before giving up.
const HARD_LIMIT: u32 = 32;
/// Rounds after which to wait for freed index LEBs.
const SOFT_LIMIT: u32 = 4;

/// LEBs that garbage collection keeps back.
#[derive(Debug, Default)]
pub(super) struct Gc {
    reserved: Option<u32>,
    queued: Vec<Queued>,
    /// LEBs kept only so that a mount after a power cut can still read dead inodes; taken until the
    /// next commit (spec: ubifs-runtime 18.6).
    pinned: BTreeSet<u32>,
}

/// An index LEB without nodes of the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) leb: u32,
    /// Whether the running commit writes an index without it.
    erasable: bool,
}

/// What garbage is collected for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// For a LEB that a journal head can write to: one that is already empty will do.
    Journal,
    /// For more space in total: LEBs that are already empty do not count.
    Budget,
}

/// The fate of a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Collected {
    /// It is empty and belongs to the caller.
    Freed(u32),
    /// It is queued for the next commit.
    IndexFreed,
    /// It is the reserved LEB now.
    Retained,
}

/// A node to move.
#[derive(Clone, Copy, Debug)]
struct Live {
    offset: u32,
    len: u32,
    key: Key,
}

/// The live nodes of a victim.
#[derive(Debug, Default)]
struct LiveNodes {
    /// Content, by position in its file.
    data: Vec<Live>,
    others: Vec<Live>,
}

impl LiveNodes {
    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.others.is_empty()
    }
}

/// What to do with a node that does not fit in the GC head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Misfit {
    /// End there, so that the order of the nodes is kept.
    Ends,
    /// Pass over it: a smaller one may fit.
    Skipped,
}

impl Gc {
    /// Returns the reserved LEB.
    pub(super) fn reserved(&self) -> Option<u32> {
        self.reserved
    }

    /// Reserves a LEB that is taken and empty.
    pub(super) fn set_reserved(&mut self, leb: Option<u32>) {
        self.reserved = leb;
    }

    pub(super) fn queued(&self) -> &[Queued] {
        &self.queued
    }

    /// Removes an index LEB from the queue, because index nodes were written to its gaps.
    pub(super) fn unqueue(&mut self, leb: u32) {
        self.queued.retain(|queued| queued.leb != leb);
    }

    pub(super) fn pinned(&self) -> &BTreeSet<u32> {
        &self.pinned
    }

    /// Returns what is known about empty LEBs, of which the index may need so many.
    pub(super) fn supply(&self, min_idx_lebs: i64) -> Supply {
        Supply { min_idx_lebs, queued: self.queued.len().cast_signed() as i64 }
    }

    /// Collects garbage until a LEB is free, and returns it, taken and erased (spec: ubifs-runtime
    /// 14.3).
    pub(super) fn collect(
        &mut self,
        nodes: &mut Nodes,
        min_idx_lebs: i64,
        purpose: Purpose,
    ) -> Step<u32> {
        nodes.flash.check_writable()?;
        nodes.sync_heads()?;
        let mut retained = false;
        let result = match self.collect_rounds(nodes, min_idx_lebs, purpose, &mut retained) {
            Err(fault) if fault.is_no_space() && !self.queued.is_empty() => Err(Fault::CommitFirst),
            other => other,
        };
        let activity = &mut nodes.flash.activity;
        match &result {
            Ok(_) => {}
            Err(Fault::CommitFirst) => activity.retained_before_commit += u64::from(retained),
            Err(fault) if fault.is_no_space() => {
                activity.retained_before_full += u64::from(retained);
            }
            Err(fault) => {
                let reason = format!("garbage collection: {}", fault.describe());
                nodes.flash.turn_read_only(&reason);
                return result;
            }
        }
        // The moved nodes first: until they are on flash, the victim that became the reserved LEB
        // holds their only copies.
        nodes.sync_head(Head::Gc)?;
        if let Some(leb) = self.reserved {
            nodes.flash.unmap(leb)?;
        }
        result
    }

    /// Collects LEBs until one is free; sets `retained` if a victim became the reserved LEB.
    fn collect_rounds(
        &mut self,
        nodes: &mut Nodes,
        min_idx_lebs: i64,
        purpose: Purpose,
        retained: &mut bool,
    ) -> Step<u32> {
        let empties = match purpose {
            Purpose::Journal => Empties::Count,
            Purpose::Budget => Empties::DoNotCount,
        };
        let mut min_space = nodes.flash.dead_wm;
        for round in 0..HARD_LIMIT {
            if nodes.journal.log.wants_commit || (round > SOFT_LIMIT && !self.queued.is_empty()) {
                return Err(Fault::CommitFirst);
            }
            let wanted = Wanted { min_space, empties, supply: self.supply(min_idx_lebs) };
            let Some(victim) = nodes.lprops.find_victim(&nodes.flash, wanted)? else {
                return Err(Fault::no_space());
            };
            let gc_room = |nodes: &Nodes| nodes.journal.head(Head::Gc).room(&nodes.flash);
            let room_before = gc_room(nodes);
            let collected = self.collect_leb(nodes, victim);
            if let Err(Fault::CommitFirst) = &collected {
                nodes.lprops.set_use(&nodes.flash, victim, Use::Available)?;
            }
            match collected? {
                Collected::Freed(leb) => return Ok(leb),
                Collected::IndexFreed => {}
                Collected::Retained => {
                    *retained = true;
                    if gc_room(nodes) > room_before {
                        min_space = (min_space / 2).max(nodes.flash.dead_wm);
                    } else if round > SOFT_LIMIT {
                        min_space = (min_space * 2).min(nodes.flash.dark_wm);
                    }
                }
            }
        }
        Err(Fault::no_space())
    }

    /// Collects one LEB, which is taken (spec: ubifs-runtime 14.5).
    pub(super) fn collect_leb(&mut self, nodes: &mut Nodes, victim: u32) -> Step<Collected> {
        let lp = nodes.lprops.get(&nodes.flash, victim)?;
        if lp.reclaimable() == nodes.flash.leb_size && !lp.index {
            return self.free_dead_leb(nodes, victim);
        }
        let mut bytes = Vec::new();
        nodes.flash.read_leb(victim, &mut bytes)?;
        if lp.index {
            nodes.flash.activity.index_lebs_collected += 1;
            dirty_index_nodes(nodes, victim, &bytes)?;
            nodes.lprops.set_empty(&nodes.flash, victim)?;
            // Not erased: a cut before the next commit leads back to the index in it.
            self.queued.push(Queued { leb: victim, erasable: false });
            return Ok(Collected::IndexFreed);
        }
        nodes.flash.activity.leaf_lebs_collected += 1;
        self.move_leaves(nodes, victim, &bytes)?;
        sync_obsoleting_heads(nodes)?;
        nodes.lprops.set_empty(&nodes.flash, victim)?;
        if self.retain(victim) {
            return Ok(Collected::Retained);
        }
        // The moved nodes must be on flash before the only other copies of them are erased.
        nodes.sync_head(Head::Gc)?;
        nodes.flash.unmap(victim)?;
        Ok(Collected::Freed(victim))
    }

    /// Frees a LEB without live nodes.
    fn free_dead_leb(&mut self, nodes: &mut Nodes, victim: u32) -> Step<Collected> {
        sync_obsoleting_heads(nodes)?;
        nodes.lprops.set_empty(&nodes.flash, victim)?;
        nodes.flash.unmap(victim)?;
        let is_retained = self.retain(victim);
        Ok(if is_retained { Collected::Retained } else { Collected::Freed(victim) })
    }

    /// Reserves a LEB if none is; returns whether it did.
    fn retain(&mut self, leb: u32) -> bool {
        let is_needed = self.reserved.is_none();
        if is_needed {
            self.reserved = Some(leb);
        }
        is_needed
    }

    /// Moves the live nodes of a data LEB to the GC head, unchanged (spec: ubifs-runtime 14.6).
    fn move_leaves(&mut self, nodes: &mut Nodes, victim: u32, bytes: &[u8]) -> Step<()> {
        let mut left = live_nodes(nodes, victim, bytes)?;
        while !left.is_empty() {
            if nodes.journal.head(Head::Gc).leb().is_none() {
                self.switch_gc_head(nodes)?;
            }
            fill_gc_head(nodes, victim, bytes, &mut left.data, Misfit::Ends)?;
            fill_gc_head(nodes, victim, bytes, &mut left.others, Misfit::Skipped)?;
            if !left.is_empty() {
                self.switch_gc_head(nodes)?;
            }
        }
        Ok(())
    }

    /// Makes the reserved LEB the GC head.
    fn switch_gc_head(&mut self, nodes: &mut Nodes) -> Step<()> {
        // The reserved LEB may still hold the victim that it was: the copies first.
        nodes.sync_head(Head::Gc)?;
        let Some(leb) = self.reserved else { return Err(Fault::no_space()) };
        nodes.flash.unmap(leb)?;
        nodes.journal.start_gc_leb(&mut nodes.flash, leb)?;
        self.reserved = None;
        Ok(())
    }

    /// Performs the first step of a commit: empties data LEBs without live nodes, and queues index
    /// LEBs without live nodes (spec: ubifs-runtime 11.3 step 3). All write buffers must be on flash
    /// (invariant 2). A cut after it leaves branches of the committed index that lead to erased
    /// nodes; the replay of the journal, which made these nodes obsolete, removes them (10.7).
    pub(super) fn prepare_commit(&mut self, nodes: &mut Nodes) -> Step<()> {
        let Nodes { flash, lprops, .. } = nodes;
        let lebs = |set: &BySpace| set.iter().map(|listed| listed.leb).collect::<Vec<_>>();
        for leb in lebs(lprops.set(Category::Freeable)) {
            flash.unmap(leb)?;
            lprops.set_empty(flash, leb)?;
        }
        for queued in &mut self.queued {
            queued.erasable = true;
        }
        for leb in lebs(lprops.set(Category::FreeableIndex)) {
            lprops.set_use(flash, leb, Use::Taken)?;
            lprops.set_empty(flash, leb)?;
            self.queued.push(Queued { leb, erasable: true });
        }
        Ok(())
    }

    /// Erases queued index LEBs and makes them available. The master of the commit must be on
    /// flash: until then a power cut leads back to the index in them.
    pub(super) fn erase_queued(&mut self, nodes: &mut Nodes) -> Step<()> {
        let Nodes { flash, lprops, .. } = nodes;
        for queued in std::mem::take(&mut self.queued) {
            if queued.erasable {
                flash.unmap(queued.leb)?;
                lprops.set_use(flash, queued.leb, Use::Available)?;
            } else {
                self.queued.push(queued);
            }
        }
        Ok(())
    }

    /// Pins LEBs until the next commit, unless they are already in use.
    pub(super) fn pin(&mut self, nodes: &mut Nodes, lebs: BTreeSet<u32>) -> Step<()> {
        let Nodes { flash, lprops, .. } = nodes;
        for leb in lebs {
            if !lprops.get(flash, leb)?.taken {
                lprops.set_use(flash, leb, Use::Taken)?;
                self.pinned.insert(leb);
            }
        }
        Ok(())
    }

    /// Asserts invariant 4.
    #[cfg(debug_assertions)]
    pub(super) fn assert_kept(&self, nodes: &Nodes) {
        let queued = self.queued.iter().map(|queued| queued.leb);
        for leb in self.reserved.into_iter().chain(queued) {
            nodes.lprops.assert_taken(&nodes.flash, leb);
            assert!(nodes.journal.head_in(leb).is_none(), "LEB {leb} is kept and a journal head");
        }
        for leb in &self.pinned {
            nodes.lprops.assert_taken(&nodes.flash, *leb);
        }
    }

    /// Makes pinned LEBs available. The master of a commit must be on flash: a mount after a cut
    /// then no longer deletes the dead inodes in them.
    pub(super) fn unpin(&mut self, nodes: &mut Nodes) -> Step<()> {
        let Nodes { flash, lprops, .. } = nodes;
        let pinned = std::mem::take(&mut self.pinned);
        pinned.into_iter().try_for_each(|leb| lprops.set_use(flash, leb, Use::Available))
    }
}

/// Writes out the buffers that may hold the node that made a node of a victim obsolete. If the
/// victim were erased first, a cut would lose both.
fn sync_obsoleting_heads(nodes: &mut Nodes) -> Step<()> {
    nodes.sync_head(Head::Base)?;
    nodes.sync_head(Head::Data)
}

/// Makes every index node of a LEB dirty that is still in the tree, so that the next commit writes
/// it elsewhere.
fn dirty_index_nodes(nodes: &mut Nodes, leb: u32, bytes: &[u8]) -> Step<()> {
    let Nodes { tnc, flash, lprops, .. } = nodes;
    for node in tnc::scan_leb(flash, leb, bytes)? {
        if let Some(id) = tnc.find_clean(flash, leb, &node)? {
            tnc.dirty(flash, lprops, id)?;
        }
    }
    Ok(())
}

/// Returns the nodes of a LEB that the index refers to.
fn live_nodes(nodes: &mut Nodes, victim: u32, bytes: &[u8]) -> Step<LiveNodes> {
    let Nodes { tnc, flash, .. } = nodes;
    let mut scanner = Scanner::new(Leb::new(victim), bytes, 0, flash.limits);
    let mut found = LiveNodes::default();
    for (offset, node) in scanner.by_ref() {
        let Some(key) = node.key() else {
            if node.header.node_type == NodeType::Index {
                let message = "an index node in a data LEB";
                return Err(Fault::refused(node.at, "leb-mixed", message));
            }
            continue;
        };
        if tnc.position_at(flash, key, Place { leb: victim, offset })?.is_none() {
            continue;
        }
        let live = Live { offset, len: node.header.len, key };
        let is_data = key.kind() == Some(KeyKind::Data);
        let list = if is_data { &mut found.data } else { &mut found.others };
        list.push(live);
    }
    if let Some(error) = scanner.strict_error(flash.min_io) {
        return Err(error.into());
    }
    found.data.sort_by_key(|live| live.key);
    found.others.sort_by_key(|live| {
        let is_inode = live.key.kind() == Some(KeyKind::Inode);
        (!is_inode, if is_inode { u32::MAX - live.len } else { 0 }, live.key)
    });
    Ok(found)
}

/// Appends nodes to the GC head while they fit, and leaves the others in `live`.
fn fill_gc_head(
    nodes: &mut Nodes,
    victim: u32,
    bytes: &[u8],
    live: &mut Vec<Live>,
    misfit: Misfit,
) -> Step<()> {
    let mut left = Vec::new();
    let mut is_full = false;
    for node in std::mem::take(live) {
        let fits = nodes.journal.has_room_for(&nodes.flash, Head::Gc, align8(node.len));
        if is_full || !fits {
            is_full |= misfit == Misfit::Ends;
            left.push(node);
            continue;
        }
        move_node(nodes, Place { leb: victim, offset: node.offset }, node, bytes)?;
    }
    *live = left;
    Ok(())
}

/// Appends a node of the LEB in `bytes` to the GC head. The index refers to its old place.
fn move_node(nodes: &mut Nodes, old: Place, node: Live, bytes: &[u8]) -> Step<()> {
    let content = bytes
        .get(node.offset as usize..(node.offset + node.len) as usize)
        .ok_or_else(|| Fault::refused(old.location(), "node-cut", "node cut"))?;
    let moved = nodes.append_node(Head::Gc, content)?;
    let Nodes { tnc, flash, lprops, .. } = nodes;
    match tnc.position_at(flash, node.key, old)? {
        Some(position) => {
            let new = Zbranch::leaf(node.key, moved.place, node.len);
            tnc.replace(flash, lprops, position, new)?;
            // If a commit is required first, the victim becomes available in its current state.
            lprops.add_dirt(flash, old.leb, node.len)
        }
        None => nodes.waste(&moved),
    }
}
