//! Garbage collection (spec: ubifs-runtime 14).
//!
//! # Invariants
//! 1. One LEB, `gc_lnum`, is kept empty so that collecting can begin on a full volume; it is 0 only
//!    between the moment it becomes the GC head and the moment a victim takes its place.
//! 2. Nothing is erased before every write buffer is on flash, because a buffer may hold the node
//!    that made another one obsolete.
//! 3. LEBs that held index nodes are `queued`: the committed index may need them, so they are
//!    erased after the next commit.

use super::core::Core;
use super::error::{Fault, Step, at};
use super::journal::Written;
use super::tnc::Zbranch;
use super::wbuf::{BASE_HEAD, DATA_HEAD, GC_HEAD};
use eraseblock_base::Leb;
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::scan::Scanner;
use eraseblock_ubifs_format::{Key, KeyKind};

/// Rounds before giving up.
const HARD_LIMIT: u32 = 32;
/// Rounds after which to wait for freed index LEBs.
const SOFT_LIMIT: u32 = 4;

/// State of garbage collection.
#[derive(Debug, Default)]
pub(super) struct Gc {
    /// The reserved LEB, 0 for none.
    pub(super) gc_lnum: u32,
    /// Index LEBs that were freed: number, and whether the running commit makes them erasable.
    pub(super) queued: Vec<(u32, bool)>,
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

impl Core {
    /// Collects garbage until a LEB is free, and returns it, taken and erased (spec: ubifs-runtime
    /// 14.3). With `for_budget`, LEBs that are already empty do not count.
    pub(super) fn collect_garbage(&mut self, for_budget: bool) -> Step<u32> {
        self.flash.check_writable()?;
        self.sync_heads()?;
        let result = self.collect_rounds(for_budget);
        let result = match result {
            Err(fault) if fault.is_no_space() && !self.gc.queued.is_empty() => {
                Err(Fault::CommitFirst)
            }
            other => other,
        };
        match &result {
            Ok(_) | Err(Fault::CommitFirst) => {}
            Err(fault) if fault.is_no_space() => {}
            Err(fault) => {
                let reason = format!("garbage collection: {}", fault.describe());
                self.flash.turn_read_only(&reason);
                return result;
            }
        }
        self.sync_head(GC_HEAD)?;
        if self.gc.gc_lnum != 0 {
            self.flash.unmap(self.gc.gc_lnum)?;
        }
        result
    }

    fn collect_rounds(&mut self, for_budget: bool) -> Step<u32> {
        let mut min_space = self.flash.dead_wm;
        for round in 0..HARD_LIMIT {
            if self.log.wants_commit || (round > SOFT_LIMIT && !self.gc.queued.is_empty()) {
                return Err(Fault::CommitFirst);
            }
            let Some(victim) = self.find_victim(min_space, !for_budget)? else {
                return Err(Fault::no_space());
            };
            let space_before = self.heads[GC_HEAD].room(&self.flash);
            let collected = self.collect_leb(victim);
            if let Err(Fault::CommitFirst) = &collected {
                self.lprops.set_taken(&self.flash, victim, false)?;
            }
            match collected? {
                Collected::Freed(leb) => return Ok(leb),
                Collected::IndexFreed => {}
                Collected::Retained => {
                    if self.heads[GC_HEAD].room(&self.flash) > space_before {
                        min_space = (min_space / 2).max(self.flash.dead_wm);
                    } else if round > SOFT_LIMIT {
                        min_space = (min_space * 2).min(self.flash.dark_wm);
                    }
                }
            }
        }
        Err(Fault::no_space())
    }

    /// Collects one LEB, which is taken (spec: ubifs-runtime 14.5).
    pub(super) fn collect_leb(&mut self, victim: u32) -> Step<Collected> {
        let lp = self.lprops.get(&self.flash, victim)?;
        if lp.reclaimable() == self.flash.leb_size && !lp.index {
            self.sync_head(BASE_HEAD)?;
            self.sync_head(DATA_HEAD)?;
            self.lprops.set_empty(&self.flash, victim)?;
            self.flash.unmap(victim)?;
            if self.gc.gc_lnum == 0 {
                self.gc.gc_lnum = victim;
                return Ok(Collected::Retained);
            }
            return Ok(Collected::Freed(victim));
        }
        let mut bytes = Vec::new();
        self.flash.read_leb(victim, &mut bytes)?;
        if lp.index {
            self.flash.activity.index_lebs_collected += 1;
            self.move_index_nodes(victim, &bytes)?;
            self.lprops.set_empty(&self.flash, victim)?;
            self.gc.queued.push((victim, false));
            return Ok(Collected::IndexFreed);
        }
        self.flash.activity.leaf_lebs_collected += 1;
        self.move_leaves(victim, &bytes)?;
        self.sync_head(BASE_HEAD)?;
        self.sync_head(DATA_HEAD)?;
        self.lprops.set_empty(&self.flash, victim)?;
        if self.gc.gc_lnum == 0 {
            self.gc.gc_lnum = victim;
            return Ok(Collected::Retained);
        }
        self.sync_head(GC_HEAD)?;
        self.flash.unmap(victim)?;
        Ok(Collected::Freed(victim))
    }

    /// Makes every index node of a LEB dirty that is still in the tree, so that the next commit
    /// writes it elsewhere.
    fn move_index_nodes(&mut self, leb: u32, bytes: &[u8]) -> Step<()> {
        for (offset, level, key) in self.index_nodes(leb, bytes)? {
            let Self { tnc, flash, lprops, .. } = self;
            if let Some(id) = tnc.find_clean(flash, level, key, (leb, offset))? {
                tnc.dirty(flash, lprops, id)?;
            }
        }
        Ok(())
    }

    /// Returns the index nodes of a LEB: offset, level, first key.
    pub(super) fn index_nodes(&self, leb: u32, bytes: &[u8]) -> Step<Vec<(u32, u32, Key)>> {
        let flash = &self.flash;
        let mut scanner = Scanner::new(Leb::new(leb), bytes, 0, flash.limits);
        let mut found = Vec::new();
        for (offset, node) in scanner.by_ref() {
            let index = node.index(&flash.limits, flash.main_first, flash.leb_cnt)?;
            let key = index.branches.first().map_or(Key::MIN, |branch| branch.key);
            found.push((offset, index.level, key));
        }
        match scanner.strict_error(flash.min_io) {
            None => Ok(found),
            Some(error) => Err(error.into()),
        }
    }

    /// Moves the live nodes of a data LEB to the GC head, unchanged (spec: ubifs-runtime 14.6).
    fn move_leaves(&mut self, victim: u32, bytes: &[u8]) -> Step<()> {
        let (mut data, mut others) = self.live_nodes(victim, bytes)?;
        while !(data.is_empty() && others.is_empty()) {
            if self.heads[GC_HEAD].leb == 0 {
                self.switch_gc_head()?;
            }
            self.fill_gc_head(victim, bytes, &mut data, false)?;
            self.fill_gc_head(victim, bytes, &mut others, true)?;
            if !(data.is_empty() && others.is_empty()) {
                self.switch_gc_head()?;
            }
        }
        Ok(())
    }

    /// Returns the nodes of a LEB that the index refers to: content by position in its file, and
    /// the rest.
    fn live_nodes(&mut self, victim: u32, bytes: &[u8]) -> Step<(Vec<Live>, Vec<Live>)> {
        let mut scanner = Scanner::new(Leb::new(victim), bytes, 0, self.flash.limits);
        let (mut data, mut others) = (Vec::new(), Vec::new());
        for (offset, node) in scanner.by_ref() {
            let Some(key) = node.key() else {
                if node.header.node_type == NodeType::Index {
                    let message = "an index node in a data LEB";
                    return Err(Fault::refused(node.at, "leb-mixed", message));
                }
                continue;
            };
            if self.position_of(key, victim, offset)?.is_none() {
                continue;
            }
            let live = Live { offset, len: node.header.len, key };
            let list = if key.kind() == Some(KeyKind::Data) { &mut data } else { &mut others };
            list.push(live);
        }
        if let Some(error) = scanner.strict_error(self.flash.min_io) {
            return Err(error.into());
        }
        data.sort_by_key(|live| live.key);
        others.sort_by_key(|live| {
            let is_inode = live.key.kind() == Some(KeyKind::Inode);
            (!is_inode, if is_inode { u32::MAX - live.len } else { 0 }, live.key)
        });
        Ok((data, others))
    }

    /// Appends nodes while they fit; with `skip`, passes over those that do not.
    fn fill_gc_head(
        &mut self,
        victim: u32,
        bytes: &[u8],
        nodes: &mut Vec<Live>,
        skip: bool,
    ) -> Step<()> {
        let mut left = Vec::new();
        let mut is_full = false;
        for live in std::mem::take(nodes) {
            let fits = self.heads[GC_HEAD].room(&self.flash) >= live.len.next_multiple_of(8);
            if is_full || !fits {
                is_full = is_full || !skip;
                left.push(live);
                continue;
            }
            let node = bytes
                .get(live.offset as usize..(live.offset + live.len) as usize)
                .ok_or_else(|| Fault::refused(at(victim, live.offset), "node-cut", "node cut"))?;
            let (leb, offset) = self.append(GC_HEAD, node)?;
            let moved = Written { leb, offset, len: live.len };
            match self.position_of(live.key, victim, live.offset)? {
                Some(position) => {
                    let new = Zbranch::leaf(live.key, leb, offset, live.len);
                    let Self { tnc, flash, lprops, .. } = self;
                    tnc.replace(flash, lprops, position, new)?;
                    // If a commit is required first, return the victim in its current state.
                    lprops.add_dirt(flash, victim, live.len)?;
                }
                None => self.waste(&moved)?,
            }
        }
        *nodes = left;
        Ok(())
    }

    /// Makes the reserved LEB the GC head.
    fn switch_gc_head(&mut self) -> Step<()> {
        self.sync_head(GC_HEAD)?;
        let leb = self.gc.gc_lnum;
        if leb == 0 {
            return Err(Fault::no_space());
        }
        self.flash.unmap(leb)?;
        self.add_bud(GC_HEAD, leb, 0)?;
        self.gc.gc_lnum = 0;
        self.heads[GC_HEAD].seek(leb, 0);
        Ok(())
    }

    /// Performs the first step of a commit: empties data LEBs without live nodes, and queues index
    /// LEBs without live nodes (spec: ubifs-runtime 11.3 step 3).
    pub(super) fn gc_start_commit(&mut self) -> Step<()> {
        use super::lprops::Category::{Freeable, FreeableIndex};
        let lebs =
            |set: &super::lprops::BySpace| set.iter().map(|(_, leb)| *leb).collect::<Vec<_>>();
        for leb in lebs(self.lprops.set(Freeable)) {
            self.flash.unmap(leb)?;
            self.lprops.set_empty(&self.flash, leb)?;
        }
        for (_, erasable) in &mut self.gc.queued {
            *erasable = true;
        }
        for leb in lebs(self.lprops.set(FreeableIndex)) {
            self.lprops.set_taken(&self.flash, leb, true)?;
            self.lprops.set_empty(&self.flash, leb)?;
            self.gc.queued.push((leb, true));
        }
        Ok(())
    }

    /// Performs the last step of a commit: erases and returns queued index LEBs.
    pub(super) fn gc_end_commit(&mut self) -> Step<()> {
        for (leb, erasable) in std::mem::take(&mut self.gc.queued) {
            if erasable {
                self.flash.unmap(leb)?;
                self.lprops.set_taken(&self.flash, leb, false)?;
            } else {
                self.gc.queued.push((leb, erasable));
            }
        }
        Ok(())
    }
}
